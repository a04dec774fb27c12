"""Reservations (semantics section 11): a node is kept for an ask that has waited long enough.

An ask that fits its quotas but no node, and is older than the reservation delay, reserves the node that lacks least of
what it wants; nothing else is placed there. The repeat it is reserved for has left its line. Before anything else a
pass tries reserved asks: on their own node when that one changed, on any other when their demand has opened. So a
reservation costs nothing while nothing happens to it.
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
    """What is needed here of the index that this is a part of."""

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
    """The part of the index that knows which reservations are worth a look."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Reserved nodes whose own ask may fit by now.
        self.changed: dict[Node, None] = {}
        # Open demands whose asks hold reservations: some other node may take one.
        self.opened: dict[Demand, None] = {}
        # The same by standing, as far as this pass has worked it out. Within a pass nobody's standing gets better: what
        # is placed only adds to shares. So who comes up first is asked again where he stands, and moved back if that is
        # further behind.
        self._on_own_node: list[tuple[Rank, Node]] | None = None
        self._elsewhere: list[tuple[Rank, Node]] | None = None

    def begin_pass(self) -> None:
        """A pass begins: commands may have changed every standing."""
        self._on_own_node = self._elsewhere = None

    def node_changed(self, node: Node) -> None:
        """The ask it is reserved for may fit it by now."""
        self.changed[node] = None
        self._on_own_node = None
        self._index.reserved_node_changed(node)

    def demand_opened(self, demand: Demand) -> None:
        """Its asks hold reservations, and may fit another node by now."""
        self.opened[demand] = None
        self._elsewhere = None

    def next_placement(self) -> tuple[Node, Node] | None:
        """(reserved node, where its ask is placed) of the first, in the order of queues, that can be placed."""
        if self.changed or self.opened:
            self._index.measure()  # who stands where depends on the partition's total
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
        """Of those that are still reserved; it stays in the heap."""
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
        node = self._index.nodes.best(demand)
        if node is None:
            self._index.close(demand)
        return node

    def wake(self, nodes: Iterable[Node]) -> None:
        """What held these reservations back may be over."""
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
        """A limit or a maximum on the way up leaves no room: it is looked at again when something is released
        there."""
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
        """Of the ask it is reserved for."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        return (*self._index.ask_rank(ask), node.id)
