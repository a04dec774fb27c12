"""Finds the best-ranked item that has room for a need, without looking at every item.

A binary tree over slots. Each branch knows the best rank below it and, per resource, the most room any item below it has; a search
goes down towards the best rank and leaves out every branch in which some resource is too small. With n items a change costs
O(log n); a search too, unless many branches promise by parts what no single item has.

It serves twice: over groups of nodes (room = what is available), and over the lanes of a leaf queue, where "room" is the negated
need and the question is which lane fits into a headroom. It knows nothing of either.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T = TypeVar("T")
Vector = tuple[float, ...]
Rank = tuple[Any, ...]

# Ranks are tuples whose first element is a number: this one is behind all of them.
LAST: Rank = (float("inf"),)


def covers(room: Vector, need: Vector) -> bool:
    """room >= need in every place."""
    for have, want in zip(room, need):  # noqa: B905 - both are as long as the index has names; this is the hot path
        if have < want:
            return False
    return True


class FitTree(Generic[T]):
    __slots__ = ("_empty", "_free", "_items", "_ranks", "_rooms", "_size", "width")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self.width = width
        self._empty: Vector = (float("-inf"),) * width
        self._size = 1
        self._ranks: list[Rank] = [LAST, LAST]
        self._rooms: list[Vector] = [self._empty, self._empty]
        self._items: list[T | None] = [None]
        self._free: list[int] = [0]

    @property
    def room(self) -> Vector:
        """Per resource, the most that any item has."""
        return self._rooms[1]

    def add(self, item: T) -> int:
        """A slot for the item; it is found only once it has been `put`."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._items[slot] = item
        return slot

    def put(self, slot: int, rank: Rank, room: Vector) -> None:
        ranks, rooms = self._ranks, self._rooms
        i = slot + self._size
        ranks[i] = rank
        rooms[i] = room
        while i > 1:
            i >>= 1
            left, right = 2 * i, 2 * i + 1
            best = ranks[left] if ranks[left] < ranks[right] else ranks[right]
            a, b = rooms[left], rooms[right]
            most = a if a == b else tuple(map(max, a, b))
            if ranks[i] == best and rooms[i] == most:
                return
            ranks[i] = best
            rooms[i] = most

    def hide(self, slot: int) -> None:
        """Keep the slot, but do not find it until it is `put` again."""
        self.put(slot, LAST, self._empty)

    def remove(self, slot: int) -> None:
        self.hide(slot)
        self._items[slot] = None
        self._free.append(slot)

    def first(self, need: Vector | None) -> T | None:
        """The item of the best rank among those with room for the need (None: for anything that is put)."""
        ranks, rooms, size = self._ranks, self._rooms, self._size
        best, found = LAST, 0
        open_branches = [1]
        while open_branches:
            i = open_branches.pop()
            if ranks[i] >= best or (need is not None and not covers(rooms[i], need)):
                continue
            if i >= size:
                best, found = ranks[i], i
                continue
            left, right = 2 * i, 2 * i + 1
            if ranks[left] < ranks[right]:
                open_branches += (right, left)
            else:
                open_branches += (left, right)
        return self._items[found - size] if found else None

    def rank_of(self, slot: int) -> Rank:
        return self._ranks[slot + self._size]

    def _grow(self) -> None:
        size = self._size
        ranks, rooms = self._ranks[size:], self._rooms[size:]
        self._free.extend(range(2 * size - 1, size - 1, -1))
        self._items.extend([None] * size)
        self._size = size = 2 * size
        self._ranks = [LAST] * (2 * size)
        self._rooms = [self._empty] * (2 * size)
        self._ranks[size : size + len(ranks)] = ranks
        self._rooms[size : size + len(rooms)] = rooms
        for i in range(size - 1, 0, -1):
            self._ranks[i] = min(self._ranks[2 * i], self._ranks[2 * i + 1])
            self._rooms[i] = tuple(map(max, self._rooms[2 * i], self._rooms[2 * i + 1]))
