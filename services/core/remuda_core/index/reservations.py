"""Find the reserved asks that can be placed (semantics section 11).

An ask that fits its quotas but no node, and is older than the reservation delay, reserves the node that lacks least of
what it needs. No other ask is placed there. A pass places reserved asks first: on their reserved node if that node
changed, on any other node if their demand opened. A reservation costs nothing while neither happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Any, Protocol

from ..state import Node, PendingAsk, Queue
from .admission import full_queue, limit_of
from .blocked import BlockedBy
from .fit_list import Rank, covers
from .node_groups import Demand
from .nodes import NodeIndex


class Index(Protocol):
    """The partition's index, as reservations see it."""

    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def stalled(self) -> BlockedBy[Node]: ...
    @property
    def orders(self) -> Mapping[Queue, Any]: ...
    def demand_of(self, ask: PendingAsk) -> Demand: ...
    def ask_rank(self, ask: PendingAsk) -> Rank: ...
    def measure(self) -> None: ...
    def close(self, demand: Demand) -> None: ...
    def reserved_node_changed(self, node: Node) -> None: ...


class Reservations:
    """The reserved nodes of a partition whose asks may be placed now."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Reserved nodes that changed: the ask they are reserved for may fit.
        self.changed: dict[Node, None] = {}
        # Open demands whose asks have reservations: another node may fit them.
        self.opened: dict[Demand, None] = {}
        # The same as heaps by the rank of the ask, made when first needed in a pass (None: not yet). Within a pass
        # ranks only get worse, because placements only add to shares. So the first entry is ranked again when it comes
        # up, and moved back if its rank is worse now.
        self._on_own_node: list[tuple[Rank, Node]] | None = None
        self._elsewhere: list[tuple[Rank, Node]] | None = None

    def begin_pass(self) -> None:
        """Drop the heaps: commands may have changed every rank."""
        self._on_own_node = self._elsewhere = None

    def node_changed(self, node: Node) -> None:
        """The ask that the node is reserved for may fit there now."""
        self.changed[node] = None
        self._on_own_node = None
        self._index.reserved_node_changed(node)

    def demand_opened(self, demand: Demand) -> None:
        """Asks of the demand have reservations, and may fit another node now."""
        self.opened[demand] = None
        self._elsewhere = None

    def next_placement(self) -> tuple[Node, Node] | None:
        """(reserved node, node to place its ask on) of the first reserved ask, in the order of queues, that can be
        placed; None if no reserved ask can be. O(reserved nodes) at the first call of a pass, then O(log n)."""
        if self.changed or self.opened:
            self._index.measure()  # ranks depend on the partition's total
        if self.changed and (reserved := self._next_on_own_node()) is not None:
            return reserved, reserved
        return self._next_elsewhere() if self.opened else None

    def _next_on_own_node(self) -> Node | None:
        if self._on_own_node is None:
            self._on_own_node = [(self.ask_rank(node), node) for node in self.changed if self._fits(node)]
            heapify(self._on_own_node)
        while (reserved := self._first_in(self._on_own_node)) is not None:
            heappop(self._on_own_node)
            self.changed.pop(reserved, None)
            if self._fits(reserved) and not self.held_back(reserved):
                return reserved
        self.changed.clear()
        return None

    def _next_elsewhere(self) -> tuple[Node, Node] | None:
        if self._elsewhere is None:
            for demand in [demand for demand in self.opened if demand.open and self._best(demand) is None]:
                del self.opened[demand]
            found = [node for demand in self.opened if demand.open for node in demand.reserved]
            self._elsewhere = [(self.ask_rank(node), node) for node in found if not self.held_back(node)]
            heapify(self._elsewhere)
        while (reserved := self._first_in(self._elsewhere)) is not None:
            demand = self._index.demand_of(reserved.reservation)  # type: ignore[arg-type]
            if demand.open and not self.held_back(reserved):
                if (node := self._best(demand)) is not None:
                    return reserved, node
                del self.opened[demand]
            heappop(self._elsewhere)
        self.opened.clear()
        return None

    def _first_in(self, heap: list[tuple[Rank, Node]]) -> Node | None:
        """The first node of the heap that is still reserved, by its current rank; it stays in the heap."""
        while heap:
            ask_rank, node = heap[0]
            if node.reservation is None:
                heappop(heap)
            elif (now := self.ask_rank(node)) != ask_rank:
                heapreplace(heap, (now, node))
            else:
                return node
        return None

    def _best(self, demand: Demand) -> Node | None:
        """An accepted node; else one that the RM is asked about, for this ask alone."""
        node = self._index.nodes.best(demand) or self._index.nodes.best_not_refused(demand)
        if node is None:
            self._index.close(demand)
        return node

    def wake(self, nodes: Iterable[Node]) -> None:
        """Look at these reservations again: the limit or maximum that held them back may have room."""
        for node in nodes:
            if node.reservation is not None:
                self.node_changed(node)
                demand = self._index.demand_of(node.reservation)
                if demand.open:
                    self.demand_opened(demand)

    def _fits(self, node: Node) -> bool:
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        nodes = self._index.nodes
        demand = self._index.demand_of(ask)
        if node.full or not node.takes(demand.required_node) or node.id in ask.refused:
            return False
        return covers(nodes.available(node), demand.need)

    def held_back(self, node: Node) -> bool:
        """Whether a limit or a maximum leaves the ask no room. If so, it wakes the reservation when it gains room."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        limit = limit_of(ask)
        if limit is not None:
            self._index.stalled.block(node, limit)
            return True
        queue = full_queue(ask)
        if queue is not None:
            self._index.orders[queue].stalled[node] = None
        return queue is not None

    def ask_rank(self, node: Node) -> Rank:
        """The rank of the ask that the node is reserved for."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        return (*self._index.ask_rank(ask), node.id)
