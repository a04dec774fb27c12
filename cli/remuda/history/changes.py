"""The changes that a replay makes: other queues, more or fewer nodes, less work, more arrivals. Pure: the caller
has read the file of a configuration."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from msgspec.structs import replace

from remuda_core import commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.settings import Configuration, QueueSettings
from remuda_core.state import Partition, State

from .condition import amount_of
from .spool import Event
from .workload import Workload, clone_of

NODE_SORTS = ("fair", "binpacking")
SEARCHED = "?"
_ADDED = re.compile(r"\+(?P<count>\d+|\?):(?P<of>.+)")
_NODES_EXPECTED = (
    "expected +COUNT:RESOURCE=AMOUNT[,...], such as +20:vcore=64,memory=256Gi, +COUNT:like=NODE, or -NAME: a node, the "
    "beginning of names, or the value of an attribute"
)
_QUOTA = re.compile(
    r"(?P<queue>[^:\s]+):(?P<of>max|guaranteed)\.(?P<name>[^=\s]+)=(?P<sign>[+-]?)(?P<given>\?(?:\*\S+)?|[^?\s]+)"
)
_QUOTA_EXPECTED = (
    "expected QUEUE:max.RESOURCE=AMOUNT or QUEUE:guaranteed.RESOURCE=AMOUNT, such as root.prod:max.vcore=60, with =+8 "
    "or =-8 for a difference, and =+? or =+?*4 for what is searched, in steps of 4"
)
# The step of a searched amount of bytes where the change names none; that of other amounts is 1.
_STEPS = {"memory": "1Gi"}
# More than any cluster has.
MOST_NODES = 1_000_000
MOST_ARRIVALS = Decimal(100)
# Places of `Change.arrivals` that count.
_PARTS = 1_000


class NotThere(ValueError):
    """A change names a node or a partition that does not exist. The text is for people."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """`count`: None: it is searched for. `like`: a node whose capacity and attributes they have; "": `capacity`."""

    count: int | None
    capacity: tuple[tuple[str, int], ...] = ()
    like: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """A change of a queue's amount of `resource` in `of` (max or guaranteed): it becomes `amount` · `count`, or, with a
    `sign` of 1 or -1, so much more or less than it is. `count`: None: it is searched for."""

    queue: str
    of: str
    resource: str
    sign: int
    amount: int
    count: int | None = 1

    def applied(self, settings: QueueSettings) -> QueueSettings:
        """Raises NotThere for a change of an amount that is not limited."""
        amounts = dict(settings.max if self.of == "max" else settings.guaranteed)
        if self.sign and self.of == "max" and self.resource not in amounts:
            raise NotThere(f"quota: {self.queue} has no maximum of {self.resource} that could be raised or lowered")
        changed = self.amount * (self.count or 0)
        was = amounts.get(self.resource, 0)
        amounts[self.resource] = max(0, was + self.sign * changed) if self.sign else changed
        return replace(settings, **{self.of: amounts})


@dataclass(frozen=True, slots=True)
class Change:
    """All of it together. `text`: as it was given, for the report. `arrivals`: how many times as many asks arrive.
    `played_by`: another version, which plays it and returns the measures; what else is changed, it knows."""

    text: str = "unchanged"
    queues: Configuration | None = None
    added: tuple[AddedNodes, ...] = ()
    removed: tuple[str, ...] = ()
    node_sort: str = ""
    without: tuple[tuple[str, str], ...] = ()
    arrivals: Decimal = Decimal(1)
    quotas: tuple[Quota, ...] = ()
    played_by: Callable[[], Awaitable[dict[str, Any]]] | None = None

    @property
    def searches(self) -> bool:
        return None in [*(one.count for one in self.added), *(one.count for one in self.quotas)]

    def with_count(self, count: int) -> Change:
        """Returns the change with this number of the nodes, or of steps of the quota, that are searched for."""
        return dataclasses.replace(
            self,
            text=self.text.replace(f"+{SEARCHED}", f"+{count}"),
            added=tuple(_counted(one, count) for one in self.added),
            quotas=tuple(_counted(one, count) for one in self.quotas),
        )


Counted = TypeVar("Counted", AddedNodes, "Quota")


def _counted(one: Counted, count: int) -> Counted:
    return one if one.count is not None else dataclasses.replace(one, count=count)


def nodes_of(text: str) -> AddedNodes | str:
    """Nodes that come, or the name of those that go. Raises ValueError."""
    if text.startswith("-") and len(text) > 1:
        return text[1:]
    found = _ADDED.fullmatch(text)
    if found is None:
        raise ValueError(f"nodes {text[:100]!r}: {_NODES_EXPECTED}")
    capacity, like, partition = dict[str, int](), "", ""
    for part in found["of"].split(","):
        name, equals, value = part.strip().partition("=")
        if not name or not equals or not value:
            raise ValueError(f"nodes {text[:100]!r}: {part[:100]!r}: {_NODES_EXPECTED}")
        if name == "like":
            like = value
        elif name == "partition":
            partition = value
        else:
            amount = amount_of(value, name)
            if amount is None or amount < 0:
                raise ValueError(
                    f"nodes {text[:100]!r}: {name} is {value[:50]!r}, expected an amount such as 64 or 256Gi"
                )
            capacity[name] = int(amount)
    if bool(like) == bool(capacity):
        raise ValueError(f"nodes {text[:100]!r}: {_NODES_EXPECTED}")
    count = None if found["count"] == SEARCHED else int(found["count"])
    if count is not None and count > MOST_NODES:
        raise ValueError(f"nodes {text[:100]!r}: expected at most {MOST_NODES:,} nodes")
    return AddedNodes(count, tuple(capacity.items()), like, partition)


def quota_of(text: str) -> Quota:
    """Raises ValueError."""
    found = _QUOTA.fullmatch(text.strip())
    wrong = ValueError(f"quota {text[:100]!r}: {_QUOTA_EXPECTED}")
    if found is None:
        raise wrong
    queue, of, resource, sign, given = found["queue"].lower(), found["of"], found["name"], found["sign"], found["given"]
    count: int | None = 1
    if given.startswith(SEARCHED):
        if sign != "+":
            raise wrong
        count, given = None, given[2:] or _STEPS.get(resource, "1")
    amount = amount_of(given, resource)
    if amount is None or amount < 0 or (count is None and not amount):
        raise wrong
    return Quota(queue, of, resource, {"": 0, "+": 1, "-": -1}[sign], int(amount), count)


def without_of(text: str) -> tuple[str, str]:
    """Raises ValueError."""
    kind, colon, name = text.partition(":")
    if kind not in ("user", "queue", "application") or not colon or not name:
        raise ValueError(f"without {text[:100]!r}: expected user:NAME, queue:PATH or application:ID")
    return kind, name.lower() if kind == "queue" else name


def arrivals_of(text: str) -> Decimal:
    """Raises ValueError."""
    try:
        found = Decimal(text.removeprefix("x"))
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or not 0 < found <= MOST_ARRIVALS:
        raise ValueError(f"arrivals {text[:50]!r}: expected x and a factor up to {MOST_ARRIVALS}, such as x1.3")
    return found


def events_with(change: Change, core: Core, workload: Workload) -> Iterator[Event]:
    """The events of the workload as the change makes them. Changes of what there is at the beginning come first, or as
    soon as the RM has registered. `core`: at the beginning. Raises NotThere."""
    left_out = _Omitted(change)
    if core.state.partitions:
        _sort_nodes(core, change)
        _set_quotas(core, change)
        for one in _first(change, core.state, workload, left_out):
            yield Event(workload.begin_ms, one)
    for event in workload.spool.events():
        for one in left_out.of(_configured(change, event.command), event.queue):
            for each in _as_often(change, one, left_out):
                yield event if each is event.command else event._replace(command=each)
        if isinstance(event.command, commands.Register):
            for one in _first(change, core.state, workload, left_out):
                yield Event(event.at_ms, one)


def check(change: Change, core: Core, workload: Workload) -> None:
    """Raises NotThere."""
    if core.state.partitions:
        list(_added(change, core.state, workload))
    for quota in change.quotas:
        _check_quota(quota, change, core.state, workload)


# Configurations


def _configured(change: Change, command: Command) -> Command:
    if not isinstance(command, commands.Register | commands.Configure):
        return command
    configuration = command.configuration
    if change.queues is not None:
        configuration = change.queues
    elif change.node_sort:
        sorted_anew = tuple(replace(one, node_sort=change.node_sort) for one in configuration.partitions)
        configuration = replace(configuration, partitions=sorted_anew)
    return replace(command, configuration=_with_quotas(change, configuration))


def _with_quotas(change: Change, configuration: Configuration) -> Configuration:
    for quota in change.quotas:
        partitions = tuple(replace(one, root=_with_quota(quota, one.root, "")) for one in configuration.partitions)
        configuration = replace(configuration, partitions=partitions)
    return configuration


def _with_quota(quota: Quota, settings: QueueSettings, above: str) -> QueueSettings:
    path = f"{above}{settings.name}".lower()
    if path == quota.queue:
        return quota.applied(settings)
    if not quota.queue.startswith(f"{path}."):
        return settings
    return replace(settings, queues=tuple(_with_quota(quota, one, f"{path}.") for one in settings.queues))


def _check_quota(quota: Quota, change: Change, state: State, workload: Workload) -> None:
    """Check that the queue of the quota exists, at the beginning or by a configuration of the period."""
    if change.queues is not None:
        configurations = [change.queues]
        found = list[QueueSettings]()
    else:
        known = (event.command for event in workload.spool.events())
        configurations = [one.configuration for one in known if isinstance(one, commands.Register | commands.Configure)]
        found = [
            partition.queues[quota.queue].settings
            for partition in state.partitions.values()
            if quota.queue in partition.queues
        ]
    roots = (partition.root for one in configurations for partition in one.partitions)
    found += [settings for root in roots if (settings := _settings_of(root, quota.queue)) is not None]
    if not found:
        raise NotThere(f"quota: there is no queue {quota.queue[:100]!r}")
    for settings in found:
        quota.applied(settings)


def _settings_of(settings: QueueSettings, path: str, above: str = "") -> QueueSettings | None:
    own = f"{above}{settings.name}".lower()
    if own == path:
        return settings
    if not path.startswith(f"{own}."):
        return None
    below = (_settings_of(one, path, f"{own}.") for one in settings.queues)
    return next((one for one in below if one is not None), None)


def _set_quotas(core: Core, change: Change) -> None:
    """In the state at the beginning, in which the configuration is no more than the settings of queues."""
    for quota in change.quotas if change.queues is None else ():
        for partition in list(core.state.partitions.values()):
            if (queue := partition.queues.get(quota.queue)) is not None:
                settings = quota.applied(queue.settings)
                fact = facts.QueueChanged(
                    partition.name, queue.path, queue.leaf, queue.managed, settings, (quota.of,)
                )  # fmt: skip
                core.replay([fact], core.state.now_ms)


def _sort_nodes(core: Core, change: Change) -> None:
    if change.node_sort and change.queues is None:
        for partition in list(core.state.partitions.values()):
            settings = replace(partition.settings, node_sort=change.node_sort)
            core.replay([facts.PartitionChanged(partition.name, settings)], core.state.now_ms)


def _first(change: Change, state: State, workload: Workload, left_out: _Omitted) -> Iterator[Command]:
    if change.queues is not None and state.partitions:
        yield commands.Configure(_with_quotas(change, change.queues))
    yield from _added(change, state, workload)
    for partition in state.partitions.values():
        for node in partition.nodes.values():
            if any(_is_meant(name, node.id, node.attributes) for name in change.removed):
                yield commands.UpdateNode(partition.name, node.id, "DECOMISSION")
        for application in partition.applications.values():
            if left_out.omits(application.id, application.user, application.queue.path):
                left_out.applications.add(application.id)
                yield commands.RemoveApplication(partition.name, application.id)


# Nodes


def _added(change: Change, state: State, workload: Workload) -> Iterator[Command]:
    number = 0
    for one in change.added:
        partition = _partition(state, one)
        attributes, capacity = _like(partition, workload, one) if one.like else ({}, dict(one.capacity))
        for _ in range(one.count or 0):
            number += 1
            yield commands.UpdateNode(partition.name, f"added-{number}", "CREATE", attributes, capacity, {})


def _partition(state: State, one: AddedNodes) -> Partition:
    for partition in state.partitions.values():
        if not one.partition or partition.name.endswith(f"]{one.partition}"):
            return partition
    raise NotThere(f"nodes: there is no partition {one.partition[:100]!r}")


def _like(partition: Partition, workload: Workload, one: AddedNodes) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Attributes and capacity of a node that is there, or is reported later."""
    if (node := partition.nodes.get(one.like)) is not None:
        return node.attributes, node.capacity
    for command in (event.command for event in workload.spool.events()):
        if isinstance(command, commands.UpdateNode) and command.node_id == one.like and command.capacity is not None:
            return command.attributes, command.capacity
    raise NotThere(f"nodes: like={one.like[:100]!r}: there is no such node")


def _is_meant(name: str, node_id: str, attributes: Mapping[str, Any]) -> bool:
    """A node by its ID, by the beginning of it, or by the value of an attribute."""
    beginning = node_id.startswith(name) and not node_id[len(name) : len(name) + 1].isalnum()
    return beginning or name in attributes.values()


# Work


class _Omitted:
    """Applications without which the period is played, and nodes that are not there."""

    def __init__(self, change: Change) -> None:
        self.applications: set[str] = set()
        self.gangs: set[str] = set()
        self._change = change

    def omits(self, application: str, user: str, queue: str) -> bool:
        return any(
            (kind == "user" and name == user)
            or (kind == "application" and name == application)
            or (kind == "queue" and f"{queue.lower()}.".startswith(f"{name}."))
            for kind, name in self._change.without
        )

    def of(self, command: Command, queue: str) -> Iterator[Command]:
        """The command, or nothing. `queue`: where the application was placed."""
        match command:
            case commands.SubmitApplication():
                if self.omits(command.application_id, command.user, queue or command.queue):
                    self.applications.add(command.application_id)
                    return
                if command.placeholder_ask:
                    self.gangs.add(command.application_id)
            case commands.UpdateNode():
                if any(_is_meant(name, command.node_id, command.attributes) for name in self._change.removed):
                    return
        if _application(command) not in self.applications:
            yield command


def _application(command: Command) -> str:
    match command:
        case commands.SubmitAsk(ask):
            return ask.application_id
        case commands.SubmitApplication() | commands.RemoveApplication() | commands.ReleaseAsk():
            return command.application_id
        case commands.RecoverAllocation(allocation):
            return allocation.application_id
    return ""


def _as_often(change: Change, command: Command, left_out: _Omitted) -> Iterator[Command]:
    """Asks come as often as `arrivals` says, those of a gang with their application: as clones with a name of their
    own. Which ones follows from their names."""
    application = _application(command)
    if change.arrivals == 1 or not application:
        yield command
        return
    if application in left_out.gangs:
        times = _times(change.arrivals, application)
        for number in range(times):
            yield _of_clone(command, clone_of(application, number))
        return
    match command:
        case commands.SubmitAsk(ask):
            for number in range(_times(change.arrivals, f"{application}/{ask.allocation_key}")):
                yield commands.SubmitAsk(replace(ask, allocation_key=clone_of(ask.allocation_key, number)))
        case commands.ReleaseAsk() if command.allocation_key:
            for number in range(max(1, _times(change.arrivals, f"{application}/{command.allocation_key}"))):
                yield replace(command, allocation_key=clone_of(command.allocation_key, number))
        case _:
            yield command


def _of_clone(command: Command, application: str) -> Command:
    match command:
        case commands.SubmitAsk(ask):
            return commands.SubmitAsk(replace(ask, application_id=application))
        case commands.RecoverAllocation():
            return command
        case _:
            return replace(command, application_id=application)


def _times(arrivals: Decimal, name: str) -> int:
    whole = int(arrivals)
    part = int((arrivals - whole) * _PARTS)
    return whole + (zlib.crc32(name.encode()) % _PARTS < part)
