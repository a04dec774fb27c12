"""The place of an ask in the scheduling order: how many come before it, and which turn its queues have."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any

from remuda_operations.queries.rows import Position, Turn

from ..evolve.booking import sum_pending
from ..index.index import Index
from ..index.leaves import LeafOrder
from ..index.partition import PartitionIndex
from ..state import Application, PendingAsk, Queue


class Positions:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._turns: dict[Queue, list[Turn]] = {}
        # By leaf: the pending allocations ahead of each application, and their total.
        self._before: dict[Queue, tuple[dict[Application, int], int]] = {}
        self._own: dict[Application, tuple[list[tuple[int, int, int]], list[int]]] = {}

    def of(self, ask: PendingAsk) -> Position:
        application, index = ask.application, self._index.partitions.get(ask.ask.partition)
        before, waiting = self._queue(application.queue, index)
        if application not in before:  # its asks are newer than the count
            del self._before[application.queue]
            before, waiting = self._queue(application.queue, index)
        ahead = before[application] + self._ahead_of_its_own(ask)
        return Position(ahead, waiting, self._turns_of(application.queue, index))

    def _queue(self, queue: Queue, index: PartitionIndex | None) -> tuple[dict[Application, int], int]:
        found = self._before.get(queue)
        if found is None:
            if index is not None:
                index.measure()
            leaf = index.order_of(queue) if index is not None else None
            rank = leaf.application_rank if isinstance(leaf, LeafOrder) else _unranked
            asking = sorted((a for a in queue.applications.values() if a.asks), key=lambda a: (rank(a), a.seq))
            sums = list(accumulate((sum_pending(a).pieces for a in asking), initial=0))
            found = self._before[queue] = dict(zip(asking, sums, strict=False)), sums[-1]
        return found

    def _ahead_of_its_own(self, ask: PendingAsk) -> int:
        """Pending allocations of the same application that come before: higher priority first, then older asks."""
        own = self._own.get(ask.application)
        if own is None:
            asks = sorted((-a.ask.priority, a.seq, a.pending) for a in ask.application.asks.values())
            own = self._own[ask.application] = asks, list(accumulate((one[2] for one in asks), initial=0))
        asks, sums = own
        return sums[bisect_left(asks, (-ask.ask.priority, ask.seq, 0))]

    def _turns_of(self, leaf: Queue, index: PartitionIndex | None) -> list[Turn]:
        found = self._turns.get(leaf)
        if found is None:
            found = self._turns[leaf] = [_turn(queue, index) for queue in reversed(leaf.path_to_root[:-1])]
        return found


def _turn(queue: Queue, index: PartitionIndex | None) -> Turn:
    assert queue.parent is not None, "root has no turn"
    siblings = [child for child in queue.parent.children.values() if child.priorities]
    order = index.order_of(queue) if index is not None else None
    if index is None or order is None:
        return Turn(queue.path, 0, len(siblings))
    index.measure()
    rank = order.rank()
    orders = map(index.order_of, siblings)
    ahead = sum(sibling.rank() < rank for sibling in orders if sibling is not None)
    return Turn(queue.path, ahead + 1, len(siblings))


def _unranked(application: Application) -> tuple[Any, ...]:
    return ()
