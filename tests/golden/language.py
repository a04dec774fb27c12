"""The language of the scenarios: an operator's notes become commands. It is described in README.md beside this file.

A word nobody knows is an error that names file and line.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace as changed

import remuda_config
from remuda_core import commands
from remuda_core.facts import Allocated, Ask, Fact, PlaceholderReplaced
from remuda_core.settings import (
    CALENDARS,
    MONTH,
    Budget,
    ChildTemplate,
    Configuration,
    Limit,
    PartitionSettings,
    PlacementFilter,
    PlacementRule,
    QueueSettings,
    Timing,
    TopologyLevel,
    built_in,
)
from remuda_core.state import Partition, Question, Replacement
from remuda_core.wire.configuration import read_configuration
from remuda_proto.constants import DEVICES_COUNT, DEVICES_OCCUPIED, DEVICES_TAG, DEVICES_UNFIT, LEAVES_AT, TOPOLOGY_TAG
from remuda_proto.durations import EXPECTED, milliseconds
from tests.golden.operators import operator
from tests.golden.predicate_classes import verdicts
from tests.property.world import RM, World

SUFFIXES: Final = {"M": 10**6, "G": 10**9}
EVERYTHING: Final = 1_000_000
# The indented lines below this word are YAML.
FILE: Final = "queues.yaml"


class Unreadable(Exception):
    """file:line: what is wrong"""


@dataclass
class Line:
    """One line of notes, with the lines indented below it."""

    where: str
    word: str
    names: list[str]
    values: dict[str, str]
    below: list[Line] = field(default_factory=list)
    text: list[str] = field(default_factory=list)  # what is below, where it is another language

    def wrong(self, what: str) -> Unreadable:
        return Unreadable(f"{self.where}: {self.word}: {what}")

    def take(self, key: str, default: str = "") -> str:
        return self.values.pop(key, default)

    def resource(self, prefix: str = "") -> dict[str, int]:
        """The values that are left (or those with the prefix) as amounts."""
        keys = [key for key in self.values if key.startswith(prefix)]
        return {key.removeprefix(prefix): self.amount(key) for key in keys}

    def amount(self, key: str) -> int:
        text = self.values.pop(key)
        times = SUFFIXES.get(text[-1:], 1)
        try:
            return int(text if times == 1 else text[:-1]) * times
        except ValueError:
            raise self.wrong(f"{key}={text}: expected a whole number") from None

    def number(self, key: str, default: int) -> int:
        return self.amount(key) if key in self.values else default

    def flag(self, key: str, default: str = "false") -> bool:
        text = self.take(key, default)
        if text not in ("true", "false"):
            raise self.wrong(f"{key}={text}: expected true or false")
        return text == "true"

    def duration_ms(self, text: str) -> int:
        ms = milliseconds(text)
        if ms is None:
            raise self.wrong(f"{text}: {EXPECTED}")
        return ms

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): self.values.pop(key) for key in list(self.values) if key.startswith(prefix)}

    def one(self, what: str) -> str:
        if len(self.names) != 1:
            raise self.wrong(f"expected one {what}, got {' '.join(self.names) or 'none'}")
        return self.names[0]

    def done(self) -> None:
        if self.values:
            raise self.wrong(f"{', '.join(self.values)}: not known here")


def read(where: str, text: str) -> Line:
    try:
        word, *rest = shlex.split(text)
    except ValueError as error:
        raise Unreadable(f"{where}: {error}") from None
    line = Line(where, word, [], {})
    for part in rest:
        key, equals, value = part.partition("=")
        if not equals:
            line.names.append(part)
        elif key in line.values:
            raise line.wrong(f"{key} is given twice")
        else:
            line.values[key] = value
    return line


# Configuration


class Settings:
    """Collects `partition`, `queue`, `limit`, `rule`, `timing` and `compatibility` lines."""

    WORDS: Final = ("partition", "queue", "limit", "rule", "timing", "compatibility")

    def __init__(self) -> None:
        self._partitions: dict[str, PartitionSettings] = {}
        self._queues: dict[str, dict[str, QueueSettings]] = {}
        self._current = "default"
        self._timing: dict[str, int] = {}
        self.compatibility = "none"

    def add(self, line: Line) -> None:
        words = {"partition": self._partition, "queue": self._queue, "limit": self._limit, "rule": self._rule,
                 "timing": self._time, "compatibility": self._compatible}  # fmt: skip
        words[line.word](line)
        line.done()

    def _time(self, line: Line) -> None:
        """`timing completing=40s`"""
        self._timing = {f"{name}_ms": line.duration_ms(line.take(name)) for name in list(line.values)}

    def _compatible(self, line: Line) -> None:
        self.compatibility = line.one("version")

    def _partition(self, line: Line) -> None:
        self._current = line.one("name")
        settings = replace_partition(self._settings(), node_sort=line.take("nodesort", "fair"))
        settings = replace_partition(
            settings, preemption_enabled=line.flag("preemption", "true"), pack=line.take("pack", ""),
            quota_preemption_enabled=line.flag("quotapreemption"), preemption_threshold=line.number("threshold", 0),
            preemption_interval_ms=line.duration_ms(line.take("interval", "0s")),
            reservation_share=line.number("share", 50), queue_reservation_share=line.number("queueshare", 25),
        )  # fmt: skip
        settings = replace_partition(
            settings, backfill=line.take("backfill", ""), backfill_order=line.take("backfillorder", "")
        )
        levels = tuple(TopologyLevel(name, attribute) for name, attribute in line.with_prefix("level.").items())
        settings = replace_partition(settings, devices=line.resource("device."), topology=levels)
        weights = {name: float(value) for name, value in line.with_prefix("weight.").items()}
        self._partitions[self._current] = replace_partition(settings, resource_weights=weights) if weights else settings

    def _settings(self) -> PartitionSettings:
        return self._partitions.setdefault(
            self._current, PartitionSettings(self._current, QueueSettings("root", parent=True))
        )

    def _path(self, line: Line) -> str:
        path = line.one("path")
        if path != "root" and not path.startswith("root."):
            raise line.wrong(f"{path}: expected root or a path below it")
        return path

    def _limit(self, line: Line) -> None:
        """Of a queue that is written down further up."""
        path, queues = self._path(line), self._queues.get(self._current, {})
        if path not in queues:
            raise line.wrong(f"{path} is not there yet")
        users, groups = (tuple(filter(None, line.take(key).split(","))) for key in ("users", "groups"))
        limit = Limit(users, groups, line.resource("max."), line.number("maxapps", 0))
        queues[path] = changed(queues[path], limits=(*queues[path].limits, limit))

    def _queue(self, line: Line) -> None:
        path = self._path(line)
        self._settings()
        queues = self._queues.setdefault(self._current, {})
        if path in queues:
            raise line.wrong(f"{path} is there already")
        queues[path] = QueueSettings(
            path.rpartition(".")[2],
            line.flag("parent"),
            line.resource("guaranteed."),
            line.resource("max."),
            line.number("maxapps", 0),
            properties(line),
            admin_acl=line.take("adminacl"),
            submit_acl=line.take("submitacl"),
            child_template=template(line),
            budget=budget(line),
        )

    def _rule(self, line: Line) -> None:
        settings = self._settings()
        self._partitions[self._current] = replace_partition(
            settings, placement_rules=(*settings.placement_rules, rule(line))
        )

    def configuration(self, checksum: str) -> Configuration:
        beside = {"timing": Timing(**self._timing), "compatibility": self.compatibility}
        if not self._partitions:
            return changed(built_in(), checksum=checksum, **beside)
        partitions = tuple(self._tree(name) for name in self._partitions)
        return changed(Configuration(checksum, partitions, source="scenario"), **beside)

    def _tree(self, name: str) -> PartitionSettings:
        """Parents that a scenario leaves out are added; root is open to all unless the scenario has it."""
        written = {"root": QueueSettings("root", parent=True, submit_acl="*"), **self._queues.get(name, {})}
        queues: dict[str, QueueSettings] = {}
        for path in written:
            names = path.split(".")
            for above in (".".join(names[: n + 1]) for n in range(len(names))):
                queues.setdefault(above, written.get(above, QueueSettings(above.rpartition(".")[2])))

        def grow(path: str) -> QueueSettings:
            below = tuple(grow(child) for child in queues if child.rpartition(".")[0] == path)
            return changed(queues[path], queues=below)

        return replace_partition(self._partitions[name], root=changed(grow("root"), parent=True))


def replace_partition(settings: PartitionSettings, **changes: object) -> PartitionSettings:
    return changed(settings, **changes)


PROPERTIES: Final = {
    "sort": "application.sort.policy",
    "sortpriority": "application.sort.priority",
    "prioritypolicy": "priority.policy",
    "offset": "priority.offset",
    "preemption": "preemption.policy",
    "delay": "preemption.delay",
    "quotadelay": "quota.preemption.delay",
    "runtimedefault": "runtime.default",
    "runtimemost": "runtime.most",
    "halflife": "fair.half-life",
    "ahead": "fair.ahead",
    "patience": "fair.patience",
    "weight": "fair.weight",
    "first": "fair.guaranteed",
    "userweights": "fair.user-weights",
}


def properties(line: Line, prefix: str = "") -> dict[str, str]:
    return {name: line.take(prefix + key) for key, name in PROPERTIES.items() if prefix + key in line.values}


def budget(line: Line, prefix: str = "") -> Budget | None:
    amounts = line.resource(f"{prefix}budget.")
    if not amounts:
        return None
    period = line.take(f"{prefix}period", MONTH)
    return Budget(amounts, period) if period in CALENDARS else Budget(amounts, "", line.duration_ms(period))


def template(line: Line) -> ChildTemplate | None:
    if not any(key.startswith("template.") for key in line.values):
        return None
    guaranteed, maximum = line.resource("template.guaranteed."), line.resource("template.max.")
    return ChildTemplate(
        line.number("template.maxapps", 0), properties(line, "template."), guaranteed, maximum,
        budget(line, "template."),
    )  # fmt: skip


def rule(line: Line) -> PlacementRule:
    """`rule tag value=namespace create=true parent=user parent.create=true`"""
    chosen = None
    users, groups, kind = line.take("users"), line.take("groups"), line.take("filter", "allow")
    if users or groups:
        chosen = PlacementFilter(kind, tuple(filter(None, users.split(","))), tuple(filter(None, groups.split(","))))
    parent = None
    if name := line.take("parent"):
        parent = PlacementRule(name, line.flag("parent.create"), line.take("parent.value"))
    return PlacementRule(line.one("rule"), line.flag("create"), line.take("value"), chosen, parent)


# Commands


class Notes:
    """Reads the lines of one RM and carries them out in its world."""

    def __init__(self, rm_id: str = RM) -> None:
        self.world = World(rm_id)
        self.rm_id = rm_id
        self.settings = Settings()
        self.registered = False
        self.causes: list[str] = []  # of each entry in the log of the world
        self._file: Configuration | None = None
        self._versions = 0
        self._extra_config: dict[str, str] = {}
        self.uuids: dict[str, list[str]] = {}  # app/key -> UUIDs of all it was ever allocated, the oldest first

    def carry_out(self, line: Line) -> list[Fact]:
        """The facts it led to."""
        if line.word in Settings.WORDS and not self.registered:
            self.settings.add(line)
            return []
        if line.word == "declare" and not self.registered:
            self._extra_config |= {**dict.fromkeys(line.names, "true"), **line.values}
            return []
        if line.word not in WORDS:
            raise line.wrong(f"expected one of {', '.join((*Settings.WORDS, *WORDS))}")
        if not self.registered:
            self.registered = True
            configuration = self._file or self._configuration(self.settings)
            self._do(commands.Register(self.rm_id, configuration, extra_config=self._extra_config))
        facts: list[Fact] = []
        for command in WORDS[line.word](self, line):
            line.done()
            facts += self._do(command)
        line.done()
        return facts

    def read_file(self, line: Line) -> list[Fact]:
        """Raises remuda_config.Invalid, with all that is wrong with the text below."""
        line.done()
        text = textwrap.dedent("\n".join(line.text))
        self._file = read_configuration(remuda_config.load(text, "scenario", self.settings.compatibility))
        return self._do(commands.Configure(self._file)) if self.registered else []

    def _do(self, command: commands.Command) -> list[Fact]:
        facts = self.world.handle(command)
        self.causes.append(type(command).__name__)
        for fact in facts:
            if isinstance(fact, PlaceholderReplaced):
                fact = fact.allocation
            if isinstance(fact, Allocated):
                self.uuids.setdefault(f"{fact.application_id}/{fact.allocation_key}", []).append(fact.uuid)
        return facts

    def _configuration(self, settings: Settings) -> Configuration:
        self._versions += 1
        return settings.configuration(f"version-{self._versions}")

    def partition(self, line: Line) -> str:
        return f"[{self.rm_id}]{line.take('partition', 'default')}"

    # One per word

    def configure(self, line: Line) -> Iterator[commands.Command]:
        yield commands.Configure(self._configuration(self._below(line)))

    def register(self, line: Line) -> Iterator[commands.Command]:
        rm_id = line.take("rm", self.rm_id)
        configuration = self._configuration(self._below(line) if line.below else self.settings)
        resync = {"resync": line.take("resync")} if "resync" in line.values else {}
        yield commands.Register(rm_id, configuration, extra_config=self._extra_config | resync)

    def connection(self, line: Line) -> Iterator[commands.Command]:
        yield commands.RmConnection(line.word, line.take("reason", "silent for 15 s"), line.number("registration", 0))

    def _below(self, line: Line) -> Settings:
        settings = Settings()
        for below in line.below:
            if below.word not in Settings.WORDS:
                raise below.wrong(f"expected one of {', '.join(Settings.WORDS)}")
            settings.add(below)
        return settings

    def nodes(self, line: Line) -> Iterator[commands.Command]:
        partition, action = self.partition(line), "CREATE_DRAIN" if line.flag("draining") else "CREATE"
        attributes = self._attributes(line)
        occupied, capacity = line.resource("occupied."), line.resource()
        for node_id in line.one("list of nodes").split(","):
            running = tuple(self._running(below, node_id) for below in line.below)
            yield commands.UpdateNode(partition, node_id, action, attributes, capacity, occupied, running)

    def _attributes(self, line: Line) -> dict[str, str]:
        """`ready=false`, `leaves=2h` in two hours, and of devices `names.gpu=a,b unfit.gpu=b on.gpu=a=500`."""
        found = {key: line.take(key) for key in ("ready",) if key in line.values}
        if after := line.take("leaves"):
            found[LEAVES_AT] = str(self.world.now_ms + line.duration_ms(after))
        found |= line.with_prefix("attr.")
        for word, suffix in (("names.", ""), ("unfit.", DEVICES_UNFIT), ("on.", DEVICES_OCCUPIED)):
            found |= {f"{DEVICES_TAG}{name}{suffix}": text for name, text in line.with_prefix(word).items()}
        return found

    def _topology(self, line: Line) -> dict[str, str]:
        """`top.required=rack top.size=16`"""
        return {f"{TOPOLOGY_TAG}{name}": text for name, text in line.with_prefix("top.").items()}

    def _running(self, line: Line, node_id: str) -> Allocated:
        """`running app-1/k1 vcore=1 uuid=u-1 [node=...]`"""
        if line.word not in ("running", "recover"):
            raise line.wrong("expected running")
        application, key = self.key(line, line.one("app/key"))
        uuid, node_id, partition = line.take("uuid", f"u-{key}"), line.take("node", node_id), self.partition(line)
        self.uuids.setdefault(f"{application}/{key}", []).append(uuid)
        group, placeholder = line.take("group"), line.flag("placeholder")
        tags = line.with_prefix("tag.") | self._topology(line)
        tags |= {DEVICES_TAG + name: text for name, text in line.with_prefix("devices.").items()}
        found = Allocated(
            partition, application, key, uuid, node_id, line.resource(), 0, tags, group, placeholder=placeholder
        )
        line.done()
        return found

    def update(self, line: Line) -> Iterator[commands.Command]:
        partition, attributes = self.partition(line), self._attributes(line)
        occupied, capacity = line.resource("occupied."), line.resource()
        yield commands.UpdateNode(partition, line.one("node"), "UPDATE", attributes, capacity or None, occupied or None)

    def act(self, line: Line) -> Iterator[commands.Command]:
        action = {"drain": "DRAIN_NODE", "undrain": "DRAIN_TO_SCHEDULABLE", "decommission": "DECOMISSION"}.get(
            line.word
        )
        yield commands.UpdateNode(self.partition(line), line.one("node"), action or line.take("action"))

    def submit(self, line: Line) -> Iterator[commands.Command]:
        partition, queue, user = self.partition(line), line.take("queue"), line.take("user", "alice")
        groups = tuple(filter(None, line.take("groups").split(",")))
        tags, timeout_ms = line.with_prefix("tag.") | self._topology(line), self._timeout_ms(line)
        rest = (tags, timeout_ms, line.resource("gang."), line.take("style"), line.take("unresolved"))
        for application in line.one("list of applications").split(","):
            yield commands.SubmitApplication(partition, application, queue, user, groups, *rest)

    def remove(self, line: Line) -> Iterator[commands.Command]:
        yield commands.RemoveApplication(self.partition(line), line.one("application"))

    def ask(self, line: Line) -> Iterator[commands.Command]:
        partition, priority, tags = self.partition(line), line.number("priority", 0), line.with_prefix("tag.")
        tags |= self._topology(line)
        tags |= {f"{DEVICES_TAG}{name}{DEVICES_COUNT}": text for name, text in line.with_prefix("count.").items()}
        if "node" in line.values:
            tags["si/requiredNode"] = line.take("node")
        count = 1
        if line.names and line.names[-1].startswith("x"):
            count = int(line.names.pop()[1:])
        application, keys = self.key(line, line.one("app/key"))
        timeout_ms, group, placeholder = self._timeout_ms(line), line.take("group"), line.flag("placeholder")
        preemptable, preempts, originator = line.take("preemptable"), line.flag("preempts"), line.flag("originator")
        allow_self = None if not preemptable and not preempts else preemptable == "true"
        resource = line.resource()
        for key in keys.split(","):
            yield commands.SubmitAsk(
                Ask(
                    partition, application, key, resource, count, priority, timeout_ms, tags, group, placeholder,
                    originator, allow_self, None if allow_self is None else preempts,
                )
            )  # fmt: skip

    def withdraw(self, line: Line) -> Iterator[commands.Command]:
        partition, name = self.partition(line), line.one("application or app/key")
        application, _, key = name.partition("/")
        yield commands.ReleaseAsk(partition, "" if application == "*" else application, key)

    def release(self, line: Line) -> Iterator[commands.Command]:
        """Of a key, the oldest that is there; when none is, the one that was there last."""
        partition, uuid, name = self.partition(line), line.take("uuid"), line.one("application or app/key")
        application, slash, key = name.partition("/")
        if slash and not uuid:
            uuids = self.uuids.get(name, ["never-there"])
            known = self._known(partition)
            uuid = next((u for u in uuids if known is not None and u in known.allocations), uuids[-1])
        yield commands.ReleaseAllocation(partition, application, uuid, allocation_key=key)

    def confirm(self, line: Line) -> Iterator[commands.Command]:
        """Confirm the releases that the core has requested: of a key, or all of the application."""
        partition, name = self.partition(line), line.one("application or app/key")
        application, _, key = name.partition("/")
        known = self._known(partition)
        for allocation in list(known.allocations.values()) if known is not None else []:
            fact = allocation.fact
            if allocation.releasing and fact.application_id == application and key in ("", fact.allocation_key):
                yield commands.ReleaseAllocation(
                    partition, application, fact.uuid, allocation.releasing, allocation_key=fact.allocation_key
                )

    def _known(self, partition: str) -> Partition | None:
        return self.world.state.partitions.get(partition)

    def recover(self, line: Line) -> Iterator[commands.Command]:
        yield commands.RecoverAllocation(self._running(line, ""))

    def answer(self, line: Line) -> Iterator[commands.Command]:
        """`answer app-1/k1 yes`, `answer * no reason=...`: to the oldest question about it, or to all there are."""
        reason, spared = line.take("reason"), tuple(filter(None, line.take("spares").split(",")))
        if len(line.names) != 2 or line.names[1] not in ("yes", "no"):
            raise line.wrong("expected app/key or *, and yes or no")
        name, word = line.names
        for partition in self.world.state.partitions.values():
            opened: dict[int, Question | Replacement] = {**partition.questions, **partition.replacements_asked}
            asked = [
                number
                for number, q in opened.items()
                if name in ("*", f"{q.fact.application_id}/{q.fact.allocation_key}")
            ]
            asked += [
                p.question for ids, p in partition.preemptions.items() if p.question and name in ("*", "/".join(ids))
            ]
            for number in asked if name == "*" else asked[:1]:
                yield commands.AnswerPredicate(partition.name, number, word == "yes", reason, spared)

    def cycle(self, line: Line) -> Iterator[commands.Command]:
        yield commands.Schedule(int(line.one("number")) if line.names else EVERYTHING)

    def tick(self, line: Line) -> Iterator[commands.Command]:
        self.world.now_ms += line.duration_ms(line.one("duration"))
        yield commands.Tick()
        yield commands.CleanQueues()

    def _timeout_ms(self, line: Line) -> int:
        return line.duration_ms(line.take("timeout")) if "timeout" in line.values else 0

    def key(self, line: Line, name: str) -> tuple[str, str]:
        application, slash, key = name.partition("/")
        if not slash:
            raise line.wrong(f"{name}: expected app/key")
        return application, key


WORDS: Final[Mapping[str, Callable[[Notes, Line], Iterator[commands.Command]]]] = {
    "register": Notes.register, "configure": Notes.configure, "cycle": Notes.cycle, "tick": Notes.tick,
    "lost": Notes.connection, "back": Notes.connection, "gone": Notes.connection, "deregistered": Notes.connection,
    "node": Notes.nodes, "nodes": Notes.nodes, "update": Notes.update, "operator": operator, "verdicts": verdicts,
    "drain": Notes.act, "undrain": Notes.act, "decommission": Notes.act, "act": Notes.act,
    "submit": Notes.submit, "remove": Notes.remove, "ask": Notes.ask, "withdraw": Notes.withdraw,
    "release": Notes.release, "confirm": Notes.confirm, "recover": Notes.recover, "answer": Notes.answer,
}  # fmt: skip
