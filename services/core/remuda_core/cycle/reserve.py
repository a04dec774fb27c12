"""Reservations (semantics section 11): a node is kept for an ask that has waited long enough.

An ask that fits its quotas but no node, and is older than the reservation delay, reserves the node that lacks least of
what it wants; nothing else is placed there. The repeat it is reserved for has left its line. Before anything else a
pass tries reserved asks: on their own node when that one changed, on any other when their demand has opened. So a
reservation costs nothing while nothing happens to it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from .. import facts
from ..facts import Fact
from .admission import limit_of
from .fit_list import Rank, covers
from .place import placed

if TYPE_CHECKING:
    from ..rules.resource import Resource
    from ..state import Node, Partition, PendingAsk, Queue, State
    from .index import Index
    from .nodes import Demand


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
        self._own: list[tuple[Rank, Node]] | None = None
        self._elsewhere: list[tuple[Rank, Node]] | None = None

    def begin(self) -> None:
        """A pass begins: commands may have changed every standing."""
        self._own = self._elsewhere = None

    def node_changed(self, node: Node) -> None:
        """The ask it is reserved for may fit it by now."""
        self.changed[node] = None
        self._own = None

    def demand_opened(self, demand: Demand) -> None:
        """Its asks hold reservations, and may fit another node by now."""
        self.opened[demand] = None
        self._elsewhere = None

    def next(self) -> tuple[Node, Node] | None:
        """(reserved node, where its ask is placed) of the first, in the order of queues, that can be placed."""
        if self.changed or self.opened:
            self._index.measure()  # who stands where depends on the partition's total
        if self.changed and (reserved := self._next_own()) is not None:
            return reserved, reserved
        return self._next_elsewhere() if self.opened else None

    def _next_own(self) -> Node | None:
        if self._own is None:
            self._own = [(self._standing(node), node) for node in self.changed if self._fits(node)]
            heapify(self._own)
        while (reserved := self._first(self._own)) is not None:
            heappop(self._own)
            self.changed.pop(reserved, None)
            if self._fits(reserved) and not self._held_back(reserved):
                return reserved
        self.changed.clear()
        return None

    def _next_elsewhere(self) -> tuple[Node, Node] | None:
        if self._elsewhere is None:
            for demand in [demand for demand in self.opened if demand.open and self._best(demand) is None]:
                del self.opened[demand]
            found = [node for demand in self.opened if demand.open for node in demand.reserved]
            self._elsewhere = [(self._standing(node), node) for node in found if not self._held_back(node)]
            heapify(self._elsewhere)
        while (reserved := self._first(self._elsewhere)) is not None:
            demand = self._index.demand_of(reserved.reservation)  # type: ignore[arg-type]
            if demand.open and not self._held_back(reserved):
                if (node := self._best(demand)) is not None:
                    return reserved, node
                del self.opened[demand]
            heappop(self._elsewhere)
        self.opened.clear()
        return None

    def _first(self, heap: list[tuple[Rank, Node]]) -> Node | None:
        """Of those that are still reserved; it stays in the heap."""
        while heap:
            standing, node = heap[0]
            if node.reservation is None:
                heappop(heap)
            elif (now := self._standing(node)) != standing:
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
        if not node.schedulable or node.id in ask.refused:
            return False
        return covers(nodes.vector(node.available()), self._index.demand_of(ask).need)

    def _held_back(self, node: Node) -> bool:
        """A limit or a maximum on the way up leaves no room: it is looked at again when something is released
        there."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        limit = limit_of(ask)
        if limit is not None:
            self._index.stalled.wait(node, limit)
            return True
        queue = full_queue(ask)
        if queue is not None:
            assert queue.order is not None, "the index knows every queue with applications"
            queue.order.stalled[node] = None
        return queue is not None

    def _standing(self, node: Node) -> Rank:
        """Of the ask it is reserved for."""
        ask = node.reservation
        assert ask is not None, "only reserved nodes are looked at"
        return (*self._index.standing(ask), node.id)


def reserve(
    state: State, partition: Partition, index: Index, pending: PendingAsk, now_ms: int
) -> Generator[Fact, None, int]:
    """No node fits this ask, and its demand may still reserve. Returns how many asks were served: 0 or 1."""
    lane = pending.line.lane  # type: ignore[union-attr]
    demand = lane.demand
    if not index.may_reserve(pending):
        index.too_young(lane, pending)
        return 0
    if not index.fits_total(demand):
        return 0
    if demand.required_node:
        node = partition.nodes.get(demand.required_node)
        if node is None or not _may_be_kept(index, node, demand):
            index.stop_reserving(demand)
            return 0
        if node.reservation is not None:  # who has to be here goes before who may be elsewhere
            yield unreserved(partition, node.reservation, node, f"{pending.ask.allocation_key} has to be on this node")
            if demand.open:
                yield from placed(state, partition, pending, node, now_ms)
                return 1
    else:
        node = index.closest(demand)
        if node is None:
            return 0
    yield reserved(partition, pending, node)
    return 1


def _may_be_kept(index: Index, node: Node, demand: Demand) -> bool:
    """Of the node an ask has to be on: it takes new allocations, is large enough, and is not kept for another that has
    to be there."""
    other = node.reservation
    taken = other is not None and index.demand_of(other).required_node != ""
    if taken or not node.schedulable or node.id in demand.refused:
        return False
    return covers(index.nodes.vector(node.capacity), demand.need)


def within_quotas(partition: Partition, pending: PendingAsk) -> bool:
    """Every maximum on its way up, and the partition as a whole, has as much left as it wants."""
    return full_queue(pending) is None and not exceeds(pending.ask.resource, partition.total, partition.root)


def full_queue(ask: PendingAsk) -> Queue | None:
    """The first on its way up whose maximum leaves it no room."""
    resource, lineage = ask.ask.resource, ask.application.queue.lineage
    return next((queue for queue in lineage if exceeds(resource, queue.settings.max, queue)), None)


def exceeds(resource: Resource, most: Resource, queue: Queue) -> bool:
    """What is left may be negative: then nothing fits, whatever it wants."""
    return any(resource.get(name, 0) > amount - queue.allocated.get(name, 0) for name, amount in most.items())


def reserved(partition: Partition, pending: PendingAsk, node: Node, *, by_preemption: bool = False) -> Fact:
    ask = pending.ask
    return facts.NodeReserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, by_preemption
    )


def unreserved(partition: Partition, pending: PendingAsk, node: Node, reason: str) -> Fact:
    ask = pending.ask
    return facts.NodeUnreserved(
        partition.name, ask.application_id, ask.allocation_key, node.id, ask.resource, reason, node.kept_by_preemption
    )
