"""Keep the queues of a parent that have asks, and nothing schedulable, in the order of their ranks.

Beside each stand the demands of its asks as bits. A queue whose rank may have changed is ranked again before the next
search.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from .bit_tree import BitTree
from .fit_list import Rank
from .work import Work


class Dormant(Protocol):
    """A queue. `dirty`: its rank has to be computed again. `dormant_rank`: None: it is not among the dormant ones."""

    dirty: bool
    dormant_rank: Rank | None

    def rank(self) -> tuple[Any, ...]: ...


Q = TypeVar("Q", bound=Dormant)


class DormantQueues(BitTree[Q]):
    __slots__ = ("_dirty",)

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._dirty: list[Q] = []

    def add_queue(self, queue: Q, bits: int) -> Rank:
        """Returns its rank."""
        rank = queue.dormant_rank = queue.rank()
        queue.dirty = False
        self.put(queue, rank, bits)
        return rank

    def remove_queue(self, queue: Q) -> None:
        assert queue.dormant_rank is not None, "only what is dormant is removed"
        self.remove(queue.dormant_rank)
        queue.dormant_rank = None
        queue.dirty = False
        if not self.size:
            self._dirty.clear()

    def touch(self, queue: Q) -> None:
        """Its rank may have changed."""
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)

    def want(self, queue: Q, bits: int) -> None:
        """It has asks of these demands, too."""
        assert queue.dormant_rank is not None, "only what is dormant has bits here"
        self.add_bits(queue.dormant_rank, bits)
        self.touch(queue)

    def settle(self) -> None:
        """Rank the queues again whose ranks may have changed. O(log n) each."""
        for queue in self._dirty:
            old = queue.dormant_rank
            if old is not None and queue.dirty:
                queue.dirty = False
                rank = queue.rank()
                if rank != old:
                    self.move(old, rank)
                    queue.dormant_rank = rank
        self._dirty.clear()

    @property
    def unsettled(self) -> bool:
        return bool(self._dirty)
