"""Preempt for a group as a whole (semantics sections 13 and 21): free one domain for all members that start together,
or for one more member the domain to which its group is bound.

A plan is a domain, victims, and the nodes on which the members are placed without them. While the victims leave, these
nodes are kept: no other ask is placed there. Once all of them have left, the members are placed in the same pass; if
they do not fit then, or a victim stays, all of the room is given back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from copy import copy
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import NamedTuple

import msgspec

from .. import facts
from ..costs import cost_together
from ..facts import Fact
from ..index.domains import Domain, free_nodes
from ..index.groups import Groups, Start
from ..index.limits import exceeds, held_queue, in_the_way
from ..index.node_groups import Demand, NodeEntry
from ..index.ordered import Vector, covers
from ..index.partition import PartitionIndex
from ..limits import DOMAINS_TRIED, NODES_PER_GROUP_PLAN, NODES_PER_PLAN, VICTIMS_PER_PLAN
from ..rules.resource import Resource
from ..rules.topology import Path, shown_path
from ..state import Allocation, Node, Partition, PendingAsk, Preemption, State, asked_together
from .place import place
from .victims import Cost, Guards, VictimSearch, cost_of, going, helps


class GroupPlan(msgspec.Struct, frozen=True):
    """A set of victims, the cheapest first, without which the members fit on the nodes: so many repeats of each ask."""

    # The ask by which the preemption is known: that which is placed last, so the preemption lasts until all are.
    pending: PendingAsk
    domain: str
    nodes: tuple[Node, ...]
    members: dict[PendingAsk, int]
    victims: tuple[Allocation, ...]
    resource: Resource
    # The ask that the plan was made for, and the node that it has there: about these the RM is asked.
    attempting: PendingAsk
    node: Node

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(victim.fact.uuid for victim in self.victims)


def plan_for_group(index: PartitionIndex, start: Start, search: VictimSearch) -> GroupPlan | str:
    """The plan for the next step of the group, or the reason why there is none. O(nodes + allocations) of the domains
    that are tried."""
    groups = index.groups
    assert groups is not None, "only members of groups come here"
    inside = sorted(
        ((groups.missing(start, domain), domain.path, domain) for domain in start.domains), key=itemgetter(0, 1)
    )
    best: tuple[tuple[object, ...], Domain, list[Allocation]] | None = None
    work = NODES_PER_GROUP_PLAN
    whole: dict[Domain, Room] = {}
    for _, path, domain in inside[:DOMAINS_TRIED]:
        if work <= 0:
            break
        room = Room(index, groups, domain, search)
        victims = room.victims_for(start)
        work -= room.looks
        if victims is None or Room(index, groups, domain, search).places_for(start, victims) is None:
            continue
        rank = (*cost_of(victims), path)
        if best is not None and rank >= best[0]:
            continue
        if start.others:
            shared = next(one for one in above(domain) if one.level == start.shared)
            if shared not in whole:
                whole[shared] = Room(index, groups, shared, search)
            work -= len(shared.nodes) // 8
            if not whole[shared].could_hold(start.others, room):
                continue
        best = (rank, domain, victims)
    if best is None:
        return "no domain would have room for all of it, whatever may be preempted"
    _, domain, victims = best
    room = Room(index, groups, domain, search)
    for victim in sorted(victims, key=search.cheapness, reverse=True):  # drop the most expensive ones not needed
        rest = [one for one in victims if one is not victim]
        if search.frees_queues(rest) and room.places_for(start, rest) is not None:
            victims = rest
    places = room.places_for(start, victims)
    assert places is not None, "the victims suffice"
    if not victims:
        return "it needs no preemption: there is room, or there will be when releases under way are confirmed"
    where = shown_path(domain.path) if domain.path else ""
    victims.sort(key=search.cheapness)
    nodes = dict.fromkeys(entry.node for _, entry in places)
    attempting, its = next((one for one in places if one[0] is search.pending), places[-1])
    return GroupPlan(
        places[-1][0], where, tuple(nodes), start.asks, tuple(victims), start.resource, attempting, its.node
    )


class Option(NamedTuple):
    """The cost of one more member on a node."""

    cost: Cost
    near: tuple[float, str]  # how much the node lacked at first, and its ID
    entry: NodeEntry
    victims: list[Allocation]


class SliceOption(NamedTuple):
    """The cost of one more slice in a domain, and the nodes there as they would be then."""

    cost: Cost
    path: Path
    domain: Domain
    victims: list[Allocation]
    part: Room


class Room:
    """The nodes of a domain without allocations that leave, and with members that are placed: a copy to plan on."""

    def __init__(self, index: PartitionIndex, groups: Groups, domain: Domain, search: VictimSearch) -> None:
        self.index, self.groups, self.search = index, groups, search
        self.entries = [entry for entry in domain.nodes if may_be_kept(entry.node)]
        # What leaves each node, at first what does so anyway; the members on it; and what is free there then.
        self.gone = {entry: list(going(entry.node.allocations.values())) for entry in self.entries}
        self.placed: dict[NodeEntry, list[Demand]] = {}
        self.free = free_nodes(index.nodes, self.entries, self.gone)
        self.guards = Guards(search)
        self.looks = 0

    def places_for(self, start: Start, victims: Iterable[Allocation]) -> list[tuple[PendingAsk, NodeEntry]] | None:
        """The nodes of the members in the order in which they are placed, once the victims have left; None: they do not
        fit. For a room in which nothing was planned."""
        leaving = {entry: list(some) for entry, some in self.gone.items()}
        for victim in victims:
            entry = self.index.nodes.entry_of(victim.node)
            if entry in leaving:
                leaving[entry].append(victim)
        free = free_nodes(self.index.nodes, self.entries, leaving)
        return self.groups.places_on(start.asks, free, start.slice_level, start.slice_size)

    def victims_for(self, start: Start) -> list[Allocation] | None:
        """Victims that let all members fit; None if there are none."""
        if start.slice_size:
            chosen = self._for_slices(start.slice_level, self.groups.largest_of(start), start.slice_size, start.slices)
        else:
            chosen = self._for_members(start.members)
        elsewhere = self.search.elsewhere_for(chosen, self.guards) if chosen is not None else None
        if chosen is None or elsewhere is None or len(chosen) + len(elsewhere) > VICTIMS_PER_PLAN:
            return None
        return chosen + elsewhere

    def _for_members(self, members: Iterable[tuple[Demand, int]]) -> list[Allocation] | None:
        """For one member after the other the victims on the node where they cost least. Of each kind of member,
        NODES_PER_PLAN nodes are compared, those that lack least, and one more for each member."""
        chosen: list[Allocation] = []
        for demand, count in members:
            shape, free = self.groups.domains.shape_of(demand), self.free
            near = sorted(
                (lacking(free[entry][0], demand.need), entry.id, entry) for entry in free if shape.may_take(entry)
            )
            compared = near[: NODES_PER_PLAN + count]
            found = (self._option(entry, (short, node_id), demand) for short, node_id, entry in compared)
            options = [option for option in found if option is not None]
            heapify(options)
            for _ in range(count):
                best = self._cheapest(options, demand)
                if best is None or len(chosen) + len(best.victims) > VICTIMS_PER_PLAN:
                    return None
                chosen += best.victims
                self._take(best, demand)
                again = self._option(best.entry, best.near, demand)
                if again is not None:
                    heappush(options, again)
        return chosen

    def _for_slices(self, level: int, largest: Demand, size: int, slices: int) -> list[Allocation] | None:
        """For one slice after the other the victims in the domain of the level where they cost least. All members of a
        slice count like the largest of them."""
        standing = self.groups.domains.standing
        parts: dict[Domain, list[NodeEntry]] = {}
        for entry in self.entries:
            domain = next((one for one in standing[entry].chain if one.level == level), None)
            if domain is not None:
                parts.setdefault(domain, []).append(entry)

        def option(domain: Domain) -> Iterator[SliceOption]:
            part = self._part(parts[domain])
            victims = part._for_members([(largest, size)])
            self.looks += part.looks
            if victims is not None:
                yield SliceOption(cost_of(victims), domain.path, domain, victims, part)

        options = [one for domain in parts for one in option(domain)]
        heapify(options)
        chosen: list[Allocation] = []
        for _ in range(slices):
            while options and not self.guards.allow(options[0].victims):
                for one in option(heappop(options).domain):
                    heappush(options, one)
            if not options or self.looks > NODES_PER_GROUP_PLAN:
                return None
            best = heappop(options)
            chosen += best.victims
            self.guards.take(best.victims)
            for entry in best.part.entries:
                self.gone[entry], self.free[entry] = best.part.gone[entry], best.part.free[entry]
                self.placed[entry] = best.part.placed.get(entry, [])
            for one in option(best.domain):
                heappush(options, one)
        return chosen

    def could_hold(self, others: Iterable[tuple[Demand, int]], planned: Room) -> bool:
        """Whether these members can be placed beside what was planned for a part of the nodes, with victims if need
        be."""
        room = self._part(self.entries)
        for entry in planned.entries:
            room.gone[entry], room.free[entry] = planned.gone[entry], planned.free[entry]
            room.placed[entry] = planned.placed.get(entry, [])
        room.guards = planned.guards.copy()
        return room._for_members(others) is not None

    def _part(self, entries: list[NodeEntry]) -> Room:
        """A copy of some of its nodes, as they are planned now."""
        part = copy(self)
        part.entries, part.guards, part.looks = entries, self.guards.copy(), 0
        part.gone = {entry: list(self.gone[entry]) for entry in entries}
        part.placed = {entry: list(self.placed.get(entry, ())) for entry in entries}
        part.free = {entry: self.free[entry] for entry in entries}
        return part

    def _cheapest(self, options: list[Option], demand: Demand) -> Option | None:
        """The next option, whose victims may still be taken."""
        while options:
            best = heappop(options)
            if self.guards.allow(best.victims):
                return best
            other = self._option(best.entry, best.near, demand)
            if other is not None:
                heappush(options, other)
        return None

    def _take(self, option: Option, demand: Demand) -> None:
        entry = option.entry
        self.guards.take(option.victims)
        self.gone[entry] += option.victims
        self.placed.setdefault(entry, []).append(demand)
        self.free[entry] = self._left(entry, self.gone[entry])

    def _option(self, entry: NodeEntry, near: tuple[float, str], demand: Demand) -> Option | None:
        """None if the node cannot have room for one more member."""
        self.looks += 1
        victims = self._victims_on(entry, demand)
        return None if victims is None else Option(cost_of(victims), near, entry, victims)

    def _victims_on(self, entry: NodeEntry, demand: Demand) -> list[Allocation] | None:
        """The victims for one more member on the node, each needed; None: those that may go do not suffice."""
        left, gone, chosen = self.free[entry], self.gone[entry], list[Allocation]()
        if _has_room(demand, left):
            return []
        trial = self.guards.copy()
        for victim in sorted(self.search.on(entry.node), key=self.search.cheapness):
            if _has_room(demand, left):
                break
            useful = victim not in gone and (left[1] <= 0 or self._helps(victim, left[0], demand))
            if useful and trial.allow((victim,)):
                trial.take((victim,))
                chosen.append(victim)
                left = self._left(entry, [*gone, *chosen])
        if not _has_room(demand, left):
            return None
        for victim in sorted(chosen, key=self.search.cheapness, reverse=True):
            rest = [one for one in chosen if one is not victim]
            if _has_room(demand, self._left(entry, [*gone, *rest])):
                chosen = rest
        return chosen

    def _helps(self, victim: Allocation, available: Vector, demand: Demand) -> bool:
        """Whether the victim frees something that the member lacks, also on a device."""
        names = self.index.names
        return helps(victim, {name: 1 for name, place in names.items() if available[place] < demand.need[place]})

    def _left(self, entry: NodeEntry, gone: list[Allocation]) -> tuple[Vector, int]:
        placed, nodes = self.placed.get(entry, ()), self.index.nodes
        available, allocations = free_nodes(nodes, (entry,), {entry: gone})[entry]
        for demand in placed:
            available = nodes.after(demand, available)
        return available, allocations - len(placed)


def above(domain: Domain) -> Iterator[Domain]:
    """The domain and those around it, the smallest first."""
    one: Domain | None = domain
    while one is not None:
        yield one
        one = one.parent


def may_be_kept(node: Node) -> bool:
    """Whether the node takes asks, and is not set aside for others."""
    return node.schedulable and node.reservation is None and node.kept is None


def lacking(available: Vector, need: Vector) -> float:
    return sum((want - have) / (want or 1) for have, want in zip(available, need, strict=True) if have < want)


def _has_room(demand: Demand, free: tuple[Vector, int]) -> bool:
    return free[1] > 0 and covers(free[0], demand.need)


# Kept room


def place_freed(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Generator[Fact, None, int]:
    """Place the members of groups for which all victims have left, on the nodes that are kept for them. If they do not
    fit, the room is given back. Returns how many were placed."""
    placed = 0
    for preemption in [one for one in partition.preemptions.values() if one.nodes] if index.groups is not None else ():
        if any(uuid in partition.allocations for uuid in preemption.uuids):
            continue
        todo = {ask: min(count, ask.free) for ask, count in preemption.members.items() if ask.free}
        if not todo or index.holds_back(preemption.pending.application):
            continue
        places = places_on_kept(index, preemption, todo)
        if isinstance(places, str):
            if not any(any(going(node.allocations.values())) for node in preemption.nodes):
                known_by = preemption.pending.ask
                yield facts.PreemptionEnded(*known_by.name, places)
            continue
        for ask, node in places:
            yield from place(state, partition, ask, node, now_ms)
            placed += 1
    return placed


def places_on_kept(
    index: PartitionIndex, preemption: Preemption, todo: Mapping[PendingAsk, int]
) -> list[tuple[PendingAsk, Node]] | str:
    """The nodes of the members that are yet to be placed, or the reason why they do not fit there."""
    groups, application = index.groups, preemption.pending.application
    assert groups is not None, "the ask is a member of a group"
    start = groups.start_of(preemption.pending)
    whole = isinstance(start, Start) and start.begins
    if isinstance(start, Start) and whole and start.asks != todo:
        return "its group has other members now"
    if isinstance(start, Start) and whole and not _are_in(index, preemption.nodes, start.scopes[0]):
        return "its application runs elsewhere now"
    slices = groups.slices_of(preemption.pending) if sum(preemption.members.values()) > 1 else (-1, 0)
    if slices[1] and not whole:
        return "not all of its slices start any more"
    total = asked_together(todo)
    gates = () if application.counts_as_running else application.application_limits
    full = next((q for q in application.queue.path_to_root if exceeds(total, q.most, q.used)), None)
    limit = held_queue(application.queue) or in_the_way(
        gates, application.trackers, total, application.queue.budgets, cost_together(todo), has_place=True
    )
    if full is not None or limit is not None:
        return f"{limit if limit is not None else full} has no room for it any more"
    entries = [index.nodes.entry_of(node) for node in preemption.nodes if node.schedulable]
    found = groups.places_on(todo, free_nodes(index.nodes, entries), *slices)
    if found is None:
        return "the nodes that were kept have no room for all of it any more"
    return [(ask, entry.node) for ask, entry in found]


def _are_in(index: PartitionIndex, nodes: Iterable[Node], scope: Domain) -> bool:
    groups = index.groups
    assert groups is not None, "only groups keep nodes"
    standing = groups.domains.standing
    chains = (standing[index.nodes.entry_of(node)].chain for node in nodes)
    return scope is groups.domains.all_nodes or all(scope in chain for chain in chains)
