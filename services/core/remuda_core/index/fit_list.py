"""A list in the order of rank that finds the first item with room for a need, without looking at every item before it.

It serves twice: over groups of nodes, by score, where room is what is available; and over the ask classes of a leaf
queue, by who is next, where "room" is the negated need and the question is which ask class fits into a headroom.

Items are kept in blocks of neighbours. A block has, per resource, an upper bound of the room of its items, and a binary
tree over the blocks has the same bound of each branch. A search skips all items before the first one with room in
O(log n), if the bounds of different resources come from the same items. Bounds only grow when items are added; a search
that finds no item in a block makes its bound exact.

An item may be hidden (`room = HIDDEN`) and shown again at no cost while it is listed; a search that comes across it may
unlist it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

Vector = tuple[float, ...]
Rank = tuple[Any, ...]

# Room for nothing: shorter than any need, and its one place is too small.
HIDDEN: Vector = (float("-inf"),)
MOST_IN_BLOCK = 64


class Listed(Protocol):
    room: Vector
    rank: Rank | None  # in the list; None: not in it


T = TypeVar("T", bound=Listed)


def covers(room: Vector, need: Vector) -> bool:
    """room >= need in every place."""
    for have, want in zip(room, need):  # noqa: B905 - as long as the index has names, or HIDDEN; this is the hot path
        if have < want:
            return False
    return True


class _Block(Generic[T]):
    __slots__ = ("exact", "items", "ranks", "room")

    def __init__(self, ranks: list[Rank], items: list[T], room: Vector) -> None:
        self.exact = False  # `room` is no more than its items have
        self.ranks = ranks
        self.items = items
        self.room = room


class FitList(Generic[T]):
    __slots__ = ("_blocks", "_firsts", "_found", "_nothing", "_rooms", "_size")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._nothing: Vector = (float("-inf"),) * width
        self._blocks: list[_Block[T]] = [_Block([], [], self._nothing)]
        self._firsts: list[Rank] = [()]
        self._found = (0, 0)
        # The tree: the branches, and behind them the blocks. Empty: blocks came or went, the next search builds it.
        self._rooms: list[Vector] = []
        self._size = 1

    def fill(self, ranked: list[tuple[Rank, T]]) -> Iterator[None]:
        """The empty list, with items in the order of their ranks. Yields after each block."""
        blocks: list[_Block[T]] = []
        for start in range(0, len(ranked), MOST_IN_BLOCK // 2):
            some = ranked[start : start + MOST_IN_BLOCK // 2]
            for rank, item in some:
                item.rank = rank
            block = _Block([rank for rank, _ in some], [item for _, item in some], self._nothing)
            block.room = self._most(block)
            blocks.append(block)
            yield
        if blocks:
            self._blocks, self._firsts, self._rooms = blocks, [block.ranks[0] for block in blocks], []

    def put(self, item: T, rank: Rank) -> None:
        """Ranks are unique."""
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
        """Remove the item; does nothing if it is not listed."""
        rank = item.rank
        if rank is None:
            return
        item.rank = None
        at = max(bisect_right(self._firsts, rank) - 1, 0)
        block = self._blocks[at]
        place = bisect_left(block.ranks, rank)
        del block.ranks[place], block.items[place]
        block.exact = False
        self._shrunk(at)

    def move(self, item: T, rank: Rank) -> bool:
        """Its rank is another now. Listed, if it was not. Whether it still stands between the same neighbours, as it
        mostly does."""
        old = item.rank
        if old is not None:
            firsts, blocks = self._firsts, self._blocks
            at = bisect_right(firsts, old) - 1
            ranks = blocks[at].ranks
            place = bisect_left(ranks, old)
            if old < rank:
                after = ranks[place + 1] if place + 1 < len(ranks) else firsts[at + 1] if at + 1 < len(firsts) else None
                stays = after is None or rank < after
            else:
                stays = (ranks[place - 1] if place else blocks[at - 1].ranks[-1] if at else ()) < rank
            if stays:
                ranks[place] = item.rank = rank
                if not place:
                    firsts[at] = rank
                return True
            self.remove(item)
        self.put(item, rank)
        return False

    def front(self) -> T | None:
        """The item of the lowest rank that is not hidden. Unlists the hidden items before it."""
        while items := self._blocks[0].items:
            if items[0].room is not HIDDEN:
                return items[0]
            self.remove(items[0])
        return None

    def first(self, need: Vector, start: Rank = ()) -> T | None:
        """The item of the lowest rank, from `start` on, that has room."""
        begin = skip = 0
        if start > self._firsts[0]:
            begin = bisect_right(self._firsts, start) - 1
            skip = bisect_left(self._blocks[begin].ranks, start)
        at = begin - 1
        while (at := self._next_block(at + 1, need)) >= 0:
            items = self._blocks[at].items
            for place in range(skip if at == begin else 0, len(items)):
                if covers(items[place].room, need):
                    self._found = (at, place)
                    return items[place]
            at -= self._make_exact(at)
            begin = -1
        return None

    def tied(self) -> bool:
        """Whether the item after the one found last has the same first place in its rank."""
        at, place = self._found
        ranks = self._blocks[at].ranks
        if place + 1 < len(ranks):
            following = ranks[place + 1]
        elif at + 1 < len(self._blocks):
            following = self._firsts[at + 1]
        else:
            return False
        return bool(following[0] == ranks[place][0])

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

    def _make_exact(self, at: int) -> int:
        """Make the bound of a block exact, and unlist its hidden items. Returns 1 if the block became empty and was
        removed, else 0."""
        block = self._blocks[at]
        if self._without_hidden(block) and self._shrunk(at):
            return 1
        if not block.exact:
            self._set_room(at, self._most(block))
            block.exact = True
        return 0

    def _without_hidden(self, block: _Block[T]) -> bool:
        hidden = [item for item in block.items if item.room is HIDDEN]
        for item in hidden:
            item.rank = None
        if hidden:
            block.exact = False
            block.items = [item for item in block.items if item.rank is not None]
            block.ranks = [item.rank for item in block.items if item.rank is not None]
        return bool(hidden)

    def _most(self, block: _Block[T]) -> Vector:
        return tuple(map(max, self._nothing, self._nothing, *(item.room for item in block.items)))

    def _shrunk(self, at: int) -> bool:
        """Update the bounds and ranks of a block that lost items. True if it became empty and was removed."""
        block = self._blocks[at]
        if block.items:
            self._firsts[at] = block.ranks[0]
            return False
        if len(self._blocks) == 1:
            self._firsts[0] = ()
            self._set_room(0, self._nothing)
            return False
        del self._blocks[at], self._firsts[at]
        self._rooms = []
        return True

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        self._without_hidden(block)
        half = len(block.items) // 2
        if half < MOST_IN_BLOCK // 4:  # mostly hidden ones: no need to
            self._shrunk(at)
            return
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
