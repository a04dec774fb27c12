"""How far ahead is an ask in the order of section 9 of the semantics? For people: counted when somebody asks, out of
the ranks by which the cycle goes.

An object of `Positions` serves one question, in which nothing changes; what it has counted for one ask serves all
others of the same queue.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any

import msgspec

from ..state import Application, PendingAsk, Queue
from .order import LeafOrder


class Turn(msgspec.Struct, frozen=True):
    """A queue is the `place`-th of `among` children of its parent that have something pending; 1: its turn is next."""

    queue: str
    place: int
    among: int


class Position(msgspec.Struct, frozen=True):
    """In its leaf queue `ahead` of `waiting` pieces go before the first one of the ask. `turns`: of the queues on the
    way down, root's child first."""

    ahead: int
    waiting: int
    turns: list[Turn]


class Positions:
    def __init__(self) -> None:
        self._turns: dict[Queue, list[Turn]] = {}
        # Applications of a leaf, in their order: how many pieces go before those of each, and of how many in all.
        self._before: dict[Queue, tuple[dict[Application, int], int]] = {}
        self._own: dict[Application, tuple[list[tuple[int, int]], list[int]]] = {}

    def of(self, ask: PendingAsk) -> Position:
        application = ask.application
        before, waiting = self._queue(application.queue)
        ahead = before[application] + self._ahead_of_its_own(ask)
        return Position(ahead, waiting, self._turns_of(application.queue))

    def _queue(self, queue: Queue) -> tuple[dict[Application, int], int]:
        found = self._before.get(queue)
        if found is None:
            if queue.order is not None:
                queue.order.index.measure()
            asking = sorted((a for a in queue.applications.values() if a.asks), key=lambda a: (_rank(a), a.seq))
            sums = list(accumulate((sum(p.pending for p in a.asks.values()) for a in asking), initial=0))
            found = self._before[queue] = dict(zip(asking, sums, strict=False)), sums[-1]
        return found

    def _ahead_of_its_own(self, ask: PendingAsk) -> int:
        """Pieces of the same application: by priority, then by age."""
        own = self._own.get(ask.application)
        if own is None:
            asks = sorted(ask.application.asks.values(), key=lambda a: (-a.ask.priority, a.seq))
            keys = [(-a.ask.priority, a.seq) for a in asks]
            own = self._own[ask.application] = keys, list(accumulate((a.pending for a in asks), initial=0))
        keys, sums = own
        return sums[bisect_left(keys, (-ask.ask.priority, ask.seq))]

    def _turns_of(self, leaf: Queue) -> list[Turn]:
        found = self._turns.get(leaf)
        if found is None:
            found = self._turns[leaf] = [_turn(queue) for queue in reversed(leaf.lineage[:-1])]
        return found


def _turn(queue: Queue) -> Turn:
    assert queue.parent is not None, "root has no turn"
    if queue.order is not None:
        queue.order.index.measure()
    siblings = [child for child in queue.parent.children.values() if child.priorities]
    if queue.order is None:
        return Turn(queue.path, 0, len(siblings))
    rank = queue.order.rank()
    ahead = sum(child.order.rank() < rank for child in siblings if child.order is not None)
    return Turn(queue.path, ahead + 1, len(siblings))


def _rank(application: Application) -> tuple[Any, ...]:
    leaf = application.queue.order
    return leaf.application_rank(application) if isinstance(leaf, LeafOrder) else ()
