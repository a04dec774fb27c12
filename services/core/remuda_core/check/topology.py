"""The groups and domains of an index, compared with what follows from the state (semantics section 21)."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from remuda_proto.constants import TOPOLOGY_HOST

from ..index.asks import ApplicationAsks
from ..index.domains import ALL_LEVEL, Domain, Shape
from ..index.group_members import Group
from ..index.groups import Groups
from ..index.node_groups import Demand
from ..index.ordered import covers
from ..index.partition import PartitionIndex
from ..rules.topology import APPLICATION, Path, host_of, path_of, wish_of
from ..state import Application, Node, Partition, PendingAsk
from .devices import available_with_devices

# Application, group, and what the ask wants.
Membership = tuple[object, ...]


def membership(ask: PendingAsk) -> Membership:
    fact = ask.ask
    wish = wish_of(fact.tags, ask.application.tags, fact.task_group, fact.allocation_key)
    return (ask.application.id, wish.group, wish) if wish is not None else ()


def check_topology(partition: Partition, index: PartitionIndex) -> None:
    """Raises AssertionError with the difference."""
    groups = index.groups
    if groups is None:
        assert not partition.settings.topology, f"{partition.name}: has a topology, and no groups"
        assert not any(membership(ask) for ask in index.lines), f"{partition.name}: asks of groups that are not known"
        return
    assert groups.levels == partition.settings.topology, f"{partition.name}: the levels are others"
    _check_members(partition, index, groups)
    _check_domains(partition, index, groups)


def is_avoided(partition: Partition, node: Node) -> bool:
    """Whether the node is in the avoided domain."""
    fact, levels = partition.avoided, partition.settings.topology
    if fact is None:
        return False
    if fact.level == TOPOLOGY_HOST:
        return fact.domain == (node.id,)
    return path_of(levels, node.attributes)[: len(fact.domain)] == fact.domain


def _paths(groups: Groups, node: Node) -> tuple[Path, ...]:
    path = path_of(groups.levels, node.attributes)
    return (*(path[:end] for end in range(1, len(path) + 1)), host_of(node.id))


def _check_members(partition: Partition, index: PartitionIndex, groups: Groups) -> None:
    expected: defaultdict[tuple[str, str], Counter[Path]] = defaultdict(Counter)
    held = set[str | int]()
    made = [(one.fact.uuid, one.node, one.application, one.fact) for one in partition.allocations.values()]
    asked = [
        (one.fact.question, one.node, one.application, one.application.asks[one.fact.allocation_key].ask)
        for one in partition.questions.values()
    ]
    members: list[tuple[str | int, Node, Application, Any]] = [*made, *asked]
    for number, node, application, fact in members:
        wish = wish_of(fact.tags, application.tags, fact.task_group, fact.allocation_key)
        if wish is not None:
            held.add(number)
            for name in dict.fromkeys((wish.group, APPLICATION) if wish.outer or wish.near else (wish.group,)):
                expected[application.id, name].update(_paths(groups, node))
    assert groups.held.keys() == held, f"{partition.name}: members are {groups.held.keys()}, counted anew {held}"
    found = {
        key: {path: count for counts in group.counts for path, count in counts.items()}
        for key, group in groups.by_key.items()
        if group.members
    }
    assert found == expected, f"{partition.name}: members in domains {found}, counted anew {dict(expected)}"
    free: defaultdict[tuple[str, str], dict[PendingAsk, tuple[Demand, int]]] = defaultdict(dict)
    for ask, line in index.lines.items():
        if isinstance(line, ApplicationAsks) and (group := line.ask_class.demand.group_of_asks) is not None:
            free[group.key][ask] = (line.ask_class.demand, ask.free)
    known = {key: group.asks for key, group in groups.by_key.items() if group.asks}
    assert known == free, f"{partition.name}: groups have other asks than their lines"
    for key, group in groups.by_key.items():
        sums: Counter[Demand] = Counter()
        for demand, repeats in group.asks.values():
            sums[demand] += repeats
        assert group.free == sums, f"group {key}: members to place {group.free}, counted anew {sums}"
        assert group.asks or group.members or group in groups.changed, f"group {key}: has no members"
    waiting = {demand for demands in groups.waiting.values() for demand in demands}
    assert waiting == groups.waits_for.keys(), f"{partition.name}: demands wait for nothing"


def check_closed(demand: Demand, index: PartitionIndex) -> None:
    """No domain has room for a closed demand of a group, unless it is looked at before the next search."""
    groups = index.groups
    assert groups is not None, "the demand is that of a group"
    assert demand in groups.waits_for, f"demand {demand.items}: would never be looked at again"
    group = demand.group_of_asks
    assert isinstance(group, Group), "the demand is that of a group"
    changed = any(one.application is group.application for one in groups.changed)
    if groups.gained or changed or demand.predicate_class is not None:
        return
    failed = groups.failed
    places = groups.next_places(demand, next(ask for ask, (one, _) in group.asks.items() if one is demand))
    assert not places, f"demand {demand.items}: closed, but it fits {[one.domain.path for one in places]}"
    groups.failed = failed


def _check_domains(partition: Partition, index: PartitionIndex, groups: Groups) -> None:
    domains = groups.domains
    nodes: defaultdict[Path, set[str]] = defaultdict(set)
    for node in partition.nodes.values():
        for path in ((), *_paths(groups, node)):
            nodes[path].add(node.id)
    known = [domains.all_nodes, *(one for level in domains.by_level for one in level.values())]
    found = {one.path: {entry.id for entry in one.nodes} for one in known if one.nodes or one.level != ALL_LEVEL}
    assert found == nodes, f"{partition.name}: domains {found}, by attributes {dict(nodes)}"
    entries = {node.id: groups.domains.nodes.entry_of(node) for node in partition.nodes.values()}
    for node in partition.nodes.values():
        avoided = is_avoided(partition, node)
        assert entries[node.id].avoided == avoided, f"node {node.id} is {'' if avoided else 'not '}avoided"
    listed = {entry.id for entry in groups.avoidance.nodes}
    there = {node.id for node in partition.nodes.values() if is_avoided(partition, node)}
    assert listed == there, f"{partition.name}: nodes {listed} are avoided, by the state {there}"
    _check_ages(groups)
    domains.settle()
    for domain in known:
        allocated: Counter[str] = Counter()
        for entry in domain.nodes:
            allocated.update(entry.node.allocated)
        assert +Counter(domain.allocated) == +allocated, f"domain {domain.path}: in use {domain.allocated}"
    for shape in list(domains.shapes.values()):
        _check_shape(shape, known, index)


def _check_ages(groups: Groups) -> None:
    """Groups that have not changed since the last pass are listed by their oldest ask that requires a level."""
    oldest = set[tuple[int, int]]()
    changed = {group.key for group in groups.changed}
    for key, group in groups.by_key.items():
        asks = [
            ask
            for ask, (demand, _) in group.asks.items()
            if demand.wish and (demand.wish.required or demand.wish.outer)
        ]
        if asks and key not in changed:
            oldest.add(min((ask.at_ms, ask.seq) for ask in asks))
    ages = groups.avoidance.by_age
    assert ages == sorted(ages, key=lambda age: age[:2]), "groups are not listed by age"
    listed = {age[:2] for age in ages}
    assert oldest <= listed, f"groups {oldest - listed} are not listed by age"
    assert changed or listed == oldest, f"groups {listed - oldest} are listed by an age that is not theirs"


def _check_shape(shape: Shape, known: list[Domain], index: PartitionIndex) -> None:
    shape.settle()
    what = f"shape {shape.demand.items}"
    nodes = index.nodes
    copies = {}
    for entry in shape.domains.standing:
        left, group = nodes.timed(entry.node, nodes.vector(available_with_devices(entry.node))), entry.group
        count = 0
        while (
            group is not None
            and count < entry.node.allocations_left
            and covers(left, shape.demand.need)
            and shape.may_take(entry)
        ):
            left, count = nodes.after(shape.demand, left), count + 1
        if count:
            copies[entry] = count
    assert shape.copies == copies, f"{what}: copies on nodes {shape.copies}, counted anew {copies}"
    for domain in known:
        raw = sum(copies.get(entry, 0) for entry in domain.nodes)
        assert shape.raw.get(domain, 0) == raw, f"{what}: {shape.raw.get(domain)} copies in {domain.path}, not {raw}"
        if shape.slice_size and domain.level <= shape.slice_level:
            inside = [one for one in known if one.level == shape.slice_level and one.is_in(domain)]
            raw = sum(sum(copies.get(entry, 0) for entry in one.nodes) // shape.slice_size for one in inside)
            assert shape.count(domain) == raw, f"{what}: {shape.count(domain)} slices in {domain.path}, not {raw}"
    for level, tree in shape.trees.items():
        listed = {domain: rank for rank, domain, _ in tree.items()}
        there = {
            one: (shape.count(one), -one.used, one.path) for one in known if one.level == level and shape.count(one)
        }
        assert listed == there, f"{what}: domains of level {level} are listed as {listed}, expected {there}"
    for domain, ranked in shape.nodes.items():
        assert domain in known, f"{what}: has nodes of a domain that is gone"
        listed_nodes = {entry: rank for rank, entry, _ in ranked.items()}
        there_nodes = {
            entry: nodes.rank_of(shape.demand, entry, entry.group.available)
            for entry in domain.nodes
            if entry in copies and entry.group is not None
        }
        assert listed_nodes == there_nodes, f"{what}: nodes of {domain.path} are listed as {listed_nodes}"
