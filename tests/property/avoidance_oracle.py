"""Section 21 of the semantics, "Avoided", word for word and slowly: which domain others avoid after a pass."""

from __future__ import annotations

from typing import Any

from remuda_core.facts import DomainAvoided, Fact, NodeUnreserved, PreemptionAsked, PreemptionStarted, ReleaseRequested
from remuda_core.limits import ALLOCATIONS_PER_NODE, GROUPS_LOOKED_AT
from remuda_core.rules.resource import total_of
from remuda_core.state import Partition, PendingAsk

from .topology_oracle import (
    Cluster,
    Group,
    avoided_nodes,
    comes_later,
    kind_of,
    member,
    name_of,
    next_members,
    quotas_allow,
)

# The pass goes on after its choice: these make another state of it.
AFTERWARDS = (NodeUnreserved, PreemptionStarted, ReleaseRequested)
# The group and its domain: application, name, level, path.
Choice = tuple[str, str, str, tuple[str, ...]]


def check_avoided(
    partition: Partition, before: tuple[DomainAvoided | None, int], facts: list[Fact], now_ms: int, delay_ms: int
) -> None:
    """What is avoided after the pass is what a plain reading finds. `before` it: what was avoided, and since when."""
    if any(isinstance(fact, AFTERWARDS) or is_about_a_group(fact) for fact in facts):
        return
    found = partition.avoided
    got = (found.application_id, found.group, found.level, found.domain) if found is not None else None
    expected = choice(partition, before, now_ms, delay_ms)
    assert got == expected, f"{got} is avoided, expected {expected}"


def is_about_a_group(fact: Fact) -> bool:
    """The RM is asked about the preemption for a group, which waits for that from then on."""
    return isinstance(fact, PreemptionAsked) and bool(fact.members)


def choice(partition: Partition, before: tuple[DomainAvoided | None, int], now_ms: int, delay_ms: int) -> Choice | None:
    known, since_ms = before
    oldest: dict[tuple[str, str], PendingAsk] = {}
    for application in partition.applications.values():
        for ask in sorted(application.asks.values(), key=lambda one: (one.at_ms, one.seq)):
            if (wish := member(ask)) is not None and ask.free and (wish.required or wish.outer) and not awaits(ask):
                oldest.setdefault((application.id, name_of(wish.group)), ask)
    in_order = sorted(oldest.items(), key=lambda one: (one[1].at_ms, one[1].seq))
    for key, ask in in_order[:GROUPS_LOOKED_AT]:
        if ask.at_ms + delay_ms > now_ms:
            break
        group = Group(partition, ask)
        asks = start(group)
        if not asks:
            continue
        lasts = known is not None and now_ms < since_ms + delay_ms and there(partition, known)
        if lasts and known is not None and key == (known.application_id, known.group):
            return (*key, known.level, known.domain)
        if (nearest := nearest_to(group, asks)) is not None:
            return (*key, *nearest)
    return None


def awaits(ask: PendingAsk) -> bool:
    from .oracle import awaits_place

    return awaits_place(ask)


def there(partition: Partition, known: DomainAvoided) -> bool:
    return partition.avoided == known and bool(avoided_nodes(partition))


def start(group: Group) -> list[PendingAsk]:
    """What the group waits to place in a domain, if it waits for nothing else."""
    from .oracle import has_its_turn, may_run

    wish, cluster, application, ask = group.wish, group.cluster, group.application, group.ask
    if any(level and level not in cluster.names for level in (wish.required, wish.slice_level, wish.outer)):
        return []
    held = any(queue.hold is not None for queue in application.queue.path_to_root)
    if held or not may_run(ask) or not has_its_turn(application):
        return []
    if any(ask in preemption.members for preemption in group.partition.preemptions.values()):
        return []
    asks = group.starting()
    if not asks or group.bound() is None or not quotas_allow(asks):
        return []
    if begins(group) and (comes_later(group) or (wish.slice_size and len(asks) % wish.slice_size)):
        return []
    if next_members(group.partition, ask):
        return []
    wanted = total_of([one.ask.resource for one in (asks if begins(group) else [ask])])
    total = group.partition.total  # what is more than all nodes have fits no domain
    return asks if all(amount <= total.get(name, 0) for name, amount in wanted.items()) else []


def begins(group: Group) -> bool:
    wish = group.wish
    if group.on:
        return wish.slice_size > 0 and not group.incomplete()
    return bool(wish.required or wish.slice_size or (wish.outer and not group.outer_on))


def nearest_to(group: Group, asks: list[PendingAsk]) -> tuple[str, tuple[str, ...]] | None:
    """The level and the path of the domain with the fewest members missing, then the least used, of those that can hold
    all of them when they are empty. Where an application starts that shares a level, of that level, for all that it
    asks for; and one of its domains can hold the group when it is empty."""
    wish, cluster, within = group.wish, group.cluster, group.bound() or []
    named = [level for level in (wish.required, wish.outer) if level]
    level = max(named, key=cluster.depth)
    size = wish.slice_size if begins(group) else 0
    domains = cluster.domains(level, within)
    if not begins(group) and wish.slice_size:
        of_slices = cluster.domains(wish.slice_level, within)
        parts = {path: of_slices[path] for path in group.incomplete() if path in of_slices}
        level, domains = (wish.slice_level, parts)
    kinds: dict[Any, list[PendingAsk]] = {}
    for ask in asks:
        kinds.setdefault(kind_of(ask), []).append(ask)
    if size:
        kinds = {None: asks}

    def count(on: Cluster, node_ids: list[str], alike: list[PendingAsk]) -> int:
        if not size:
            return on.copies(node_ids, alike[0])
        racks = on.domains(wish.slice_level, node_ids)
        return sum(on.copies(ids, alike[0]) // size for ids in racks.values()) * size

    def missing(on: Cluster, node_ids: list[str]) -> int:
        return sum(max(0, len(alike) - count(on, node_ids, alike)) for alike in kinds.values())

    empty = Empty(group.partition)
    if begins(group) and wish.outer and not group.outer_on:
        all_of_it = pending_of(group)
        fine = [
            (lacking(cluster, node_ids, all_of_it), cluster.used(node_ids), path)
            for path, node_ids in cluster.domains(wish.outer, within).items()
            if not lacking(empty, node_ids, all_of_it)
            if any(not missing(empty, ids) for ids in cluster.domains(level, node_ids).values())
        ]
        path = min(fine)[2] if fine else None
        return None if path is None else (wish.outer, path[1:] if path and not path[0] else path)
    fine = [
        (missing(cluster, node_ids), cluster.used(node_ids), path)
        for path, node_ids in domains.items()
        if not missing(empty, node_ids)
    ]
    if not fine:
        return None
    path = min(fine)[2]
    return level, path[1:] if path and not path[0] else path


def pending_of(group: Group) -> list[list[PendingAsk]]:
    """The members that the groups of the application ask for, by kind."""
    kinds: dict[Any, list[PendingAsk]] = {}
    for ask in group.application.asks.values():
        if ask.free and member(ask) is not None and not awaits(ask):
            kinds.setdefault(kind_of(ask)[:3], []).extend([ask] * ask.free)
    return list(kinds.values())


def lacking(on: Cluster, node_ids: list[str], kinds: list[list[PendingAsk]]) -> int:
    return sum(max(0, len(alike) - on.copies(node_ids, alike[0])) for alike in kinds)


class Empty(Cluster):
    """All nodes as if nothing were on them, and as if the RM refused none."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self.free = {node.id: dict(node.capacity) for node in self.nodes.values()}
        self.left = dict.fromkeys(self.free, ALLOCATIONS_PER_NODE)

    def fits(self, node_id: str, ask: PendingAsk) -> bool:
        bound, free, need = ask.ask.tags.get("si/requiredNode", ""), self.free[node_id], ask.ask.resource
        return bound in ("", node_id) and all(need.get(name, 0) <= free.get(name, 0) for name in {*need, *free})
