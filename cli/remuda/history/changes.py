"""The changes that a replay makes: other queues, more or fewer nodes, less work, more arrivals. Pure: the caller
has read the file of a configuration."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec.structs import replace

from remuda_core import commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.settings import Configuration
from remuda_core.state import Partition, State

from .condition import amount_of
from .workload import Workload, clone_of

NODE_SORTS = ("fair", "binpacking")
SEARCHED = "?"
_ADDED = re.compile(r"\+(?P<count>\d+|\?):(?P<of>.+)")
_NODES_EXPECTED = (
    "expected +COUNT:RESOURCE=AMOUNT[,...], such as +20:vcore=64,memory=256Gi, +COUNT:like=NODE, or -NAME: a node, the "
    "beginning of names, or the value of an attribute"
)
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
class Change:
    """All of it together. `text`: as it was given, for the report. `arrivals`: how many times as many asks arrive."""

    text: str = "unchanged"
    queues: Configuration | None = None
    added: tuple[AddedNodes, ...] = ()
    removed: tuple[str, ...] = ()
    node_sort: str = ""
    without: tuple[tuple[str, str], ...] = ()
    arrivals: Decimal = Decimal(1)

    @property
    def searches(self) -> bool:
        return any(one.count is None for one in self.added)

    def with_count(self, count: int) -> Change:
        """With this number of the nodes that are searched for."""
        added = tuple(one if one.count is not None else replace_count(one, count) for one in self.added)
        text = self.text.replace(f"+{SEARCHED}", f"+{count}")
        return Change(text, self.queues, added, self.removed, self.node_sort, self.without, self.arrivals)


def replace_count(one: AddedNodes, count: int) -> AddedNodes:
    return AddedNodes(count, one.capacity, one.like, one.partition)


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


def events_with(change: Change, core: Core, workload: Workload) -> Iterator[tuple[int, int, Command]]:
    """The events of the workload as the change makes them, with their numbers in it. Changes of what there is at the
    beginning come first, or as soon as the RM has registered. `core`: at the beginning. Raises NotThere."""
    left_out = _Omitted(change, workload)
    if core.state.partitions:
        _sort_nodes(core, change)
        for one in _first(change, core.state, workload, left_out):
            yield workload.begin_ms, -1, one
    for number, (at_ms, command) in enumerate(workload.events):
        for one in left_out.of(_configured(change, command)):
            for each in _as_often(change, one, left_out):
                yield at_ms, number, each
        if isinstance(command, commands.Register):
            for one in _first(change, core.state, workload, left_out):
                yield at_ms, -1, one


def check(change: Change, core: Core, workload: Workload) -> None:
    """Raises NotThere."""
    if core.state.partitions:
        list(_added(change, core.state, workload))


# Configurations


def _configured(change: Change, command: Command) -> Command:
    if not isinstance(command, commands.Register | commands.Configure):
        return command
    if change.queues is not None:
        return replace(command, configuration=change.queues)
    if change.node_sort:
        configuration = command.configuration
        sorted_anew = tuple(replace(one, node_sort=change.node_sort) for one in configuration.partitions)
        return replace(command, configuration=replace(configuration, partitions=sorted_anew))
    return command


def _sort_nodes(core: Core, change: Change) -> None:
    if change.node_sort and change.queues is None:
        for partition in list(core.state.partitions.values()):
            settings = replace(partition.settings, node_sort=change.node_sort)
            core.replay([facts.PartitionChanged(partition.name, settings)], core.state.now_ms)


def _first(change: Change, state: State, workload: Workload, left_out: _Omitted) -> Iterator[Command]:
    if change.queues is not None and state.partitions:
        yield commands.Configure(change.queues)
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
    for _, command in workload.events:
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

    def __init__(self, change: Change, workload: Workload) -> None:
        self.applications: set[str] = set()
        self.gangs: set[str] = set()
        self._change = change
        self._workload = workload

    def omits(self, application: str, user: str, queue: str) -> bool:
        return any(
            (kind == "user" and name == user)
            or (kind == "application" and name == application)
            or (kind == "queue" and f"{queue.lower()}.".startswith(f"{name}."))
            for kind, name in self._change.without
        )

    def of(self, command: Command) -> Iterator[Command]:
        """The command, or nothing."""
        match command:
            case commands.SubmitApplication():
                queue = self._workload.queues.get(command.application_id, command.queue)
                if self.omits(command.application_id, command.user, queue):
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
