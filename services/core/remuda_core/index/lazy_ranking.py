"""Find the first of members whose ranks keep changing; ranks are computed only when the first is asked for.

`touch` marks a member whose rank may have changed. `first` computes the ranks of the marked members: O(log n) each. An
entry that ranks last goes to a FIFO, as that of a member that has just had its turn among equals; all others go to a
heap. A member that is ranked again leaves its old entry behind, which is dropped when it comes up, or when old entries
become too many. A ranking of one member computes no rank.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from ..limits import LEFTOVERS


class Member(Protocol):
    """A member of a ranking. The ranking writes `entry` and `dirty`; a member is in one ranking at a time."""

    entry: Entry | None  # its current entry; None: it has none
    dirty: bool  # its rank has to be computed again

    def rank(self) -> tuple[Any, ...]: ...


# (*rank, number, member): no two members have the same rank, and the number grows.
Entry = tuple[Any, ...]
M = TypeVar("M", bound=Member)


class LazyRanking(Generic[M]):
    """A set of members, and the one with the lowest rank."""

    __slots__ = ("_dirty", "_heap", "_line", "_number", "_tidy_at", "leader", "members")

    def __init__(self) -> None:
        self.members: dict[M, None] = {}
        # The first member if it is known: the only one, or the one found since the last change. Else call `first`.
        self.leader: M | None = None
        self._line: deque[Entry] = deque()
        self._heap: list[Entry] = []
        self._dirty: list[M] = []
        self._number = 0
        self._tidy_at = LEFTOVERS  # the number at which to check whether there are too many entries

    def enter(self, member: M) -> None:
        """Add the member, or mark it as changed if it is in the ranking."""
        members = self.members
        if member not in members:
            members[member] = None
            if len(members) == 1:
                self.leader = member
                return
            if len(members) == 2:  # the rank of the one before was never computed
                for each in members:
                    self.touch(each)
                return
        self.touch(member)

    def touch(self, member: M) -> None:
        """Mark a member whose rank may have changed. Does nothing if it is not in the ranking, or alone in it. O(1)."""
        members = self.members
        if len(members) > 1 and member in members:
            self.leader = None
            if not member.dirty:
                member.dirty = True
                self._dirty.append(member)

    def rank_anew(self) -> None:
        """Compute all ranks again: they are of another kind now, and do not compare with the old ones. O(n log n)."""
        self._line.clear()
        self._heap.clear()
        for member in self.members:
            member.entry = None
            self.touch(member)

    def leave(self, member: M) -> None:
        """Remove the member; does nothing if it is not in the ranking. O(1), amortised."""
        members = self.members
        if member in members:
            del members[member]
            member.entry = None
            member.dirty = False  # if it enters another ranking, that one has to rank it
            if len(members) < 2:
                self._forget()
                return
            if member is self.leader:
                self.leader = None
            most = 4 * len(members) + LEFTOVERS
            if len(self._dirty) > most:  # members that left, and may have come back
                self._dirty = [each for each in dict.fromkeys(self._dirty) if each in members]
            if len(self._line) + len(self._heap) > most:
                self._sort_out()

    def _forget(self) -> None:
        """Drop all entries: fewer than two members need no rank. A ranking that is only used at such times would never
        drop them elsewhere."""
        self._dirty.clear()
        self._heap.clear()
        self._line.clear()
        self.leader = next(iter(self.members), None)
        if self.leader is not None:
            self.leader.dirty = False

    def first(self) -> M | None:
        """The member with the lowest rank; None if there is none. O(log n) for each change since the last call."""
        if self.leader is not None or not self.members:
            return self.leader
        if self._dirty:
            self._settle()
        line, heap = self._line, self._heap
        while True:
            in_line = not heap or (line and line[0] < heap[0])
            entry = line[0] if in_line else heap[0]
            member: M = entry[-1]
            if member.entry is entry:
                self.leader = member
                return member
            if in_line:
                line.popleft()
            else:
                heappop(heap)

    def _settle(self) -> None:
        members, line, number = self.members, self._line, self._number
        for member in self._dirty:
            if member in members:
                member.dirty = False
                number += 1
                entry = member.entry = member.rank() + (number, member)  # noqa: RUF005 - half the time of unpacking
                if line and line[0][-1] is member:
                    line.popleft()
                if not line or line[-1] < entry:
                    line.append(entry)
                else:
                    heappush(self._heap, entry)
        self._dirty.clear()
        self._number = number
        if number >= self._tidy_at:
            self._tidy()

    def _tidy(self) -> None:
        """Drop old entries if they are too many. Each ranking adds one entry, so the next check can wait."""
        most = 4 * len(self.members) + LEFTOVERS
        if len(self._line) + len(self._heap) > most:
            self._sort_out()
        self._tidy_at = self._number + most - len(self._line) - len(self._heap)

    def _sort_out(self) -> None:
        """Keep only current entries, in the FIFO."""
        self._line, self._heap = deque(sorted(self._valid())), []

    def _valid(self) -> Iterator[Entry]:
        for entry in (*self._line, *self._heap):
            if entry[-1].entry is entry:
                yield entry

    def ranks(self) -> dict[M, tuple[Any, ...]]:
        """The rank of each member as the ranking has it, for `check`."""
        if len(self.members) < 2:
            return {member: member.rank() for member in self.members}
        self._settle()
        return {entry[-1]: entry[:-2] for entry in self._valid()}
