"""Asks that have waited longer than `fair.patience` (semantics section 23): they go before asks that have not.

An order by the past alone would let the asks of heavy users wait for weeks. An ask of a queue with a half-life waits
here until its patience is over, and is late from then on. A pass asks for late asks that may go before the one that is
next. Of asks that no node fits or that a quota blocks, it looks at LATE_ASKS_PER_PASS: a late ask that never fits costs
others nothing, and gains its queue nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from ..limits import LATE_ASKS_PER_PASS, LEFTOVERS
from ..rules.properties import priority_seen_above
from ..state import PendingAsk, Queue
from .asks import ApplicationAsks, AskClass
from .node_groups import Demand
from .ordered import Vector, covers


class PatienceIndex(Protocol):
    """The index of the partition, as this module sees it."""

    @property
    def lines(self) -> Mapping[PendingAsk, Any]: ...
    def order_of(self, queue: Queue) -> Any: ...
    def some_node_fits(self, demand: Demand) -> bool: ...


class LateAsks:
    """The asks of queues with a half-life by age, and which of them are late."""

    def __init__(self, index: PatienceIndex) -> None:
        self._index = index
        # When each ask is late; a heap of the same, in which asks that are gone stay for a while.
        self._due_ms: dict[PendingAsk, int] = {}
        self._heap: list[tuple[int, int, int, PendingAsk]] = []
        self._number = 0  # of entries: no two are equal, though an ask that changes keeps its age
        # The late asks by priority and age; and those that a search has found blocked in this pass.
        self.late: list[tuple[int, int, int, int, PendingAsk]] = []
        self._blocked: set[PendingAsk] = set()

    def add_ask(self, ask: PendingAsk, patience_ms: int) -> None:
        """Note an ask with free repeats. It may be here already."""
        due_ms = ask.at_ms + patience_ms
        if self._due_ms.get(ask) != due_ms:
            self._due_ms[ask] = due_ms
            self._number += 1
            heappush(self._heap, (due_ms, ask.seq, self._number, ask))

    def begin_pass(self, now_ms: int) -> None:
        """Find out which asks have become late. O(log n) each."""
        self._blocked.clear()
        if not self._due_ms:
            return
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, seq, number, ask = heappop(self._heap)
            if self._due_ms.get(ask) == due_ms and _is_pending(ask):
                insort(self.late, (-ask.ask.priority, ask.at_ms, seq, number, ask))
        if len(self._due_ms) > 2 * len(self._index.lines) + LEFTOVERS:
            self._forget_what_is_gone()

    def _forget_what_is_gone(self) -> None:
        self._due_ms = {ask: due_ms for ask, due_ms in self._due_ms.items() if _is_pending(ask)}
        self._heap = [entry for entry in self._heap if self._due_ms.get(entry[-1]) == entry[0]]
        heapify(self._heap)
        self.late = [entry for entry in self.late if entry[-1] in self._due_ms]

    def before(self, first: PendingAsk) -> Iterator[tuple[PendingAsk, Demand]]:
        """The late asks that may go before `first`, which is next in the order of queues: those that fit their quotas,
        and perhaps a node. The caller stops at the first one that a node fits."""
        looks = LATE_ASKS_PER_PASS
        for *_, ask in self.late:
            if ask is first or looks <= 0:
                return
            looks -= 1
            if ask in self._blocked:
                continue
            line = self._index.lines.get(ask)
            if type(line) is not ApplicationAsks or not self._fits(line.ask_class):
                self._blocked.add(ask)
            elif self._may_go_before(ask, first):
                yield ask, line.ask_class.demand

    def pass_over(self, ask: PendingAsk) -> None:
        """Look at the ask no more in this pass: no node fits it."""
        self._blocked.add(ask)

    def _fits(self, ask_class: AskClass) -> bool:
        """Whether the quotas of the ask class leave room, and some node may fit it. Asks of groups start together, in
        their turn."""
        demand = ask_class.demand
        if ask_class.hidden or demand.group_of_asks is not None or not self._index.some_node_fits(demand):
            return False
        if ask_class.limited and ask_class.in_the_way() is not None:
            return False
        orders = [self._index.order_of(queue) for queue in ask_class.leaf.queue.path_to_root]
        headroom: Vector | None = None
        for order in reversed(orders):
            if order.limited:
                headroom = order.negated_headroom(headroom)
        return headroom is None or covers(demand.negated, headroom)

    def _may_go_before(self, ask: PendingAsk, first: PendingAsk) -> bool:
        """Whether the queue where the paths of the two asks to root meet orders by the past, and whether what comes
        before patience there does not decide otherwise: priorities, and guarantees."""
        mine, others = ask.application.queue.path_to_root, first.application.queue.path_to_root
        if mine[0] is others[0]:
            leaf = self._index.order_of(mine[0])
            return leaf.moment is not None and (not leaf.by_priority or ask.ask.priority >= first.ask.priority)
        met = next(queue for queue in mine if queue in others)
        order = self._index.order_of(met)
        below, below_others = mine[mine.index(met) - 1], others[others.index(met) - 1]
        if order.moment is None:
            return False
        if order.by_priority and _priority(ask, below) < _priority(first, below_others):
            return False
        return not order.is_beyond(below) or order.is_beyond(below_others)


def _is_pending(ask: PendingAsk) -> bool:
    return ask.application.asks.get(ask.ask.allocation_key) is ask


def _priority(ask: PendingAsk, below: Queue) -> float:
    """The priority of the ask as the parent of the queue sees it."""
    priority: float = ask.ask.priority
    for queue in ask.application.queue.path_to_root:
        priority = max(-(2**31), min(2**31 - 1, priority_seen_above(queue.settings.properties, priority)))
        if queue is below:
            break
    return priority
