"""Find the best node for an ask: the schedulable nodes of a partition, by their score under the node sort policy
(semantics section 10).

Nodes that are the same to the rules, with the same capacity, obtainable and available amounts, form a **node group**:
one score, one answer to "does it fit". An allocation moves a node from one group to the next, and a group remembers
where a demand leads, so thousands of like nodes cost little more than one. A **demand** is what asks want of a node,
the same for thousands of asks. The groups stand in a FitTree by score; the best for a demand is the first with room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, groupby, repeat
from math import fsum
from operator import attrgetter, itemgetter, sub
from typing import Protocol

from ..limits import LOOKS_PER_GROUP, NEXT_GROUPS_KEPT, NODE_GROUPS_KEPT, NODES_PER_QUESTION
from ..rules.resource import INT64_MAX, Resource
from ..state import NO_NODES, Node, Partition, PredicateClass, Refusals
from .accepted_nodes import Rankings
from .fit_list import Rank, Vector, covers
from .fit_tree import FitTree
from .node_groups import Demand, NodeEntry, NodeGroup
from .scores import score_of
from .work import Work


class FollowsRoom(Protocol):
    """Has to know which nodes gain room: `packs`."""

    def gained_room(self, node: Node) -> None: ...


# Which node of a group comes first, and how many nodes of it were looked at for that.
First = Callable[[NodeGroup], tuple[NodeEntry | None, int]]

# What nodes of one group have in common: capacity, obtainable, available.
GroupKey = tuple[Vector, Vector, Vector]

# A rank behind all others.
LAST: Rank = (float("inf"),)


class NoneOf:
    """Nodes that are not to be chosen: those that are refused, and one more."""

    def __init__(self, refused: Refusals, node_id: str) -> None:
        self._refused, self._node_id = refused, node_id

    def __contains__(self, node_id: object) -> bool:
        return node_id == self._node_id or node_id in self._refused


class NodeIndex:
    def __init__(self, partition: Partition, names: dict[str, int], work: Work, spare: int = 0) -> None:
        """Empty. `names`: place of each resource in vectors, which have so many `spare` places behind these."""
        self._nodes = partition.nodes
        self._entries: dict[str, NodeEntry] = {}
        self._names = names
        self.spare: Vector = (0,) * spare
        settings = partition.settings
        self._weights = tuple(
            (names[name], weight) for name, weight in sorted(settings.resource_weights.items()) if weight > 0
        )
        self._score = score_of(settings.node_sort)
        self._groups: dict[GroupKey, NodeGroup] = {}
        self._numbers = 0
        self._remembered = 0  # from a group to another
        self._order: FitTree[NodeGroup] = FitTree(self.width, work)
        self.rankings = Rankings(self._entries)
        self.packs: FollowsRoom | None = None  # set in partitions whose asks are packed
        self._filled_ever = 1  # how often a group was filled, or got another first node

    def fill(self, nodes: Iterable[Node]) -> Iterator[None]:
        """With all nodes, in the order of their IDs. Yields after each. The groups are listed at the end: that takes a
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
        """Length of vectors."""
        return len(self._names) + len(self.spare)

    def vector(self, resource: Resource) -> Vector:
        """Amounts in the order of the names; a name that is not there counts 0."""
        return tuple(map(resource.get, self._names, repeat(0))) + self.spare

    def available(self, node: Node) -> Vector:
        """The vector of `node.available()`."""
        return self._less(self.vector(node.capacity), node.occupied, node.allocated)

    def obtainable(self, node: Node) -> Vector:
        """The vector of `node.obtainable()`."""
        return self._less(self.vector(node.capacity), node.occupied, node.bound)

    def _less(self, rest: Vector, *taken: Resource) -> Vector:
        for amounts in taken:
            if any(amounts.values()):
                rest = tuple(map(sub, rest, self.vector(amounts)))
        return rest

    def place(self, node: Node) -> NodeGroup | None:
        """Put the node into the group of its amounts and state; None if nothing may be placed on it."""
        entry = self._entry(node)
        group = self._group_for(entry) if node.candidate else None
        if group is None or group is not entry.group:
            self._move(entry, group)
        self.rankings.changed(entry)
        if self.packs is not None:
            self.packs.gained_room(node)
        return group

    def _group_for(self, entry: NodeEntry) -> NodeGroup:
        """The group of its amounts."""
        node, capacity = entry.node, self.vector(entry.node.capacity)
        unoccupied = self._less(capacity, node.occupied)
        return self._group(
            entry, (capacity, self._less(unoccupied, node.bound), self._less(unoccupied, node.allocated))
        )

    def withdraw(self, node: Node) -> None:
        """Offer the node to no ask any more."""
        self._move(self._entry(node), None)

    def remove(self, node: Node) -> None:
        """Remove the node."""
        entry = self._entries.pop(node.id, None)
        if entry is not None:
            self._move(entry, None)
            self.rankings.removed(entry)

    def group_of(self, node: Node) -> NodeGroup | None:
        entry = self._entries.get(node.id)
        return entry.group if entry is not None else None

    def _entry(self, node: Node) -> NodeEntry:
        entry = self._entries.get(node.id)
        if entry is None:
            entry = self._entries[node.id] = NodeEntry(node)
        return entry

    def book(self, node_id: str, demand: Demand) -> None:
        """An allocation of this demand was made on the node. A demand that knew its best group still does: either that
        one, or the one the node is in now, which then is the only one so far in front that has room."""
        entry = self._entries[node_id]
        group, node = entry.group, entry.node
        if group is None:
            return
        if node.allocations_left <= 0:
            self._move(entry, None)
            return
        before, after = group.score, group.next_groups.get(demand)
        known = after is not None
        if demand.required_node:
            after = self._group_for(entry)  # what is bound to the node may be obtained no more
        elif after is None:
            after = self._group(
                entry, (group.capacity, group.obtainable, tuple(map(sub, group.available, demand.need)))
            )
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
        """The group has another first node."""
        self._filled_ever += 1
        group.room = group.available
        rank = group.rank
        if rank is None or node.id < rank[1]:
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
        """As `best`, for a demand that requires one node or refuses some."""
        found = demand.predicate_class
        if demand.required_node:
            node = self._required(demand)
            return node if node is None or found is None or node.id in found.accepted else None
        if found is not None:
            return self._best_accepted(demand, found)
        return self._walk(demand, lambda group: (group.first_but(demand.refused), 0), INT64_MAX)[0]

    def _walk(self, demand: Demand, first: First, most: int) -> tuple[Node | None, int]:
        """The best node that the demand fits, of the `first` ones of groups; and how much was looked at. If that is
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
        if node is None or node.reservation is not None or node.full or not node.takes(node.id):
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
            Demand(demand.resource, demand.items, demand.required_node, demand.refused, demand.need, demand.weight)
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
        """The candidate that lacks least of what the demand wants, of those where it can be obtained; among equals the
        one that would be chosen first. `but`: the ID of a node that is chosen only if there is no other. And how many
        groups were looked at."""
        refused = NoneOf(demand.refused, but) if but else demand.refused if demand.node_specific else NO_NODES
        best: tuple[float, float, str] | None = None
        found: Node | None = None
        empty = 0
        for group in self._groups.values():
            if not group.size:
                empty += 1
            elif covers(group.obtainable, demand.need):
                lacking = _lacking(group.available, demand.need)
                if best is None or (lacking, group.score) <= best[:2]:
                    node = group.first() if refused == NO_NODES else group.first_but(refused)
                    if node is not None and (best is None or (lacking, group.score, node.id) < best):
                        best, found = (lacking, group.score, node.id), node.node
        looked_at = len(self._groups)
        if found is None and but and but not in demand.refused:
            entry = self._entries.get(but)
            if entry is not None and entry.group is not None and covers(entry.group.obtainable, demand.need):
                found = entry.node
        if empty > 64 and 2 * empty > looked_at:
            self._trim()
        return found, looked_at

    def one_of_each(self, refused: Refusals) -> Iterator[Node]:
        """Of nodes that are the same to the rules, the one with the smallest ID that is not refused; none that takes
        nothing new."""
        for group in self._groups.values():
            if group.size:
                node = group.first() if refused == NO_NODES else group.first_but(refused)
                if node is not None:
                    yield node.node

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
            capacity, obtainable, available = key
            score, left = self._score(capacity, available, self._weights), entry.group
            if left is not None and left.lone:
                del self._groups[left.capacity, left.obtainable, left.available]
                left.capacity, left.obtainable, left.available = key
                left.room, left.score = available, score
                self._groups[key] = left
                self._filled_ever += 1
                self._order.move(left, (score, entry.id, left.number))
                return left
            if len(self._groups) > 4 * len(self._nodes) + NODE_GROUPS_KEPT:
                self._trim()
            self._numbers += 1
            group = self._groups[key] = NodeGroup(self._numbers, capacity, obtainable, available, score)
        return group

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
