"""Finds the next host with room, in the order of their names: a logarithm of steps where one kind is short.

A complete binary tree over the hosts; a branch knows the most of each kind that a host below it has. Hosts with much of
one kind beside hosts with much of another can mislead a search into branches without a host that has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..rules.hosts import Room, covers

NONE: Final[Room] = (float("-inf"),) * 5


class RoomTree:
    def __init__(self, rooms: Sequence[Room]) -> None:
        self.size = len(rooms)
        self._leaves = 1 << max(0, self.size - 1).bit_length()
        self._most: list[Room] = [NONE] * (2 * self._leaves)
        self._most[self._leaves : self._leaves + self.size] = rooms
        for branch in range(self._leaves - 1, 0, -1):
            self._join(branch)

    @property
    def most(self) -> Room:
        """The most of each kind that a host has."""
        return self._most[1]

    def put(self, place: int, room: Room) -> None:
        branch = self._leaves + place
        self._most[branch] = room
        while branch > 1:
            branch //= 2
            before = self._most[branch]
            self._join(branch)
            if self._most[branch] == before:
                break

    def next(self, needed: Room, start: int, accept: Callable[[int], bool]) -> int | None:
        """The first place from `start` on, and then from 0, that has room and is accepted."""
        found = self._within(needed, start, self.size, accept)
        return found if found is not None or start == 0 else self._within(needed, 0, start, accept)

    def _within(self, needed: Room, start: int, end: int, accept: Callable[[int], bool]) -> int | None:
        leaves, most = self._leaves, self._most
        open_branches = [(1, 0, leaves)]
        while open_branches:
            branch, low, high = open_branches.pop()
            if high <= start or low >= end or not covers(most[branch], needed):
                continue
            if branch >= leaves:
                if accept(low):
                    return low
                continue
            middle = (low + high) // 2
            open_branches.append((2 * branch + 1, middle, high))
            open_branches.append((2 * branch, low, middle))
        return None

    def _join(self, branch: int) -> None:
        a, b = self._most[2 * branch], self._most[2 * branch + 1]
        self._most[branch] = a if b is NONE else (
            max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4])
        )  # fmt: skip
