"""Gaps: room that a node gained where asks of many sizes wait.

Where a node gains room for a few closed demands, these open. Where there are many, of which one or two will fill the
node again, opening all of them to close nearly all of them again would take as long as there are sizes. Then they stay
closed, and the node is noted here as a gap; who is next of those that fit it is looked for in each leaf queue's list of
closed lanes. That is done only while nothing else is to be placed; otherwise they open after all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..limits import GAPS
from .fit_list import Rank, covers

if TYPE_CHECKING:
    from ..state import Node, PendingAsk
    from .index import Index
    from .nodes import Demand


class Gaps:
    def __init__(self, index: Index) -> None:
        self._index = index
        self.nodes: dict[Node, None] = {}

    def add(self, node: Node) -> None:
        self.nodes[node] = None
        if len(self.nodes) > GAPS:
            self.open_all()

    def fit(self, demand: Demand) -> bool:
        """One of them has room for it."""
        return any(node.group is not None and covers(node.group.available, demand.need) for node in self.nodes)

    def next(self) -> PendingAsk | None:
        """The next ask that fits a gap. None: there is no gap any more."""
        best: tuple[Rank, PendingAsk] | None = None
        for node in list(self.nodes):
            if node.group is None or not self._index.closed_that_fit(node.group.available, 1):
                del self.nodes[node]
                continue
            for leaf in self._index.leaves:
                ask = leaf.first_closed(node.group.available)
                if ask is not None:
                    standing = self._index.standing(ask)
                    if best is None or standing < best[0]:
                        best = standing, ask
        if best is None:
            self.open_all()
            return None
        return best[1]

    def open_all(self) -> None:
        """What fits is treated as everything else: maybe a maximum or a limit is in its way."""
        for node in self.nodes:
            if node.group is not None:
                for demand in self._index.closed_that_fit(node.group.available):
                    self._index.open(demand)
        self.nodes.clear()
