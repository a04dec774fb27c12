"""Track freed nodes: nodes that gained room while asks of many sizes wait.

A node that gains room opens the closed demands that fit it. If they are many, one or two of them fill the node again,
and the others would open only to be closed again: O(demands) for each released allocation. So they stay closed, and the
node is listed here. The next ask that fits a listed node is searched in the list of closed ask classes of each leaf
queue: O(leaf queues * log n). This is done only while no open ask can be placed; otherwise the demands open after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..limits import FREED_NODES, STEPS_PER_LEAF
from ..state import Node, PendingAsk
from .ask_classes import AskClass
from .fit_list import Rank, Vector, covers
from .leaf_order import LeafOrder
from .node_groups import Demand
from .nodes import NodeIndex
from .work import Work


class Index(Protocol):
    """The partition's index, as freed nodes see it."""

    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def work(self) -> Work: ...
    @property
    def leaves(self) -> Mapping[LeafOrder, None]: ...
    def ask_rank(self, ask: PendingAsk) -> Rank: ...
    def closed_that_fit(self, room: Vector, most: int | None = None) -> list[Demand]: ...
    def open(self, demand: Demand) -> None: ...


class FreedNodes:
    def __init__(self, index: Index) -> None:
        self._index = index
        self.nodes: dict[Node, None] = {}

    def add_node(self, node: Node) -> None:
        self.nodes[node] = None
        if len(self.nodes) > FREED_NODES:
            self.open_all()

    def any_fits(self, demand: Demand) -> bool:
        """Whether one of the freed nodes has room for the demand."""
        groups = (self._index.nodes.group_of(node) for node in self.nodes)
        return any(group is not None and covers(group.available, demand.need) for group in groups)

    def next_ask_class(self) -> AskClass | None:
        """The ask class whose first ask is next, of those that fit a freed node; None if no freed node is left."""
        best: tuple[Rank, AskClass] | None = None
        for node in list(self.nodes):
            group = self._index.nodes.group_of(node)
            if group is None or not self._index.closed_that_fit(group.available, 1):
                del self.nodes[node]
                continue
            self._index.work.left -= STEPS_PER_LEAF * len(self._index.leaves)
            for leaf in self._index.leaves:
                ask_class = leaf.first_closed(group.available)
                if ask_class is not None:
                    ask_rank = self._index.ask_rank(ask_class.first())
                    if best is None or ask_rank < best[0]:
                        best = ask_rank, ask_class
        if best is None:
            self.open_all()
            return None
        return best[1]

    def open_all(self) -> None:
        """Open every demand that fits a freed node, and list no node any more."""
        for node in self.nodes:
            group = self._index.nodes.group_of(node)
            if group is not None:
                for demand in self._index.closed_that_fit(group.available):
                    self._index.open(demand)
        self.nodes.clear()
