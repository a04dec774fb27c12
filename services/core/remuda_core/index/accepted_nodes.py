"""Find the best accepted node for a demand of a predicate class: by score, then by ID (semantics section 10).

There are two ways. A *walk* goes through the groups of nodes, the best first, and passes over nodes that are not
accepted. A *ranking* is a heap of the accepted nodes. Its first entry is the best, but first it has to be made, and it
has to learn of nodes that changed. A demand walks until its walks have looked at as many nodes as the ranking would.

The score of a node in a ranking is never worse than the node's own. An allocation may make the latter worse, which
shows when the entry comes to the front. `NodeIndex` reports the nodes that may be better than before. Before each
search, a ranking takes in those that are new to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, takewhile
from math import inf

from ..limits import LEFTOVERS, RANKED_NODES_KEPT
from ..state import PredicateClass
from .fit_list import Vector, covers
from .node_groups import NodeEntry


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
        """Whether the node has changed after the first so many changes."""
        return self._at.get(node, 0) > count

    def remove(self, node: NodeEntry) -> None:
        """The node is gone."""
        self._at.pop(node, None)

    def since(self, count: int) -> Iterator[NodeEntry]:
        """Those that changed after the first so many changes."""
        return (node for node, _ in takewhile(lambda changed: changed[1] > count, reversed(self._at.items())))


class AcceptedNodes:
    """The accepted nodes of a demand, the best first."""

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
        """How many changes of nodes it does not know yet."""
        return self._changed.count - self._seen

    def finds(self, node: NodeEntry) -> bool:
        """The node does not come too late, or never. For `check`."""
        group = node.group
        if group is None or node.id not in self._class.accepted or not covers(group.available, self._need):
            return True
        return self._listed.get(node, inf) <= group.score or self._changed.is_after(self._seen, node)

    def add(self, nodes: Iterable[NodeEntry]) -> None:
        """They may be accepted now, or better than before."""
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
        """O(log n), amortised."""
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
    come and be placed one by one."""

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
        """O(accepted nodes). All others are dropped where there are too many."""
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
