"""Which ask classes fit what a reserved node has left until its ask starts (semantics section 22).

Hole        what a reserved node has: so much for a time, so much for longer
Candidates  all ask classes of a partition with backfill, found by what they need and for how long at most
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from operator import neg

from ..state import Node
from .asks import AskClass
from .node_groups import Demand
from .ordered import FitList, Rank, Vector, covers


@dataclass(slots=True, frozen=True)
class Hole:
    """What a reserved node has: `available` for an allocation that ends within `lasts_ms`, `spare` for any other. None:
    nothing."""

    node: Node
    lasts_ms: int
    available: Vector
    spare: Vector | None

    def fits(self, demand: Demand, lasts_ms: float) -> bool:
        """Whether an allocation that lasts so long has room without delay for the ask of the node."""
        if not covers(self.available, demand.need):
            return False
        return lasts_ms <= self.lasts_ms or (self.spare is not None and covers(self.spare, demand.need))


@dataclass(slots=True, eq=False)
class Candidate:
    """An ask class in the list. Its room is what it needs, negated, and for how long."""

    ask_class: AskClass
    room: Vector
    rank: Rank | None = None


class Candidates:
    """The ask classes of a partition by what they need and for how long. O(log n) for each one that is found."""

    def __init__(self, width: int) -> None:
        self._list: FitList[Candidate] = FitList(width + 1)
        self._of: dict[AskClass, Candidate] = {}
        self._number = 0
        # Something has changed since the last look: an ask may fit a hole.
        self.changed = True

    def __contains__(self, ask_class: AskClass) -> bool:
        return ask_class in self._of

    def __len__(self) -> int:
        return len(self._of)

    def add_class(self, ask_class: AskClass) -> None:
        """Groups of asks are left out: they start together, or on nodes that no one waits for."""
        demand = ask_class.demand
        if demand.group_of_asks is not None or not demand.possible:
            return
        self._number += 1
        lasts_ms = demand.bound
        candidate = self._of[ask_class] = Candidate(ask_class, (*map(neg, demand.need), -lasts_ms))
        self._list.put(candidate, (demand.expectation, self._number))

    def remove_class(self, ask_class: AskClass) -> None:
        """Does nothing if it is not listed."""
        candidate = self._of.pop(ask_class, None)
        if candidate is not None:
            self._list.remove(candidate)

    def fitting(self, hole: Hole) -> Iterator[AskClass]:
        """The ask classes that fit the hole, those that are expected to run shortest first of each kind: those that end
        in time, then those that fit what is spare. Some are in both."""
        yield from self._with_room((*hole.available, -hole.lasts_ms))
        if hole.spare is not None:
            least = tuple(map(min, hole.available, hole.spare))
            yield from self._with_room((*least, -inf))

    def _with_room(self, room: Vector) -> Iterator[AskClass]:
        need = (*map(neg, room[:-1]), room[-1])
        start: Rank = ()
        while (found := self._list.first(need, start)) is not None:
            assert found.rank is not None, "what was found is listed"
            start = (*found.rank, 0)  # right behind it
            yield found.ask_class
