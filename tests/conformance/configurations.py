"""make conformance-config: the reference's verdicts and settings over a corpus of configurations, and ours.

    config/files/*.yaml, verdict.json      is it accepted: when read, at registration, as an update
    config/effective.json                  the settings in force after registration, and after an update
    config/updates/, config/updates.json   pairs of texts: settings and queues before and after

Ours are read out of the core, after Register and Configure as the services send them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import remuda_config
from remuda_config import schema
from remuda_config.schema import Queue
from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import ConfigurationRefused, RegistrationRefused
from remuda_core.rules.properties import sort_policy
from remuda_core.settings import ChildTemplate
from remuda_core.state import Queue as LiveQueue
from remuda_core.wire.configuration import read_configuration
from remuda_proto.durations import milliseconds
from remuda_proto.names import QUEUE, USER

from .in_process import COMPATIBILITY
from .recording import Json
from .reference_placement import QUEUE_NAME, USER_NAME

RM: Final = "rm:123"
NOW_MS: Final = 1_700_000_000_000
# The work that ran when the files of the corpus came as updates.
BASE: Final = "partitions:\n- name: default\n  queues:\n  - name: root\n    queues:\n    - name: basequeue\n"

MISSING_QUEUE: Final = re.compile(
    r"rule no\. #(?P<rule>\d+) \S+ references non-existing queues \((?P<queue>.+)\) and create is 'false'"
)

CHILD_NAME: Final = re.compile(r"invalid child name (.*), a name must only have")
USER_NAME_IN: Final = re.compile(r"invalid limit user name '(.*)' in limit definition")


def paths_with_upper_case(text: str) -> set[str]:
    """The queues of a text that are written with an upper-case letter, in lower case."""
    found: set[str] = set()

    def walk(queue: Queue, above: str) -> None:
        path = f"{above}.{queue.name}" if above else "root"
        if path != path.lower():
            found.add(path.lower())
        for child in queue.queues:
            walk(child, path)

    for partition in schema.validate(schema.read_yaml(text))[0].partitions:
        walk(partition.root(())[0], "")
    return found


def creates_in_parent_only(text: str, number: int) -> bool:
    """Whether that rule of a partition creates no queue, and a rule for its parent queue does."""
    for partition in schema.validate(schema.read_yaml(text))[0].partitions:
        if number < len(partition.placementrules):
            rule = partition.placementrules[number]
            above = rule.parent
            while above is not None:
                if above.create and not rule.create:
                    return True
                above = above.parent
    return False


# Texts the reference refuses and we accept: reason -> a predicate of (its error, the text).
LAXER: Final[dict[str, Callable[[str, str], object]]] = {
    "queue names are case-insensitive, also in placement rules": lambda error, text: (
        (missing := MISSING_QUEUE.search(error)) and missing["queue"].lower() in paths_with_upper_case(text)
    ),
    "a rule without create finds a queue that its parent rule creates": lambda error, text: (
        (missing := MISSING_QUEUE.search(error)) and creates_in_parent_only(text, int(missing["rule"]))
    ),
    "a queue with children is a parent, with or without `parent: true`": lambda error, text: (
        re.search(r"\(fixed->\w+\) references a queue \S+ which is not a leaf", error) and "queues:" in text
    ),
    "names of queues may have `: # / @`": lambda error, text: (
        (name := CHILD_NAME.search(error)) and QUEUE.matches(name[1]) and not QUEUE_NAME.matches(name[1])
    ),
    "names of users may have `# /`": lambda error, text: (
        (name := USER_NAME_IN.search(error)) and USER.matches(name[1]) and not USER_NAME.matches(name[1])
    ),
    "the name of the root queue is case-insensitive": lambda error, text: "without root queue" in error,
}

# Texts the reference accepts and we refuse: kind -> a pattern; each problem of such a text has to match one.
STRICTER: Final = {
    "an access list with a bad user or group name, or with `*` among names": (
        r"acl: .*((bad|empty) (user|group) name|stand alone)"
    ),
    "a configuration without partitions": r"at least one partition",
    "a limit above that of the same user or group in a queue above": r"limits.* is above the limit of ",
    "unknown keys": r"statedumpfilepath: unknown key",
    "a filter with several entries of which one is no name": r"filter\.\w+\[\d+\]: bad (user|group) name",
    "a placement rule with a bad queue name": r"placementrules.*bad queue name",
    "a fixed rule to a queue that does not exist": r"placementrules.*there is no such queue",
    "the rule `test`": r"unknown rule 'test'",
    "bad values of properties": r'properties\["[a-z.]*"\]: .*(unknown|whole number|duration|needs a name)',
    "a resource without a name": r"a resource needs a name",
    "a maximum below the guaranteed resources of the queues below": (
        r"less than what the queues below it are guaranteed"
    ),
    "a child template that breaks the rules of queues": (
        r"childtemplate\..* (is above|is not a quantity|has an unknown suffix)"
    ),
    "a count that is no whole number": r"maxapplications: expected a whole number",
    "a weight that is negative, infinite or no number": (
        r"resourceweights.* expected a number of at least 0 .*found [-+]?\.(?i:inf|nan)"
    ),
    "a rule that creates queues below a leaf": r"the rule makes queues below (\S+), but \1 is a leaf",
    "a bad partition name": r"bad partition name",
    "true or false in quotes": r"expected true or false \(without quotes\), found '",
}


@dataclass(frozen=True)
class Setting:
    """One setting of a queue that differs. `before`: what theirs had before the update, None without one; `anew`: what
    ours has when the RM registers with the text."""

    path: str
    name: str
    ours: Any
    theirs: Any
    before: Any = None
    anew: Any = None
    update: bool = False


FROM_PROPERTIES: Final = (
    "sortType", "prioritySortEnabled", "priorityPolicy", "priorityOffset", "preemptionPolicy", "preemptionDelayMs",
    "properties",
)  # fmt: skip

# Where both accept and the settings differ.
MEANS_ANOTHER: Final[dict[str, Callable[[Setting], object]]] = {
    "a child template may hold maxapplications alone": lambda s: (
        s.name in ("hasTemplate", "template") and not s.theirs
        and (s.ours is True or not any((s.ours or {"": 1}).values()))
    ),
    "property values with a fixed set of choices are lower case": lambda s: (
        s.name == "properties" and s.ours == {name: value.lower() for name, value in (s.theirs or {}).items()}
    ),
    "a maximum of zero is a maximum": lambda s: (
        s.name in ("max", "guaranteed")
        and s.ours and not any(s.ours.values()) and (s.theirs or None) == s.before
    ),
    "a maximum of zero is a maximum, also in templates": lambda s: (
        s.name == "template" and without_zeros(s.ours) == without_zeros(s.theirs)
    ),
    "a queue named root below root is an ordinary queue": lambda s: (
        s.name in ("max", "guaranteed") and s.path.endswith(".root") and not s.theirs
    ),
    "an update that removes max or guaranteed": lambda s: (
        s.update
        and s.name in ("max", "guaranteed")
        and s.ours == s.anew
        and not s.ours
        and s.theirs == s.before
    ),
    "an update of maxapplications": lambda s: (
        s.update and s.name == "maxRunningApps" and s.ours == s.anew and s.theirs == s.before
    ),
    "an update that removes properties, which are inherited anew": lambda s: (
        s.update and s.name in FROM_PROPERTIES and s.ours == s.anew
    ),
    "an update of templates": lambda s: (
        s.update and s.name in ("hasTemplate", "template") and s.ours == s.anew and s.theirs == s.before
    ),
}  # fmt: skip


@dataclass
class Result:
    """`kinds`: what explains it; `problems`: what nothing explains."""

    name: str
    kinds: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    @property
    def word(self) -> str:
        return "different" if self.problems else "explained" if self.kinds else "equal"


class World:
    """A core that is given texts. `refused`: why the last one was."""

    def __init__(self, text: str) -> None:
        self.core = Core(RM)
        self.refused = self._give(text, lambda configuration: commands.Register(RM, configuration))

    def update(self, text: str) -> str:
        self.refused = self._give(text, commands.Configure)
        return self.refused

    def _give(self, text: str, command: Callable[[Any], commands.Command]) -> str:
        try:
            configuration = read_configuration(remuda_config.load(text, compatibility=COMPATIBILITY))
        except remuda_config.Invalid as error:
            return "\n".join(map(str, error.problems))
        facts = self.core.handle(command(configuration), NOW_MS)
        refusals = [fact.reason for fact in facts if isinstance(fact, ConfigurationRefused | RegistrationRefused)]
        return refusals[0] if refusals else ""

    def settings(self) -> dict[str, dict[str, Json]]:
        """Partition -> path -> what is in force there."""
        return {
            name: {queue.path: in_force(queue) for queue in partition.root.below()}
            for name, partition in self.core.state.partitions.items()
        }

    def statuses(self) -> dict[str, dict[str, str]]:
        return {
            name: {queue.path: "Draining" if queue.draining else "Active" for queue in partition.root.below()}
            for name, partition in self.core.state.partitions.items()
            if not partition.draining
        }


def in_force(queue: LiveQueue) -> Json:
    """As the reference's settings tree has it."""
    settings = queue.settings
    value = settings.properties.get
    return {
        "leaf": queue.leaf,
        "managed": queue.managed,
        "sortType": sort_policy(settings.properties) if queue.leaf else "fair",
        "prioritySortEnabled": value("application.sort.priority", "enabled") == "enabled",
        "priorityPolicy": value("priority.policy", "default"),
        "priorityOffset": int(value("priority.offset", "0")),
        "preemptionPolicy": value("preemption.policy", "default"),
        # The preempting ask is in a leaf.
        "preemptionDelayMs": milliseconds(value("preemption.delay", "30s") if queue.leaf else "30s"),
        "maxRunningApps": settings.max_applications,
        "properties": dict(settings.properties),
        "max": dict(settings.max),
        "guaranteed": dict(settings.guaranteed),
        "hasTemplate": settings.child_template is not None,
        "template": template(settings.child_template),
    }


def template(settings: ChildTemplate | None) -> Json:
    if settings is None:
        return {}
    return {
        "properties": dict(settings.properties),
        "max": dict(settings.max),
        "guaranteed": dict(settings.guaranteed),
    }


def their_settings(root: Json) -> dict[str, Json]:
    found = {root["path"]: {**root, "template": their_template(root.get("template"))}}
    for child in root.get("children") or ():
        found |= their_settings(child)
    return found


def their_template(written: Json | None) -> Json:
    if not written:
        return {}
    return {name: written.get(name) or {} for name in ("properties", "max", "guaranteed")}


def without_zeros(settings: Json | None) -> Json:
    return {name: {key: value for key, value in values.items() if value} for name, values in (settings or {}).items()}


def compare(
    ours: Mapping[str, Json],
    theirs: Mapping[str, Json],
    before: Mapping[str, Json] | None = None,
    anew: Mapping[str, Json] | None = None,
) -> Iterator[Setting]:
    for path in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(path), theirs.get(path)
        if mine is None or other is None:
            yield Setting(path, "queue", mine and "there", other and "there")
            continue
        for name in mine:
            one, two = mine[name] or None, other.get(name) or None
            if one != two:
                was, fresh = ((each or {}).get(path, {}).get(name) or None for each in (before, anew))
                yield Setting(path, name, one, two, was, fresh, before is not None)


def explain(result: Result, settings: Iterator[Setting]) -> None:
    for setting in settings:
        kind = next((kind for kind, fits in MEANS_ANOTHER.items() if fits(setting)), None)
        if kind is None:
            result.problems.append(f"{setting.path} {setting.name}: ours {setting.ours}, theirs {setting.theirs}")
        else:
            result.kinds.add(kind)


# The three parts of the corpus


def files(folder: Path) -> Iterator[Result]:
    verdicts = json.loads((folder / "verdict.json").read_text())
    effective = json.loads((folder / "effective.json").read_text())
    for file in sorted((folder / "files").glob("*.yaml")):
        text, result = file.read_bytes().decode(), Result(file.name)
        verdict = verdicts[file.name]
        fresh, updated = World(text), World(BASE)
        updated.update(text)
        for refused, part in ((fresh.refused, "register"), (updated.refused, "update")):
            judge(result, part, refused, verdict, text)
        theirs = effective.get(file.name) or {}
        for world, part in ((fresh, "after_register"), (updated, "after_update")):
            accepted = not world.refused and verdict.get(part.removeprefix("after_"), {}).get("accept")
            if accepted and theirs.get(part):
                in_file(result, world, theirs[part], fresh if part == "after_update" else None)
        yield result


def judge(result: Result, part: str, refused: str, verdict: Json, text: str) -> None:
    """Accepted by both, refused by both, or for a reason that is known."""
    said = verdict.get(part, verdict)
    theirs, error = verdict["accept"] and said["accept"], said.get("error") or verdict.get("error") or ""
    if theirs and refused and not verdict.get("update", {}).get("accept", True):
        result.kinds.add("what is refused as an update is refused at registration")
    elif theirs and refused:
        kinds = [
            {kind for kind, pattern in STRICTER.items() if re.search(pattern, line)} for line in refused.split("\n")
        ]
        result.kinds = result.kinds.union(*kinds)
        if not all(kinds):
            result.problems.append(f"{part}: refused, {refused}; theirs accepts it")
    elif not theirs and not refused:
        kind = next((kind for kind, fits in LAXER.items() if fits(error, text)), None)
        if kind is None:
            result.problems.append(f"{part}: accepted; theirs refuses it, {error}")
        else:
            result.kinds.add(kind)


def in_file(result: Result, world: World, theirs: Json, fresh: World | None) -> None:
    ours, anew = world.settings(), fresh.settings() if fresh is not None else {}
    for name, partition in theirs.items():
        explain(result, compare(ours.get(name, {}), their_settings(partition["root"]),
                                {} if fresh is not None else None, anew.get(name)))  # fmt: skip


def updates(folder: Path) -> Iterator[Result]:
    for name, update in sorted(json.loads((folder / "updates.json").read_text()).items()):
        before, after = ((folder / "updates" / f"{name}.{side}.yaml").read_text() for side in ("before", "after"))
        result, world = Result(f"update {name}"), World(before)
        assert not world.refused, f"{name}: {world.refused}"
        for partition, theirs in update["before"]["partitions"].items():
            explain(result, compare(world.settings().get(partition, {}), their_settings(theirs["root"])))
        refused = world.update(after)
        verdict = {"accept": True, "update": {"accept": update["ok"], "error": update.get("error")}}
        judge(result, "update", refused, verdict, after)
        if bool(refused) != update["ok"]:
            after_update(result, world, World(before if refused else after), update)
        yield result


def after_update(result: Result, world: World, fresh: World, update: Json) -> None:
    reached = update.get("settled") or update["after"]
    before = update["before"]["partitions"]
    for name, theirs in reached["partitions"].items():
        were = their_settings(before[name]["root"]) if name in before else {}
        ours, anew = world.settings().get(name, {}), fresh.settings().get(name, {})
        explain(result, compare(ours, their_settings(theirs["root"]), were, anew))
        statuses(result, world.statuses().get(name, {}), theirs["queues"])


def statuses(result: Result, ours: Mapping[str, str], theirs: Json) -> None:
    path = theirs["queuename"]
    if ours.get(path) != theirs["status"]:
        result.problems.append(f"{path} status: ours {ours.get(path)}, theirs {theirs['status']}")
    for child in theirs.get("children") or ():
        statuses(result, ours, child)


def corpus(folder: Path) -> list[Result]:
    return [*files(folder / "config"), *updates(folder / "config")]


def is_corpus(folder: Path) -> bool:
    return (folder / "config" / "verdict.json").exists()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance-config", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--name", default="", help="only those whose name has this in it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if not is_corpus(arguments.dir):
        console.print(f"skipped: there is no config/verdict.json in {arguments.dir} (give a folder with DIR=...)")
        return 0
    results = [result for result in corpus(arguments.dir) if arguments.name in result.name]
    shown = Table("configuration", "verdict", "why", box=None, pad_edge=False)
    for result in results:
        if result.word != "equal" or arguments.name:
            shown.add_row(result.name, result.word, escape("; ".join(result.problems or sorted(result.kinds))))
    console.print(shown)
    counts = Counter(result.word for result in results)
    words = ("equal", "explained", "different")
    console.print(f"{len(results)} configurations: " + ", ".join(f"{counts[word]} {word}" for word in words))
    if arguments.json:
        details = {
            result.name: {"verdict": result.word, "kinds": sorted(result.kinds), "problems": result.problems}
            for result in results
        }
        print(json.dumps({"scenarios": len(results), **{word: counts[word] for word in words}, "failed": 0,
                          "details": details}))  # fmt: skip
    return int(counts["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
