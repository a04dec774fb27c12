"""Where is best: the schedulable nodes of a partition, by their score under the node sort policy (semantics section 10).

Nodes that are the same to the rules, of one capacity and with the same available, form a **node group**: one score, one answer to "does it fit".
An allocation moves a node from one group to the next, and a group remembers where a demand leads, so thousands of like nodes cost little
more than one. A **demand** is what asks want of a node; demands that are asked for often keep a heap of the groups that fit them, the others use
one `FitTree` over all groups. Both catch up with a journal of the groups that got better since they last looked, and find out by themselves, at
the top, which got worse.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from operator import sub
from typing import TYPE_CHECKING

from ..rules.resource import Items, Resource
from .fit_tree import FitTree, Vector, covers

if TYPE_CHECKING:
    from ..state import Node, Partition
    from .order import Lane

# A demand keeps a heap of its own while there are few groups, and otherwise once it has been searched for so often that building the heap
# has cost no more than this many entries a search.
FEW_GROUPS = 128
ENTRIES_PER_SEARCH = 64
# How far a heap may lie behind the journal before one search of the tree is cheaper than catching up.
WORTH_CATCHING_UP = 64


class Demand:
    """What an ask wants of a node: the same for thousands of asks. `open`: some node may fit; closed once none did, until one gains room."""

    __slots__ = ("closed_lanes", "cursor", "heap", "items", "lanes", "need", "negated", "open", "possible", "required_node", "resource", "searches", "writings")

    def __init__(self, resource: Resource, items: Items, required_node: str, need: Vector) -> None:
        self.resource = resource
        self.items = items
        self.required_node = required_node
        self.need = need
        self.negated: Vector = tuple(-amount for amount in need)
        self.open = True
        self.possible = True  # False: it names a resource that no node has
        self.lanes = 0  # lanes with pending asks of this demand
        self.closed_lanes: list[Lane] = []
        # The groups it fits, best first; up to date with the journal at `cursor`.
        self.heap: list[tuple[float, str, int, NodeGroup]] = []
        self.cursor = 0
        self.searches = 0
        self.writings: list[tuple[object, ...]] = []  # keys under which the index finds it


class NodeGroup:
    """Its nodes by ID. Most come in that order and wait in a plain line; the others in a heap. Who left is found out at the front."""

    __slots__ = ("after", "available", "capacity", "front", "line", "number", "others", "score", "size", "slot")

    def __init__(self, number: int, capacity: Vector, available: Vector, score: float) -> None:
        self.number = number
        self.capacity = capacity
        self.available = available
        self.score = score
        self.size = 0
        self.line: list[Node] = []
        self.front = 0
        self.others: list[Node] = []
        # Where an allocation of a demand takes a node of this group, and whether another one would fit there.
        self.after: dict[Demand, tuple[NodeGroup, bool]] = {}
        self.slot = -1

    def add(self, node: Node) -> bool:
        """True if it may be the first now."""
        self.size += 1
        line = self.line
        if self.size == 1:
            line.clear()
            self.others.clear()
            self.front = 0
            line.append(node)
            return True
        if not line or line[-1].id < node.id:
            line.append(node)
            return False
        heappush(self.others, node)
        return self.others[0] is node

    def first(self) -> Node:
        """The node with the smallest ID. The group must not be empty."""
        line, front, others = self.line, self.front, self.others
        end = len(line)
        while front < end and line[front].group is not self:
            front += 1
        if front > 64 and 2 * front > end:
            del line[:front]
            end -= front
            front = 0
        self.front = front
        if others:
            while others and others[0].group is not self:
                heappop(others)
            if others and (front == end or others[0].id < line[front].id):
                return others[0]
        return line[front]


class NodeIndex:
    def __init__(self, partition: Partition, names: dict[str, int]) -> None:
        """`names`: place of each resource in vectors; the index is built anew when one is added."""
        self._nodes = partition.nodes
        self._names = names
        settings = partition.settings
        self._weights = tuple((names[name], weight) for name, weight in sorted(settings.resource_weights.items()) if weight > 0)
        self._sign = -1.0 if settings.node_sort == "binpacking" else 1.0
        self._groups: dict[tuple[Vector, Vector], NodeGroup] = {}
        self._numbers = 0
        # The journal, how many changes there have been in all, and how many of them it no longer holds.
        self._journal: list[NodeGroup] = []
        self._changes = 1
        self._forgotten = 1
        self._tree: FitTree[NodeGroup] | None = None
        self._tree_cursor = 0
        for node in sorted(partition.nodes.values(), key=lambda node: node.id):
            self.place(node)

    # Which group a node is in

    def vector(self, resource: Resource) -> Vector:
        """Amounts in the order of the names; a name that is not there counts 0."""
        return tuple(resource.get(name, 0) for name in self._names)

    def place(self, node: Node) -> NodeGroup | None:
        """Put the node where its capacity, available and state say; None if nothing may be placed on it."""
        group = self._group(self.vector(node.capacity), self.vector(node.available())) if node.schedulable else None
        self.move(node, group)
        return group

    def withdraw(self, node: Node) -> None:
        self.move(node, None)

    def book(self, node: Node, demand: Demand) -> None:
        """An allocation of this demand was made on the node. If the demand was up to date it stays so."""
        group = node.group
        if group is None:
            return
        step = group.after.get(demand)
        if step is None:
            after = self._group(group.capacity, tuple(map(sub, group.available, demand.need)))
            step = group.after[demand] = (after, covers(after.available, demand.need))
        after, fits_again = step
        group.size -= 1
        node.group = after
        if after.add(node):
            up_to_date = demand.cursor == self._changes
            self._journal.append(after)
            self._changes += 1
            if up_to_date:
                demand.cursor = self._changes
                if fits_again:
                    heappush(demand.heap, (after.score, node.id, after.number, after))

    def move(self, node: Node, group: NodeGroup | None) -> None:
        if node.group is not None:
            node.group.size -= 1
        node.group = group
        if group is not None and group.add(node):
            self._journal.append(group)
            self._changes += 1

    # Where a demand goes

    def best(self, demand: Demand) -> Node | None:
        """The node on which the demand is placed: the best score, then the smallest ID, of those it fits."""
        if demand.cursor != self._changes and not self._catch_up(demand):
            return self._best_otherwise(demand)
        heap = demand.heap
        while heap:
            score, first, number, group = heap[0]
            if group.size:
                node = group.first()
                if node.id == first:
                    return node
                heapreplace(heap, (score, node.id, number, group))
                if heap[0][3] is group:
                    return node
            else:
                heappop(heap)
        return None

    def _best_otherwise(self, demand: Demand) -> Node | None:
        if demand.required_node:
            node = self._nodes.get(demand.required_node)
            return node if node is not None and node.group is not None and covers(node.group.available, demand.need) else None
        return self._best_in_tree(demand.need)

    def _catch_up(self, demand: Demand) -> bool:
        """Bring the demand's heap up to date; False where the tree is the better way."""
        if demand.required_node:
            return False
        self._trim()
        groups, need, heap = self._groups, demand.need, demand.heap
        behind = self._changes - demand.cursor
        afresh = demand.cursor < self._forgotten or behind > len(groups) or len(heap) > 4 * len(groups) + 64
        if behind > WORTH_CATCHING_UP and len(groups) > FEW_GROUPS:
            demand.searches += 1
            if demand.searches * ENTRIES_PER_SEARCH < min(behind, len(groups)):
                return False
        if afresh:
            heap = demand.heap = [(g.score, g.first().id, g.number, g) for g in groups.values() if g.size and covers(g.available, need)]
            heapify(heap)
        else:
            for group in self._journal[demand.cursor - self._forgotten :]:
                if group.size and covers(group.available, need):
                    heappush(heap, (group.score, group.first().id, group.number, group))
        demand.searches = 0
        demand.cursor = self._changes
        return True

    def _best_in_tree(self, need: Vector) -> Node | None:
        tree = self._tree
        if tree is None:
            tree = self._tree = FitTree(len(self._names))
            changed = list(self._groups.values())
        else:
            changed = self._journal[self._tree_cursor - self._forgotten :]
        self._tree_cursor = self._changes
        for group in changed if len(changed) < len(self._groups) else self._groups.values():
            self._rank(tree, group)
        while True:
            group = tree.first(need)  # type: ignore[assignment]
            if group is None:
                return None
            if group.size:
                node = group.first()
                if tree.rank_of(group.slot)[1] == node.id:
                    return node
            self._rank(tree, group)

    def _rank(self, tree: FitTree[NodeGroup], group: NodeGroup) -> None:
        if not group.size:
            if group.slot >= 0:
                tree.remove(group.slot)
                group.slot = -1
            return
        if group.slot < 0:
            group.slot = tree.add(group)
        tree.put(group.slot, (group.score, group.first().id), group.available)

    # Keeping it small

    def _trim(self) -> None:
        """Forget the journal when it is long, and groups that are long empty; whoever had not caught up starts afresh."""
        if len(self._journal) < 8 * len(self._nodes) + 4_096:
            return
        self._journal.clear()
        self._forgotten = self._changes
        self._tree = None
        self._groups = {key: group for key, group in self._groups.items() if group.size}
        for group in self._groups.values():
            group.after.clear()
            group.slot = -1

    def _group(self, capacity: Vector, available: Vector) -> NodeGroup:
        key = (capacity, available)
        group = self._groups.get(key)
        if group is None:
            self._numbers += 1
            group = self._groups[key] = NodeGroup(self._numbers, capacity, available, self._score(capacity, available))
        return group

    def _score(self, capacity: Vector, available: Vector) -> float:
        """Weighted mean of the used shares; for binpacking negated, so that less is always better."""
        used = total = 0.0
        for place, weight in self._weights:
            if capacity[place]:
                used += weight * (1.0 - available[place] / capacity[place])
                total += weight
        return self._sign * used / total if total else 0.0

    def groups(self) -> dict[tuple[Vector, Vector], set[str]]:
        """Which nodes are the same, for `check`."""
        return {key: {n.id for n in (*group.line, *group.others) if n.group is group} for key, group in self._groups.items() if group.size}


