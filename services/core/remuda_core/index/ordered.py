"""Two ordered collections. Both find the first item without a look at every item before it.

    FitList       items by rank; finds the first one with room for a need      closed demands, reserved and packed nodes
    LazyRanking   members whose ranks keep changing; finds the first one       queues, applications, gangs

`trees` has a third one: trees over the nodes and over the ask classes of a leaf queue, whose search is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace
from typing import Any, Generic, Protocol, TypeVar

from ..limits import LEFTOVERS, STEPS_PER_RANK

# Amounts of resources, each in the place that the index of the partition gives to its name.
Vector = tuple[float, ...]
# What items are ordered by. Ranks of one collection are unique and compare with each other.
Rank = tuple[Any, ...]

# The room of a hidden item, which fits no need: it is shorter than any need, and its one place is too small.
HIDDEN: Vector = (float("-inf"),)
MOST_IN_BLOCK = 64


def covers(room: Vector, need: Vector) -> bool:
    """Whether room >= need in every place."""
    for have, want in zip(room, need):  # noqa: B905 - as long as the index has names, or HIDDEN; this is the hot path
        if have < want:
            return False
    return True


class Listed(Protocol):
    """An item of a FitList or FitTree."""

    # What a need is compared with. It does not change while the item is in a FitList; a FitTree allows to hide it.
    room: Vector
    # The place of the item in the list, written by the list. None: the item is not listed.
    rank: Rank | None


T = TypeVar("T", bound=Listed)


class _Block(Generic[T]):
    """Neighbours in the list. `ranks` has the rank of each of the `items`; `room` is at least that of each item, in
    every place."""

    __slots__ = ("exact", "items", "ranks", "room")

    def __init__(self, ranks: list[Rank], items: list[T], room: Vector) -> None:
        self.ranks = ranks
        self.items = items
        self.room = room
        self.exact = False  # whether `room` is no more than some item has, in every place


class FitList(Generic[T]):
    """A list in the order of ranks that finds the first item with room for a need.

    Items are kept in blocks of neighbours. A block has, per resource, an upper bound of the room of its items, and a
    binary tree over the blocks has the same bound of each branch. A search skips all items before the first one with
    room in O(log n), if the bounds of different resources come from the same items. Bounds only grow when items are
    added; a search that finds no item in a block makes its bound exact.

    Room is what a node has, or the negated need of a demand: then the search finds the first demand that fits a node.
    """

    __slots__ = ("_blocks", "_firsts", "_nothing", "_rooms", "_size")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._nothing: Vector = (float("-inf"),) * width
        self._blocks: list[_Block[T]] = [_Block([], [], self._nothing)]
        # The first rank of each block.
        self._firsts: list[Rank] = [()]
        # The tree: the branches, and behind them `_size` places for blocks. Empty: blocks came or went, the next search
        # builds it.
        self._rooms: list[Vector] = []
        self._size = 1

    def __bool__(self) -> bool:
        """Whether the list has an item."""
        return bool(self._blocks[0].items)

    def put(self, item: T, rank: Rank) -> None:
        """Add an item that is not listed. O(log n)."""
        item.rank = rank
        at = max(bisect_right(self._firsts, rank) - 1, 0)
        block = self._blocks[at]
        place = bisect_left(block.ranks, rank)
        block.ranks.insert(place, rank)
        block.items.insert(place, item)
        if place == 0:
            self._firsts[at] = rank
        if not covers(block.room, item.room):
            self._set_room(at, tuple(map(max, block.room, item.room)))
        if len(block.items) > MOST_IN_BLOCK:
            self._split(at)

    def remove(self, item: T) -> None:
        """Remove the item; does nothing if it is not listed. O(log n)."""
        rank = item.rank
        if rank is None:
            return
        item.rank = None
        at = max(bisect_right(self._firsts, rank) - 1, 0)
        block = self._blocks[at]
        place = bisect_left(block.ranks, rank)
        del block.ranks[place], block.items[place]
        block.exact = False
        if block.items:
            self._firsts[at] = block.ranks[0]
        elif len(self._blocks) == 1:
            self._firsts[0] = ()
            self._set_room(0, self._nothing)
        else:
            del self._blocks[at], self._firsts[at]
            self._rooms = []

    def first(self, need: Vector, start: Rank = ()) -> T | None:
        """The item of the lowest rank, from `start` on, that has room."""
        begin = skip = 0
        if start > self._firsts[0]:
            begin = bisect_right(self._firsts, start) - 1
            skip = bisect_left(self._blocks[begin].ranks, start)
        at = begin - 1
        while (at := self._next_block(at + 1, need)) >= 0:
            block = self._blocks[at]
            items = block.items
            for place in range(skip if at == begin else 0, len(items)):
                if covers(items[place].room, need):
                    return items[place]
            if not block.exact:
                self._set_room(at, self._most(block))
                block.exact = True
            begin = -1
        return None

    # Blocks and the tree over them

    def _next_block(self, start: int, need: Vector) -> int:
        """The first block from `start` on that may have room; -1 if there is none."""
        if start >= len(self._blocks):
            return -1
        if not self._rooms:
            self._build_tree()
        rooms, size = self._rooms, self._size
        at = start + size
        while True:
            if covers(rooms[at], need):
                if at >= size:
                    return at - size
                at *= 2  # its left branch
                continue
            while at & 1:  # a right branch, or the root: nothing further below its parent
                at >>= 1
                if at <= 1:
                    return -1
            at += 1  # the branch to the right of this one

    def _set_room(self, at: int, room: Vector) -> None:
        self._blocks[at].room = room
        rooms = self._rooms
        if not rooms:
            return
        at += self._size
        rooms[at] = room
        while at > 1:
            at >>= 1
            left, right = rooms[2 * at], rooms[2 * at + 1]
            most = tuple(map(max, left, right))
            if rooms[at] == most:
                return
            rooms[at] = most

    def _most(self, block: _Block[T]) -> Vector:
        return tuple(map(max, self._nothing, self._nothing, *(item.room for item in block.items)))

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block.items) // 2
        right = _Block(block.ranks[half:], block.items[half:], self._nothing)
        del block.ranks[half:], block.items[half:]
        self._blocks.insert(at + 1, right)
        self._firsts[at : at + 1] = [block.ranks[0], right.ranks[0]]
        block.room, right.room = self._most(block), self._most(right)
        self._rooms = []

    def _build_tree(self) -> None:
        blocks = self._blocks
        self._size = size = 1 << max(len(blocks) - 1, 0).bit_length()
        rooms = [self._nothing] * size + [block.room for block in blocks] + [self._nothing] * (size - len(blocks))
        for at in range(size - 1, 0, -1):
            rooms[at] = tuple(map(max, rooms[2 * at], rooms[2 * at + 1]))
        self._rooms = rooms


class Member(Protocol):
    """A member of a ranking. It is in one ranking at a time, which writes both fields."""

    # The entry of the member in the ranking that counts. None: it has none, or was not ranked yet.
    entry: Entry | None
    # The rank of the member has to be computed again, and the ranking lists the member for that.
    dirty: bool

    def rank(self) -> tuple[Any, ...]: ...


class Budget(Protocol):
    """The steps that a pass may still take, and whether it has come further."""

    left: int
    found: bool


# (*rank, number, member): no two members have the same rank, and the number grows. In a ranking that is outdated at
# times it is a list, which is used again when it comes up. A tuple that takes the place of another is young to Python's
# search for cycles, which begins when the number of objects grows: it would find all entries young at once.
Entry = Any
M = TypeVar("M", bound=Member)


class LazyRanking(Generic[M]):
    """Finds the first of members whose ranks keep changing. Ranks are computed only when the first one is asked for.

    `touch` marks a member whose rank may have changed. `first` computes the ranks of the marked members: O(log n) each.
    `outdate` says that ranks may have grown. They are then bounds, and computed again only when they come first: O(log
    n) for each rank that lies below the first one, charged to the budget.
    An entry that ranks last goes to a FIFO, as that of a member that has just had its turn among equals; all others go
    to a heap. A member that is ranked again leaves its old entry behind, which is dropped when it comes up, or when old
    entries become too many. A ranking of one member computes no rank.
    """

    __slots__ = ("_budget", "_dirty", "_heap", "_line", "_number", "_outdated", "_tidy_at", "leader", "members")

    def __init__(self, budget: Budget | None = None) -> None:
        """`budget`: of a ranking that is outdated at times."""
        self.members: dict[M, None] = {}
        self._budget = budget
        # Entries up to this number are bounds: their ranks may have grown since.
        self._outdated = 0
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

    def outdate(self) -> None:
        """Note that all ranks may have grown, and none has fallen. O(1)."""
        if len(self.members) > 1:
            self._outdated = self._number
            self.leader = None

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
            is_current = member.entry is entry
            if is_current and entry[-2] > self._outdated:
                self.leader = member
                return member
            if in_line:
                line.popleft()
            elif not is_current:
                heappop(heap)
            if is_current:
                self._rank_again(entry, in_heap=not in_line)

    def _rank_again(self, entry: Entry, *, in_heap: bool) -> None:
        """`in_heap`: the entry is the first one of the heap; else it is in neither."""
        if self._budget is not None:
            self._budget.left -= STEPS_PER_RANK
            self._budget.found = True  # the next pass continues here, and needs no larger budget
        self._number += 1
        member = entry[-1]
        entry[:] = member.rank() + (self._number, member)  # noqa: RUF005 - half the time of unpacking
        if not self._line or self._line[-1] < entry:
            self._line.append(entry)
            if in_heap:
                heappop(self._heap)
        elif in_heap:
            heapreplace(self._heap, entry)
        else:
            heappush(self._heap, entry)

    def _settle(self) -> None:
        members, line, heap, number = self.members, self._line, self._heap, self._number
        uses_again = self._budget is not None
        for member in self._dirty:
            if member in members:
                member.dirty = False
                number += 1
                entry: Entry = member.rank() + (number, member)  # noqa: RUF005 - as above
                old: Entry = None  # that of a turn which is just over: the new one takes its place
                if line and line[0][-1] is member:
                    old = line.popleft()
                elif heap and heap[0][-1] is member:
                    old = heap[0]
                if uses_again:
                    entry = _renewed(old, entry)
                member.entry = entry
                if not line or line[-1] < entry:
                    line.append(entry)
                    if heap and heap[0] is entry:
                        heappop(heap)
                elif heap and heap[0] is old:
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)
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
        """The rank of each member as the ranking has it, for `check`; of an outdated entry, which is a bound, the
        present one. A look does not rank it again."""
        if len(self.members) < 2:
            return {member: member.rank() for member in self.members}
        self._settle()
        found = {entry[-1]: tuple(entry[:-2]) for entry in self._valid()}
        for member, bound in found.items():
            if member.entry is not None and member.entry[-2] <= self._outdated:
                found[member] = member.rank()
                assert bound <= found[member], f"{member} ranked {bound}, and ranks {found[member]} by now"
        return found


def _renewed(old: list[Any] | None, entry: tuple[Any, ...]) -> list[Any]:
    if old is None:
        return [*entry]
    old[:] = entry
    return old
