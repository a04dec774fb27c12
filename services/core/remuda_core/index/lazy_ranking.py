"""Find the first of members whose ranks keep changing, ranking them anew only when the first is asked for.

Put right only where somebody looks: whoever changes a member says so (`touch`), and the ranks of those members are
computed again when the first is asked for. An entry that belongs behind all others, as that of whoever has just had his
turn among equals, joins a line; the others go into a heap. Old entries of a member, that it does not have any more,
stay behind until they come up or become too many. A member alone is first without being ranked at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from ..limits import LEFTOVERS


class Member(Protocol):
    entry: Entry | None  # the last that was made for it; None: not in the ranking
    dirty: bool  # its rank has to be computed again

    def rank(self) -> tuple[Any, ...]: ...


# Rank (no two members have the same), a number that grows, the member.
Entry = tuple[Any, ...]
M = TypeVar("M", bound=Member)


class LazyRanking(Generic[M]):
    __slots__ = ("_dirty", "_heap", "_line", "_number", "_tidy_at", "leader", "members")

    def __init__(self) -> None:
        self.members: dict[M, None] = {}
        # Who is first, where that is known: a member alone, or since nothing has changed. Otherwise ask `first`.
        self.leader: M | None = None
        self._line: deque[Entry] = deque()
        self._heap: list[Entry] = []
        self._dirty: list[M] = []
        self._number = 0
        self._tidy_at = LEFTOVERS  # at which number to look whether there are too many entries

    def enter(self, member: M) -> None:
        """Take part, or have the rank computed again if it already does."""
        members = self.members
        if member not in members:
            members[member] = None
            if len(members) == 1:
                self.leader = member
                return
            if len(members) == 2:  # alone it was not kept up to date
                for each in members:
                    self.touch(each)
                return
        self.touch(member)

    def touch(self, member: M) -> None:
        """Its rank may have changed. Nothing if it does not take part, or is alone."""
        members = self.members
        if len(members) > 1 and member in members:
            self.leader = None
            if not member.dirty:
                member.dirty = True
                self._dirty.append(member)

    def rank_anew(self) -> None:
        """Ranks are of another kind now, which does not compare with what they were."""
        self._line.clear()
        self._heap.clear()
        for member in self.members:
            member.entry = None
            self.touch(member)

    def leave(self, member: M) -> None:
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
            if len(self._dirty) > most:  # those that have left, and maybe came back
                self._dirty = [each for each in dict.fromkeys(self._dirty) if each in members]
            if len(self._line) + len(self._heap) > most:
                self._sort_out()

    def _forget(self) -> None:
        """Nobody is to be ranked. Who looks in only at such times would never put anything right, and what has left
        would stay behind for ever."""
        self._dirty.clear()
        self._heap.clear()
        self._line.clear()
        self.leader = next(iter(self.members), None)
        if self.leader is not None:
            self.leader.dirty = False

    def first(self) -> M | None:
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
        """A ranking adds one entry, so it is known how many there may be before there can be too many."""
        most = 4 * len(self.members) + LEFTOVERS
        if len(self._line) + len(self._heap) > most:
            self._sort_out()
        self._tidy_at = self._number + most - len(self._line) - len(self._heap)

    def _sort_out(self) -> None:
        self._line, self._heap = deque(sorted(self._valid())), []

    def _valid(self) -> Iterator[Entry]:
        for entry in (*self._line, *self._heap):
            if entry[-1].entry is entry:
                yield entry

    def ranks(self) -> dict[M, tuple[Any, ...]]:
        """Rank of each member as the ranking sees it now, for `check`."""
        if len(self.members) < 2:
            return {member: member.rank() for member in self.members}
        self._settle()
        return {entry[-1]: entry[:-2] for entry in self._valid()}
