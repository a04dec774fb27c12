"""Find the best node for an ask: the schedulable nodes of a partition, by their score under the node sort policy
(semantics section 10).

    NodeIndex    the groups of nodes by score; the best node of a demand is the first one of the first group with room
    Packing      the nodes of an application, which come first in partitions with `pack: application`
    Rankings     the nodes that the RM has accepted for a predicate class, where a walk through groups takes too long

Nodes that are the same to the rules form a group (`NodeGroup`): one score, one answer to "does it fit". An allocation
moves a node from one group to the next, and a group remembers where a demand leads, so thousands of like nodes cost
little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import chain, groupby, repeat, takewhile
from math import fsum, inf
from operator import add, attrgetter, itemgetter, sub

from ..limits import (
    LEFTOVERS,
    LOOKS_PER_GROUP,
    NEXT_GROUPS_KEPT,
    NODE_GROUPS_KEPT,
    NODES_PER_QUESTION,
    RANKED_NODES_KEPT,
)
from ..rules.keyed import unlist
from ..rules.resource import INT64_MAX, Resource
from ..state import NO_NODES, Allocation, Application, Node, Partition, PredicateClass, Refusals
from .devices import places_available, places_obtainable, places_without
from .lasting import Falls
from .node_groups import Demand, NodeEntry, NodeGroup
from .ordered import HIDDEN, FitList, Rank, Vector, covers
from .scores import AVOIDED, score_of
from .trees import FitTree, PassBudget

# Which node of a group comes first, and how many nodes of the group were looked at for that.
First = Callable[[NodeGroup], tuple[NodeEntry | None, int]]

# What the nodes of a group have in common: capacity, obtainable, available, and whether they are avoided.
GroupKey = tuple[Vector, Vector, Vector, bool]

# A rank behind all others.
LAST: Rank = (float("inf"),)


class NoneOf:
    """A set of IDs: the nodes that are refused, and one more."""

    def __init__(self, refused: Refusals, node_id: str) -> None:
        self._refused, self._node_id = refused, node_id

    def __contains__(self, node_id: object) -> bool:
        return node_id == self._node_id or node_id in self._refused


class NodeIndex:
    """The nodes of a partition in their groups, and the groups in the order of their scores.

    `place`, `withdraw`, `remove` and `book` follow the facts; `best` and `closest` answer the pass. O(log n) each,
    except for `closest`, which looks at every group."""

    def __init__(self, partition: Partition, names: dict[str, int], budget: PassBudget, spare: int = 0) -> None:
        """Empty. `names`: the place of each resource in vectors, which have so many `spare` places behind these."""
        self._nodes = partition.nodes
        # How long nodes stay for each audience, and its places in vectors. None: vectors do not have it.
        self.falls: Falls | None = None
        self.audiences = tuple(audience for audience in partition.audiences if audience in names)
        at = names[self.audiences[0]] if self.audiences else 0
        self.lasting = slice(at, at + len(self.audiences))
        self._entries: dict[str, NodeEntry] = {}
        self._names = names
        self.spare: Vector = (0,) * spare
        settings = partition.settings
        self._weights = tuple(
            (names[name], weight) for name, weight in sorted(settings.resource_weights.items()) if weight > 0
        )
        self._score = score_of(settings.node_sort)
        self._groups: dict[GroupKey, NodeGroup] = {}
        self._numbers = 0  # the number of the group that was made last
        self._remembered = 0  # how many entries the `next_groups` of all groups have
        self._order: FitTree[NodeGroup] = FitTree(self.width, budget)
        self.rankings = Rankings(self._entries)
        self.packing: Packing | None = None  # set in partitions whose asks are packed
        # Nodes that have changed, for domains: set in partitions with a topology.
        self.changed: ChangedNodes | None = None
        # How often a group was filled, or got another first node: what was found since the last time is still best.
        self._filled_ever = 1

    def fill(self, nodes: Iterable[Node]) -> Iterator[None]:
        """Add all nodes, in the order of their IDs. Yields after each. The groups are listed at the end: that takes a
        tenth of the time that it takes to list one after the other."""
        for node in nodes:
            entry = self._entry(node)
            if node.candidate:
                entry.group = group = self._group_for(entry)
                group.add(entry)
            yield
        for group in self._groups.values():
            group.room = group.available
        ranked = [((group.score, group.line[0].id, group.number), group) for group in self._groups.values()]
        yield from self._order.fill(sorted(ranked, key=itemgetter(0)))

    # Which group a node is in

    @property
    def width(self) -> int:
        """The length of vectors."""
        return len(self._names) + len(self.spare)

    def vector(self, resource: Resource) -> Vector:
        """The amounts in the order of the names; a name that is missing counts 0."""
        return tuple(map(resource.get, self._names, repeat(0))) + self.spare

    def _whole(self, node: Node) -> Vector:
        """The vector of the capacity."""
        return self.timed(node, self.vector(node.capacity))

    def timed(self, node: Node, amounts: Vector) -> Vector:
        """The amounts, with how long the node stays."""
        if self.falls is None:
            return amounts
        return self._with_lasting(amounts, self.falls.amounts(node, self.falls.now_ms))

    def _with_lasting(self, amounts: Vector, lasting: Vector) -> Vector:
        return (*amounts[: self.lasting.start], *lasting, *amounts[self.lasting.stop :])

    def lasts(self, node: Node, demand: Demand, at_ms: int) -> bool:
        """Whether an allocation of the demand that starts on the node at this time ends before the node leaves."""
        return self.falls is None or covers(self.falls.amounts(node, at_ms), demand.need[self.lasting])

    def available(self, node: Node) -> Vector:
        """The vector of `node.available()`, with what is free on each device."""
        rest = self._less(self._whole(node), node.occupied, node.allocated)
        return self._on_devices(rest, places_available(node)) if node.devices else rest

    def available_without(self, node: Node, leaving: Sequence[Allocation]) -> Vector:
        """The vector of what is available once these allocations have left."""
        if not leaving:
            return self.available(node)
        rest = self._less(self._whole(node), node.occupied, node.allocated)
        for allocation in leaving:
            rest = tuple(map(add, rest, self.vector(allocation.fact.resource)))
        return self._on_devices(rest, places_without(node, leaving)) if node.devices else rest

    def obtainable(self, node: Node) -> Vector:
        """The vector of `node.obtainable()`, with what is free on each device then."""
        rest = self._less(self._whole(node), node.occupied, node.bound)
        return self._on_devices(rest, places_obtainable(node)) if node.devices else rest

    def _on_devices(self, rest: Vector, places: Resource) -> Vector:
        return tuple(map(add, rest, self.vector(places))) if places else rest

    def _less(self, rest: Vector, *taken: Resource) -> Vector:
        for amounts in taken:
            if any(amounts.values()):
                rest = tuple(map(sub, rest, self.vector(amounts)))
        return rest

    def place(self, node: Node) -> NodeGroup | None:
        """Put the node into the group of its amounts and state. Returns the group; None if nothing may be placed on
        the node."""
        entry = self._entry(node)
        if self.changed is not None:
            self.changed.add(entry)
        group = self._group_for(entry) if node.candidate else None
        if group is None or group is not entry.group:
            self._move(entry, group)
        self.rankings.changed(entry)
        if self.packing is not None:
            self.packing.gained_room(node)
        return group

    def _group_for(self, entry: NodeEntry) -> NodeGroup:
        """The group of the amounts that the node has now."""
        node, capacity = entry.node, self._whole(entry.node)
        if node.devices:
            return self._group(entry, (capacity, self.obtainable(node), self.available(node), entry.avoided))
        unoccupied = self._less(capacity, node.occupied)
        bound, allocated = self._less(unoccupied, node.bound), self._less(unoccupied, node.allocated)
        return self._group(entry, (capacity, bound, allocated, entry.avoided))

    def avoid(self, entry: NodeEntry, avoided: bool) -> None:
        """Let the node come behind all others, or not any more."""
        entry.avoided = avoided
        self.place(entry.node)

    def withdraw(self, node: Node) -> None:
        """Offer the node to no ask any more: it is reserved."""
        entry = self._entry(node)
        if self.changed is not None:
            self.changed.add(entry)
        self._move(entry, None)

    def remove(self, node: Node) -> None:
        """Remove a node that the partition has no more."""
        entry = self._entries.pop(node.id, None)
        if entry is not None:
            self._move(entry, None)
            self.rankings.removed(entry)

    def group_of(self, node: Node) -> NodeGroup | None:
        """The group of the node; None if nothing may be placed on it."""
        entry = self._entries.get(node.id)
        return entry.group if entry is not None else None

    def entry_of(self, node: Node) -> NodeEntry:
        """The entry of the node, which is added if it is not known."""
        return self._entry(node)

    def rank_of(self, demand: Demand, entry: NodeEntry, available: Vector) -> Rank:
        """The rank of a node for the demand, where so much is available on it: the lowest is the best."""
        group = entry.group
        if group is not None and available is group.available:
            return (group.score, entry.id)
        capacity = group.capacity if group is not None else self._whole(entry.node)
        score = self._score(capacity, available, self._weights)
        return (score + AVOIDED if entry.avoided else score, entry.id)

    def _entry(self, node: Node) -> NodeEntry:
        entry = self._entries.get(node.id)
        if entry is None:
            entry = self._entries[node.id] = NodeEntry(node)
        return entry

    def book(self, node_id: str, demand: Demand) -> None:
        """Follow an allocation of this demand on the node. A demand that knew its best group still does: either that
        group, or the one that the node is in now, which then is the only one so far in front that has room."""
        entry = self._entries[node_id]
        group, node = entry.group, entry.node
        if self.changed is not None:
            self.changed.add(entry)
        if group is None:
            return
        if node.allocations_left <= 0:
            self._move(entry, None)
            return
        before, after = group.score, group.next_groups.get(demand)
        known = after is not None
        if after is None:
            if demand.required_node:
                after = self._group_for(entry)  # what is bound to the node may be obtained no more
            else:
                available = self.after(demand, group.available)
                after = self._group(entry, (group.capacity, group.obtainable, available, group.avoided))
        if after.score < before:
            self.rankings.changed(entry)
        if after is group:
            return
        if not known:
            # There may be any number of ways from a lone group, and for refused nodes, and they do not last. A way to a
            # group that this node begins is remembered when a second node takes it. Where nodes differ, none does.
            begins = after.lone and not after.size
            if not (begins or group.lone or demand.required_node or demand.refused):
                group.next_groups[demand] = after
                after.lone = False
                demand.remembering_groups.append(group)
                self._remembered += 1
                if self._remembered > 8 * len(self._nodes) + NEXT_GROUPS_KEPT:
                    self._forget_next_groups()
        up_to_date = demand.changes_seen == self._filled_ever
        if self._move(entry, after) and up_to_date:
            demand.changes_seen = self._filled_ever
            demand.joined(after)

    def after(self, demand: Demand, available: Vector) -> Vector:
        """The amounts that are available once the demand was placed where `available` is."""
        rest = self._rest(demand, available)
        return self._with_lasting(rest, available[self.lasting]) if self.audiences else rest

    def _rest(self, demand: Demand, available: Vector) -> Vector:
        return demand.after(available) if demand.on_devices else tuple(map(sub, available, demand.need))

    def _move(self, entry: NodeEntry, group: NodeGroup | None) -> bool:
        """Put the node into the group (None: into none). Returns whether it is the group's first node now."""
        left = entry.group
        if left is not None:
            left.size -= 1
            if not left.size:
                left.hide()
        entry.group = group
        if group is not None and group.add(entry):
            self._begun(group, entry)
            return True
        return False

    def _begun(self, group: NodeGroup, node: NodeEntry) -> None:
        """List a group that has another first node."""
        self._filled_ever += 1
        group.room = group.available
        rank = group.rank
        if rank is None or node.id < rank[1]:
            self._order.move(group, (group.score, node.id, group.number))

    def _reorder(self, group: NodeGroup, node: NodeEntry) -> None:
        """Follow a group of one node whose amounts are others now."""
        self._order.move(group, (group.score, node.id, group.number))

    # The best node of a demand

    def best(self, demand: Demand) -> Node | None:
        """The node on which the demand is placed: the best score, then the smallest ID, of those it fits."""
        if demand.node_specific:
            return self._best_but_refused(demand)
        if demand.changes_seen == self._filled_ever:
            best = demand.group
            if best is not None and not best.size:
                best = demand.next_best()
            if best is not None:
                return best.first().node  # nothing better came
        order, need = self._order, demand.need
        start = demand.search_start if demand.changes_seen == self._filled_ever else ()
        demand.changes_seen = self._filled_ever
        while (group := order.first(need, start)) is not None:
            node, rank, tied = group.first(), group.rank, order.tied()
            assert rank is not None, "what was found is listed"
            if not tied or node.id == rank[1]:
                demand.search_start = rank
                demand.group, demand.runner_up = None if tied else group, None
                return node.node
            # Its first node is another by now, and another group has the same score.
            order.move(group, (group.score, node.id, group.number))
        demand.search_start, demand.group, demand.runner_up = LAST, None, None
        return None

    def _best_but_refused(self, demand: Demand) -> Node | None:
        """As `best`, for a node-specific demand: one that requires a node, or for which the RM refuses some."""
        found = demand.predicate_class
        if demand.required_node:
            node = self._required(demand)
            return node if node is None or found is None or node.id in found.accepted else None
        if found is not None:
            return self._best_accepted(demand, found)
        return self._walk(demand, lambda group: (group.first_but(demand.refused), 0), INT64_MAX)[0]

    def _walk(self, demand: Demand, first: First, most: int) -> tuple[Node | None, int]:
        """The best node that the demand fits, of the `first` nodes of groups; and how much was looked at. If that is
        more than `most`, the walk may have ended before it came to the best."""
        best: NodeEntry | None = None
        order, best_score, looked_at = self._order, 0.0, 0
        start: Rank = ()
        while looked_at <= most and (group := order.first(demand.need, start)) is not None:
            rank = group.rank
            assert rank is not None, "what was found is listed"
            if best is not None and (best_score, best.id) <= rank[:2]:
                break  # no group from here on begins with a smaller ID
            if (foremost := group.first()).id != rank[1]:  # its first node is another by now
                order.move(group, (group.score, foremost.id, group.number))
                continue
            fine, looked_at_here = first(group)
            looked_at += LOOKS_PER_GROUP + looked_at_here
            if fine is not None and (best is None or fine.id < best.id):
                best, best_score = fine, group.score
            start = (*rank, 0)  # right behind it
        return best.node if best is not None else None, looked_at

    def _best_accepted(self, demand: Demand, found: PredicateClass) -> Node | None:
        """As `best`, of the nodes that are accepted for the demand's class."""
        if not found.accepted:
            return None
        ranking = self.rankings.find(demand.need, found)
        most = (len(found.accepted) if ranking is None else ranking.behind) - demand.looked_at
        if most > LOOKS_PER_GROUP:
            accepted = found.accepted
            node, looked_at = self._walk(demand, lambda group: group.first_accepted(accepted), most)
            demand.looked_at += looked_at
            if looked_at <= most:
                return node
        demand.looked_at = 0
        entry = (ranking if ranking is not None else self.rankings.make(demand.need, found)).best()
        return entry.node if entry is not None else None

    def _required(self, demand: Demand) -> Node | None:
        """The node that the demand requires, if it has room and is not refused."""
        node = self._nodes.get(demand.required_node)
        if node is None or node.reservation is not None or node.kept is not None or node.full:
            return None
        if not node.takes(node.id):
            return None
        if node.id in demand.refused:
            return None
        group = self.group_of(node)
        available = group.available if group is not None else self.available(node)
        return node if covers(available, demand.need) else None

    def best_not_refused(self, demand: Demand) -> Node | None:
        """The best node for a demand of a predicate class, whether it is accepted or the RM has given no verdict."""
        if demand.predicate_class is None:
            return None
        return self.best(
            Demand(
                demand.resource,
                demand.items,
                demand.required_node,
                demand.refused,
                demand.need,
                weight=0,
                on_devices=demand.on_devices,
            )
        )

    def without_verdict(self, demand: Demand, after: str) -> tuple[str, ...]:
        """Nodes that the demand fits and about which the RM has given no verdict for its class, the best score first,
        at most NODES_PER_QUESTION. Of equal score, those behind the ID `after` first: so classes are asked about
        different nodes, and their asks do not meet on a few. O(nodes with verdicts) at most."""
        known = demand.predicate_class
        assert known is not None, "only such demands are asked about"
        if demand.required_node:
            node = self._required(demand)
            return (node.id,) if node is not None and not known.has_verdict(node.id) else ()
        found: dict[str, None] = {}
        accepted, refused = known.accepted, known.refused
        for _, equal in groupby(self._with_room(demand), key=attrgetter("score")):
            groups = list(equal)
            behind = merge(*(group.behind(after) for group in groups))
            for entry in chain(behind, merge(*(group.up_to(after) for group in groups))):
                if entry.id not in accepted and entry.id not in refused:
                    found[entry.id] = None
                    if len(found) == NODES_PER_QUESTION:
                        return tuple(found)
        return tuple(found)

    def _with_room(self, demand: Demand) -> Iterator[NodeGroup]:
        """The groups with room for the demand, the best score first."""
        start: Rank = ()
        while (group := self._order.first(demand.need, start)) is not None:
            assert group.rank is not None, "what was found is listed"
            start = (*group.rank, 0)  # right behind it
            yield group

    def closest(self, demand: Demand, but: str = "") -> tuple[Node | None, int]:
        """The candidate that lacks least of what the demand wants, of those where it can be obtained, those that are
        avoided last; among equals the one that would be chosen first. `but`: the ID of a node that is chosen only if
        there is no other. And how many groups were looked at."""
        refused = NoneOf(demand.refused, but) if but else demand.refused if demand.node_specific else NO_NODES
        best: tuple[bool, float, float, str] | None = None
        found: Node | None = None
        empty = 0
        for group in self._groups.values():
            if not group.size:
                empty += 1
            elif covers(group.obtainable, demand.need):
                lacking = _lacking(group.available, demand.need)
                if best is None or (group.avoided, lacking, group.score) <= best[:3]:
                    node = group.first() if refused == NO_NODES else group.first_but(refused)
                    if node is not None and (best is None or (group.avoided, lacking, group.score, node.id) < best):
                        best, found = (group.avoided, lacking, group.score, node.id), node.node
        looked_at = len(self._groups)
        if found is None and but and but not in demand.refused:
            entry = self._entries.get(but)
            if entry is not None and entry.group is not None and covers(entry.group.obtainable, demand.need):
                found = entry.node
        if empty > 64 and 2 * empty > looked_at:
            self._trim()
        return found, looked_at

    def one_of_each(self, refused: Refusals) -> Iterator[Node]:
        """The node with the smallest ID that is not refused, of each group of nodes that are the same to the rules;
        none that takes nothing new."""
        for group in self._groups.values():
            if group.size:
                node = group.first() if refused == NO_NODES else group.first_but(refused)
                if node is not None:
                    yield node.node

    def answered(self, found: PredicateClass, node_ids: Sequence[str]) -> None:
        """Follow the RM's answer about these nodes for the class."""
        self.rankings.answered(found, node_ids)
        self._note(node_ids)

    def _note(self, node_ids: Iterable[str]) -> None:
        if self.changed is not None:
            for entry in filter(None, map(self._entries.get, node_ids)):
                self.changed.add(entry)

    def lost(self) -> list[str]:
        """The accepted nodes that are not found in their turn, for `check`."""
        return self.rankings.lost()

    # Keeping it small

    def forget(self, demand: Demand) -> None:
        """Forget a demand that no ask has any more."""
        for group in demand.remembering_groups:
            group.next_groups.pop(demand, None)
        self._remembered -= len(demand.remembering_groups)
        demand.remembering_groups.clear()

    def _trim(self) -> None:
        """Forget empty groups, and which allocations lead to them."""
        self._forget_next_groups()
        for group in self._groups.values():
            if not group.size:
                self._order.remove(group)
        self._groups = {key: group for key, group in self._groups.items() if group.size}

    def _forget_next_groups(self) -> None:
        for group in self._groups.values():
            for demand in group.next_groups:
                demand.remembering_groups.clear()
            group.next_groups.clear()
        self._remembered = 0

    def _group(self, entry: NodeEntry, key: GroupKey) -> NodeGroup:
        """The group of the nodes that are like that. Where the node is alone in its group and there is none like that,
        its own becomes it."""
        group = self._groups.get(key)
        if group is None:
            capacity, obtainable, available, avoided = key
            score, left = self._score(capacity, available, self._weights), entry.group
            if avoided:
                score += AVOIDED
            if left is not None and left.lone:
                del self._groups[left.capacity, left.obtainable, left.available, left.avoided]
                left.capacity, left.obtainable, left.available, left.avoided = key
                left.room, left.score = available, score
                self._groups[key] = left
                self._filled_ever += 1
                self._reorder(left, entry)
                return left
            if len(self._groups) > 4 * len(self._nodes) + NODE_GROUPS_KEPT:
                self._trim()
            self._numbers += 1
            group = self._groups[key] = NodeGroup(self._numbers, capacity, obtainable, available, score, avoided)
        return group

    def with_room(self, need: Vector) -> Iterator[NodeGroup]:
        """The groups of nodes that have so much available. O(groups)."""
        return (group for group in self._groups.values() if group.size and covers(group.available, need))

    def groups(self) -> dict[GroupKey, set[str]]:
        """The IDs of the nodes of each group, for `check`."""
        return {
            key: {n.id for n in (*group.line, *group.others) if n.group is group}
            for key, group in self._groups.items()
            if group.size
        }


def _lacking(available: Vector, need: Vector) -> float:
    """The sum, over the needed resources, of the missing part. It does not depend on the order of the names."""
    pairs = [(have, want) for have, want in zip(available, need, strict=True) if want > have]
    return fsum((want - max(have, 0)) / want if want else 1.0 for have, want in pairs)


# Nodes on which an application is already


@dataclass(slots=True, eq=False)
class PackedNode:
    """A node with allocations of an application."""

    node: Node
    # How many allocations of the application the node has.
    count: int
    # The place in `NodesOfApplication.order` (`Listed`). None: nothing new may be placed on the node.
    rank: Rank | None = None
    # At least what is available on the node.
    room: Vector = HIDDEN


class NodesOfApplication:
    """The nodes of an application by ID, and those of them that may have room, in the order of IDs."""

    __slots__ = ("nodes", "order")

    def __init__(self, width: int) -> None:
        self.nodes: dict[str, PackedNode] = {}
        self.order: FitList[PackedNode] = FitList(width)

    def list(self, packed: PackedNode, room: Vector | None) -> None:
        """List the node with this room. None: nothing new may be placed on the node."""
        self.order.remove(packed)
        if room is not None:
            packed.room = room
            self.order.put(packed, (packed.node.id,))


class Packing:
    """Places an ask of a packed application on a node on which the application has an allocation already, if one of
    them has room, so that it stays on few nodes (001, "assign multiple containers in one go"; semantics section 10).

    Only partitions with `pack: application` have this. The nodes of an application are listed at its first search, and
    until it has ended, each with at least the room that it has: other allocations may have taken some, which a search
    that comes across the node finds out, and a node that gains room is listed with that at once. O(log n) for each
    allocation, and for each node that a search finds to have less room than listed; O(log n) for each application on a
    node that gains room."""

    def __init__(self, nodes: NodeIndex, budget: PassBudget) -> None:
        self._index = nodes
        self._budget = budget
        self.of: dict[Application, NodesOfApplication] = {}
        # By node ID: the applications that list the node.
        self._on: dict[str, dict[NodesOfApplication, None]] = {}

    def best(self, application: Application, demand: Demand) -> Node | None:
        """The node with the smallest ID, of those that have allocations of the application and that the demand fits,
        but none that is avoided. None: no such node has room, or the ask is bound to a node."""
        if demand.required_node or not application.allocations:
            return None
        listed, start = self.of.get(application) or self._made(application), Rank()
        while (packed := listed.order.first(demand.need, start)) is not None:
            room = self._room(packed.node)
            if room is None or not covers(room, demand.need):
                self._budget.left -= 1
                listed.list(packed, room)
            elif demand.avoids(packed.node.id) or self._is_avoided(packed.node):
                start = (packed.node.id, 0)  # right behind it
            else:
                return packed.node
        return None

    def _room(self, node: Node) -> Vector | None:
        group = self._index.group_of(node)
        return group.available if group is not None else None

    def _is_avoided(self, node: Node) -> bool:
        group = self._index.group_of(node)
        return group is not None and group.avoided

    def _made(self, application: Application) -> NodesOfApplication:
        listed = self.of[application] = NodesOfApplication(self._index.width)
        for allocation in application.allocations.values():
            self._add(listed, allocation.node)
        return listed

    def _add(self, listed: NodesOfApplication, node: Node) -> None:
        packed = listed.nodes.get(node.id)
        if packed is not None:
            packed.count += 1
            return
        packed = listed.nodes[node.id] = PackedNode(node, 1)
        self._on.setdefault(node.id, {})[listed] = None
        listed.list(packed, self._room(node))

    # Changes by facts

    def allocated(self, application: Application, node: Node) -> None:
        """The application has one more allocation on the node."""
        listed = self.of.get(application)
        if listed is not None:
            self._add(listed, node)

    def released(self, application: Application, node: Node) -> None:
        """The application has one allocation less on the node."""
        listed = self.of.get(application)
        if listed is None:
            return
        packed = listed.nodes[node.id]
        packed.count -= 1
        if not packed.count:
            listed.order.remove(packed)
            del listed.nodes[node.id]
            unlist(self._on, node.id, listed)

    def gained_room(self, node: Node) -> None:
        """The node has more room than before, or takes new allocations again."""
        applications = self._on.get(node.id)
        room = self._room(node) if applications else None
        if applications and room is not None:
            for listed in applications:
                packed = listed.nodes[node.id]
                if packed.rank is None or not covers(packed.room, room):
                    listed.list(packed, room)

    def forget(self, application: Application) -> None:
        """The application has ended."""
        listed = self.of.pop(application, None)
        if listed is not None:
            for node_id in listed.nodes:
                unlist(self._on, node_id, listed)


# Nodes that are accepted for a predicate class


class ChangedNodes:
    """Nodes that may suit a demand better than before, in the order of their last change."""

    __slots__ = ("_at", "count")

    def __init__(self) -> None:
        self._at: dict[NodeEntry, int] = {}
        self.count = 0  # changes so far

    def add(self, node: NodeEntry) -> None:
        self.count += 1
        self._at.pop(node, None)
        self._at[node] = self.count

    def is_after(self, count: int, node: NodeEntry) -> bool:
        """Whether the node has changed since `count` changes were noted."""
        return self._at.get(node, 0) > count

    def remove(self, node: NodeEntry) -> None:
        """The node is gone."""
        self._at.pop(node, None)

    def since(self, count: int) -> Iterator[NodeEntry]:
        """The nodes that changed after the first so many changes, the last change first."""
        return (node for node, _ in takewhile(lambda changed: changed[1] > count, reversed(self._at.items())))


class AcceptedNodes:
    """A ranking: a heap of the accepted nodes of a demand, the best first.

    The score of a node in the heap is never worse than the node's own. An allocation may make the latter worse, which
    shows when the entry comes to the front. `ChangedNodes` has the nodes that may be better than before. Before each
    search, a ranking takes in those that are new to it."""

    __slots__ = ("_changed", "_class", "_heap", "_listed", "_need", "_seen")

    def __init__(
        self, need: Vector, found: PredicateClass, entries: Mapping[str, NodeEntry], changed: ChangedNodes
    ) -> None:
        """O(accepted nodes)."""
        self._need = need
        self._class = found
        self._changed = changed
        self._seen = changed.count
        there = [entries[node_id] for node_id in found.accepted if node_id in entries]
        # The score under which a node stands in the heap; its other entries there are leftovers.
        self._listed = {node: node.group.score for node in there if node.group is not None}
        self._heap = [(score, node.id, node) for node, score in self._listed.items()]
        heapify(self._heap)

    @property
    def behind(self) -> int:
        """The number of changes of nodes that the ranking does not know yet."""
        return self._changed.count - self._seen

    def finds(self, node: NodeEntry) -> bool:
        """Whether the ranking finds the node in its turn, if the node is accepted and has room. For `check`."""
        group = node.group
        if group is None or node.id not in self._class.accepted or not covers(group.available, self._need):
            return True
        return self._listed.get(node, inf) <= group.score or self._changed.is_after(self._seen, node)

    def add(self, nodes: Iterable[NodeEntry]) -> None:
        """Take in nodes that may be accepted now, or better than before."""
        accepted, listed = self._class.accepted, self._listed
        for node in nodes:
            group = node.group
            if group is not None and node.id in accepted:
                known = listed.get(node)
                if known is None or group.score < known:
                    listed[node] = group.score
                    heappush(self._heap, (group.score, node.id, node))
        if len(self._heap) > 2 * len(listed) + LEFTOVERS:
            self._heap = [(score, node.id, node) for node, score in listed.items()]
            heapify(self._heap)

    def best(self) -> NodeEntry | None:
        """The best accepted node with room; None if there is none. O(log n), amortised."""
        if self._seen != self._changed.count:
            self.add(self._changed.since(self._seen))
            self._seen = self._changed.count
        heap, listed, accepted, need = self._heap, self._listed, self._class.accepted, self._need
        while heap:
            score, node_id, node = heap[0]
            group = node.group
            if listed.get(node) != score:
                heappop(heap)
            elif group is not None and group.score != score:
                listed[node] = group.score
                heapreplace(heap, (group.score, node_id, node))
            elif group is not None and node_id in accepted and covers(group.available, need):
                return node
            else:
                heappop(heap)
                del listed[node]
        return None


class Rankings:
    """The rankings of a partition: for each predicate class by what demands need. They outlive demands, whose asks may
    come and be placed one by one.

    There are two ways to the best accepted node. A *walk* goes through the groups of nodes, the best first, and passes
    over nodes that are not accepted. A *ranking* knows the best node at once, but first it has to be made, and it has
    to learn of nodes that changed. A demand walks until its walks have looked at as many nodes as the ranking would."""

    __slots__ = ("_changed", "_entries", "_of", "_ranked")

    def __init__(self, entries: Mapping[str, NodeEntry]) -> None:
        """`entries`: of all nodes, by ID."""
        self._entries = entries
        self._changed = ChangedNodes()
        self._of: dict[PredicateClass, dict[Vector, AcceptedNodes]] = {}
        self._ranked = 0  # at least as many nodes as rankings have

    def find(self, need: Vector, found: PredicateClass) -> AcceptedNodes | None:
        of_class = self._of.get(found)
        return of_class.get(need) if of_class is not None else None

    def make(self, need: Vector, found: PredicateClass) -> AcceptedNodes:
        """Make a ranking. All others are dropped where they are too many. O(accepted nodes)."""
        ranking = AcceptedNodes(need, found, self._entries, self._changed)
        self._ranked += LEFTOVERS + len(found.accepted)
        if self._ranked > RANKED_NODES_KEPT:
            self._of.clear()
            self._ranked = LEFTOVERS + len(found.accepted)
        self._of.setdefault(found, {})[need] = ranking
        return ranking

    def answered(self, found: PredicateClass, node_ids: Sequence[str]) -> None:
        """The RM has answered about these nodes for the class."""
        rankings = self._of.get(found, {})
        self._ranked += len(rankings) * len(node_ids)
        for ranking in rankings.values():
            ranking.add(entry for entry in map(self._entries.get, node_ids) if entry is not None)

    def changed(self, node: NodeEntry) -> None:
        """The node may be better for a demand than before."""
        if self._of:
            self._changed.add(node)

    def removed(self, node: NodeEntry) -> None:
        self._changed.remove(node)

    def lost(self) -> list[str]:
        """Nodes that a ranking would not find. For `check`."""
        return [node.id for node in self._entries.values() for one in self._all() if not one.finds(node)]

    def _all(self) -> Iterator[AcceptedNodes]:
        return chain.from_iterable(of_class.values() for of_class in self._of.values())
