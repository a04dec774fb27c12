"""Decide when an ask that is bound to a node may try to preempt there (semantics sections 10 and 13).

Such an ask preempts in its turn among all other asks: when it reserves its node, or when too little of the cluster is
free for a reservation. Once the node is reserved for it, it preempts in the first step of a pass, before asks without
reservations. A refused attempt is repeated after an interval, or when something changes on the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Protocol

from ..limits import BOUND_ATTEMPTS_PER_PASS
from ..rules.required_node import required_node
from ..rules.resource import items_of
from ..state import Node, Partition, PendingAsk
from .fit_list import covers
from .node_groups import Demand
from .nodes import NodeIndex
from .reservations import Reservations


class Index(Protocol):
    """The partition's index, as bound preemptors see it."""

    @property
    def partition(self) -> Partition: ...
    @property
    def nodes(self) -> NodeIndex: ...
    @property
    def reservations(self) -> Reservations: ...
    def find_demand(self, ask: PendingAsk) -> Demand | None: ...
    def measure(self) -> None: ...
    def reserve_again(self, demand: Demand) -> None: ...


class BoundPreemptors:
    """The asks of a partition that are bound to a node and may preempt there."""

    def __init__(self, index: Index) -> None:
        self._index = index
        # Nodes that are reserved for an ask bound to them, and changed: the ask may be able to preempt there now.
        self.changed: dict[Node, None] = {}
        # Asks to be tried again: a heap of (time in ms, age, number, ask), and the time of each ask that counts. An ask
        # that was changed has the age of the one before, so each entry has a number.
        self._again: list[tuple[int, int, int, PendingAsk]] = []
        self._entries = 0
        self.retries: dict[PendingAsk, int] = {}
        self._attempts_left = 0

    def begin_pass(self, now_ms: int) -> None:
        """Allow a new number of attempts, and look again at the asks whose time has come."""
        self._attempts_left = BOUND_ATTEMPTS_PER_PASS
        while self._again and self._again[0][0] <= now_ms:
            at_ms, _, _, ask = heappop(self._again)
            if self.retries.get(ask) == at_ms:
                del self.retries[ask]
                self._retry(ask)

    def _retry(self, ask: PendingAsk) -> None:
        demand = self._index.find_demand(ask)
        if not ask.pending or demand is None:
            return
        for node_id in ask.reservations:
            self.node_changed(self._index.partition.nodes[node_id])
        if ask.free:
            self._index.reserve_again(demand)

    def node_changed(self, node: Node) -> None:
        """The node was reserved or its room changed, or a limit gave way for the ask it is reserved for."""
        ask = node.reservation
        if ask is not None and required_node(ask.ask.tags) == node.id:
            self.changed[node] = None

    def preempting_where_reserved(self, interval_ms: int, now_ms: int) -> Iterator[PendingAsk]:
        """The asks that may preempt on the node that is reserved for them now, in the order of queues."""
        if not self.changed:
            return
        index = self._index
        index.measure()
        nodes = sorted(self.changed, key=index.reservations.ask_rank)
        for node in nodes:
            if not self._attempts_left:
                return  # the others stay for the next pass
            del self.changed[node]
            ask = node.reservation
            if (
                ask is not None
                and not index.reservations.held_back(node)
                and self.may_preempt(ask, node, interval_ms, now_ms)
            ):
                yield ask

    def may_preempt(self, ask: PendingAsk, node: Node, interval_ms: int, now_ms: int) -> bool:
        """Whether the ask may try to preempt on the node now; counts the attempt if it may. If it is too early, the ask
        is looked at again when it is time."""
        demand = self._index.find_demand(ask)
        if not ask.pending or ask.preemption is not None or demand is None or not node.ready or node.id in ask.refused:
            return False
        if covers(self._index.nodes.available(node), demand.need):
            return False
        if node.reservation is not None and node.reservation is not ask and bound_to(node.reservation):
            return False
        refused_ms = ask.application.queue.refusals.get((items_of(ask.ask.resource), node.id, ask.ask.priority))
        if refused_ms is not None and refused_ms + interval_ms > now_ms:
            self.retry_at(ask, refused_ms + interval_ms)
            return False
        if not self._attempts_left:
            self.retry_at(ask, now_ms)
            return False
        self._attempts_left -= 1
        self.retry_at(ask, now_ms + interval_ms)  # should it be refused
        return True

    def retry_at(self, ask: PendingAsk, until_ms: int) -> None:
        """Look at the ask again at this time, unless that happens earlier anyway."""
        if self.retries.get(ask, until_ms + 1) > until_ms:
            self.retries[ask] = until_ms
            self._entries += 1
            heappush(self._again, (until_ms, ask.seq, self._entries, ask))


def bound_to(ask: PendingAsk) -> str:
    return required_node(ask.ask.tags)


def preempts_in_turn(
    partition: Partition, bound: BoundPreemptors, ask: PendingAsk, interval_ms: int, now_ms: int
) -> bool:
    """Whether an ask whose turn it is, and that found no room on its node, may try to preempt there. The node is
    reserved for it, or could not be reserved because too little of the partition is free."""
    node = partition.nodes.get(bound_to(ask))
    return node is not None and bound.may_preempt(ask, node, interval_ms, now_ms)
