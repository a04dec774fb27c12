"""Domains, devices and groups of a partition as they stand, for people (semantics sections 20 and 21).

    sums        of each domain down to the finest configured level: nodes, amounts, devices
    fragments   amounts that are free on devices, and that no waiting or common ask can use
    groups      groups whose members wait, and the domain in which they are bound

Computed from the state alone on request: O(nodes + asks + allocations that are looked at). A follower needs no index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from remuda_operations.queries import rows

from ..limits import ALLOCATIONS_MEASURED, FRAGMENT_KINDS, WAITING_GROUPS
from ..rules.devices import DeviceNeed, needs
from ..rules.prices import COMMON_PERCENT
from ..rules.resource import Resource, add
from ..rules.topology import ALL_NODES, APPLICATION, Path, Wish, host_of, path_of, place_of, wish_of
from ..state import Application, Node, Partition
from .views import amounts

# Sums of devices that are added up.
_COUNTS: Final = ("devices", "used", "whole", "unfit", "capacity", "free", "fragments")


@dataclass(slots=True)
class DomainSums:
    """The sums of a domain's row, while its nodes are added."""

    path: Path
    nodes: int = 0
    ready: int = 0
    empty: int = 0
    capacity: dict[str, int] = field(default_factory=dict)
    allocated: dict[str, int] = field(default_factory=dict)
    devices: dict[str, rows.DomainDevices] = field(default_factory=dict)

    def add(self, node: Node, kinds: Mapping[str, Sequence[Kind]]) -> None:
        is_ready = node.schedulable
        self.nodes += 1
        self.ready += is_ready
        self.empty += is_ready and not node.allocations and not any(node.allocated.values())
        add(self.capacity, node.capacity)
        add(self.allocated, node.allocated)
        for resource in node.devices:
            sums = self.devices.get(resource)
            if sums is None:
                sums = self.devices[resource] = rows.DomainDevices(resource)
            _add_devices(sums, node, resource, kinds.get(resource, ()))

    def add_domain(self, below: DomainSums) -> None:
        self.nodes += below.nodes
        self.ready += below.ready
        self.empty += below.empty
        add(self.capacity, below.capacity)
        add(self.allocated, below.allocated)
        for resource, more in below.devices.items():
            sums = self.devices.setdefault(resource, rows.DomainDevices(resource))
            for name in _COUNTS:
                setattr(sums, name, getattr(sums, name) + getattr(more, name))


@dataclass(slots=True)
class WaitingGroup:
    """A group with pending members. `placed`: its allocations. `domain`: the one of `level` with most of them."""

    application: Application
    name: str
    wish: Wish
    waiting: int = 0
    placed: int = 0
    since_ms: int = 0
    waits_for: tuple[str, str, str] | None = None
    domains: dict[Path, int] = field(default_factory=dict)

    @property
    def level(self) -> str:
        """The name of the level that binds it first."""
        return next(filter(None, (getattr(self.wish, name) for name in _ONE_LEVEL)), "")

    def row(self, partition: Partition) -> rows.WaitingGroup:
        wish, most, avoided = self.wish, self.domains, partition.avoided
        is_for_it = avoided is not None and (avoided.application_id, avoided.group) == (self.application.id, self.name)
        path = min(most, key=lambda path: (-most[path], path)) if most else ()
        return rows.WaitingGroup(
            application=self.application.id,
            queue=self.application.queue.path,
            group=self.name.partition(":")[2] if self.name != APPLICATION else "",
            required=wish.required or wish.outer,
            preferred=wish.preferred,
            spread=wish.spread,
            slice=f"{wish.slice_level}/{wish.slice_size}" if wish.slice_size else "",
            waiting=self.waiting,
            placed=self.placed,
            since_ms=self.since_ms,
            waits_for=self.waits_for or (),
            domain=[value for value in path if value is not None],
            avoided=avoided.domain if avoided is not None and is_for_it else (),
            avoided_since_ms=partition.avoided_ms if is_for_it else 0,
        )


@dataclass(slots=True)
class Standing:
    """A partition as it stands. `domains`: in the order of a tree, that of all nodes first."""

    partition: Partition
    domains: list[DomainSums]
    waiting: list[WaitingGroup]

    @property
    def all_nodes(self) -> DomainSums:
        return self.domains[0]

    def level_of(self, path: Path) -> str:
        return self.partition.settings.topology[len(path) - 1].level if path else ""

    def partition_row(self, name: str) -> rows.TopologyPartition:
        settings = self.partition.settings
        return rows.TopologyPartition(
            name=name,
            levels=[rows.DomainLevel(one.level, one.attribute) for one in settings.topology],
            devices=settings.devices,
            waiting=[one.row(self.partition) for one in self.waiting[:WAITING_GROUPS]],
            waiting_count=len(self.waiting),
        )

    def domain_row(self, name: str, one: DomainSums) -> rows.Domain:
        return rows.Domain(
            partition=name,
            level=self.level_of(one.path),
            path=[value for value in one.path if value is not None],
            nodes=one.nodes,
            ready=one.ready,
            empty=one.empty,
            capacity=amounts(one.capacity),
            allocated=amounts(one.allocated),
            devices=[sums for _, sums in sorted(one.devices.items())],
        )


def standing_of(partition: Partition) -> Standing:
    """Looks at all nodes, at applications with asks, and at the latest allocations."""
    levels, kinds = partition.settings.topology, kinds_of(partition)
    found: dict[Path, DomainSums] = {ALL_NODES: DomainSums(ALL_NODES)}
    for node in partition.nodes.values():
        path = path_of(levels, node.attributes)
        sums = found.get(path)
        if sums is None:
            sums = found[path] = DomainSums(path)
        sums.add(node, kinds)
    for length in range(len(levels), 0, -1):
        for path in [path for path in found if len(path) == length]:
            found.setdefault(path[:-1], DomainSums(path[:-1])).add_domain(found[path])
    in_order = [found[path] for path in sorted(found, key=lambda path: tuple(map(str, path)))]
    return Standing(partition, in_order, sorted(_waiting(partition), key=_by_age))


# Fragments


class Kind(NamedTuple):
    """Asks for as many devices with an equal share. `others`: of each other resource, the least that one of them
    wants."""

    need: DeviceNeed
    others: dict[str, int]


def kinds_of(partition: Partition) -> dict[str, list[Kind]]:
    """The kinds of asks by resource: those that wait, and those that are common among the latest allocations; the
    smallest share first. Of very many kinds only the commonest count."""
    units = partition.settings.devices
    if not units:
        return {}
    waiting, common = _Kinds(), _Kinds()
    for application in partition.applications.values():
        for ask in application.asks.values():
            if ask.pending:
                waiting.add(units, ask.ask.resource, ask.ask.tags, ask.pending)
    for allocation in islice(reversed(partition.allocations.values()), ALLOCATIONS_MEASURED):
        if allocation.fact.devices:
            common.add(units, allocation.fact.resource, allocation.fact.tags, 1)
    least = COMMON_PERCENT * sum(common.counts.values())
    for need, count in common.counts.items():
        if 100 * count >= least:
            waiting.join(need, common.others[need], count)
    found: dict[str, list[Kind]] = {}
    for need in sorted(waiting.counts, key=lambda need: (-waiting.counts[need], need))[:FRAGMENT_KINDS]:
        found.setdefault(need.resource, []).append(Kind(need, waiting.others[need]))
    return {resource: sorted(some, key=lambda one: one.need) for resource, some in found.items()}


class _Kinds:
    def __init__(self) -> None:
        self.counts: dict[DeviceNeed, int] = {}
        self.others: dict[DeviceNeed, dict[str, int]] = {}

    def add(self, units: Resource, resource: Resource, tags: Mapping[str, str], pieces: int) -> None:
        for need in needs(units, resource, tags):
            others = {name: amount for name, amount in resource.items() if amount > 0 and name != need.resource}
            self.join(need, others, pieces)

    def join(self, need: DeviceNeed, others: dict[str, int], pieces: int) -> None:
        known = self.others.get(need)
        self.counts[need] = self.counts.get(need, 0) + pieces
        if known is None:
            self.others[need] = others
        elif known != others:
            self.others[need] = {name: min(known[name], others[name]) for name in known if name in others}


def _add_devices(sums: rows.DomainDevices, node: Node, resource: str, kinds: Sequence[Kind]) -> None:
    """Add the devices of the node."""
    devices = node.devices[resource]
    unit, room, used = devices.unit, devices.room, devices.used
    sums.devices += len(room)
    sums.capacity += node.capacity.get(resource, 0)
    sums.used += sum([1 for name, amount in room.items() if amount < unit or name in used])
    if not node.schedulable:
        return
    offered = devices.offered()
    free = sum(offered)
    sums.unfit += len(devices.unfit & room.keys()) if devices.unfit else 0
    sums.free += free
    sums.whole += offered.count(unit)
    if kinds and free:
        sums.fragments += free - usable(offered, node.available(), kinds)


def usable(offered: list[int], available: Resource, kinds: Sequence[Kind]) -> int:
    """The free amount of the devices on which some of the asks fit, where so much of other resources is available.
    `kinds`: the smallest share first."""
    for (_, share, count), others in kinds:
        with_room = [amount for amount in offered if amount >= share]
        if len(with_room) >= count and all(amount <= available.get(name, 0) for name, amount in others.items()):
            return sum(with_room)
    return 0


# Groups that wait

_ONE_LEVEL: Final = ("required", "outer", "slice_level", "preferred", "spread")


def _waiting(partition: Partition) -> Iterator[WaitingGroup]:
    levels = partition.settings.topology
    for application in partition.applications.values():
        groups: dict[str, WaitingGroup] = {}
        for ask in application.asks.values() if levels else ():
            wish = wish_of(ask.ask.tags, application.tags, ask.ask.task_group, ask.ask.allocation_key)
            if wish is None or not ask.pending:
                continue
            one = groups.setdefault(wish.group, WaitingGroup(application, wish.group, wish))
            one.waiting += ask.pending
            one.since_ms = min(one.since_ms or ask.at_ms, ask.at_ms)
            if one.waits_for is None and ask.waiting:
                one.waits_for = next(iter(ask.waiting))
        for allocation in application.allocations.values() if groups else ():
            fact = allocation.fact
            wish = wish_of(fact.tags, application.tags, fact.task_group, fact.allocation_key)
            if wish is not None and wish.group in groups:
                one = groups[wish.group]
                one.placed += 1
                path = _domain_at(partition, one.level, allocation.node)
                if path:
                    one.domains[path] = one.domains.get(path, 0) + 1
        yield from groups.values()


def _domain_at(partition: Partition, level: str, node: Node) -> Path:
    """The domain of the node at the level; of a host, that of the node."""
    levels = partition.settings.topology
    place = place_of(levels, level)
    if place == len(levels):
        return host_of(node.id)
    path = path_of(levels, node.attributes)
    return path[: place + 1] if 0 <= place < len(path) else ALL_NODES


def _by_age(group: WaitingGroup) -> tuple[int, str, str]:
    return group.since_ms, group.application.id, group.name
