"""Say which needs a room covers, as the bits of one integer.

Up to NEEDS_KEPT needs have a bit each. `covered(room)` has the bits of all needs that the room covers: a bisection and
an AND per resource, however many needs there are. A need without a bit is described by the needs that it covers itself:
a room that lacks one of their bits does not cover it.

A bit that stands for no need is set in every room. A need that takes it over finds it set in rooms that do not cover
it, never the other way round. So integers that were kept may name too many rooms, and never too few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..limits import NEEDS_KEPT
from .fit_list import Vector


class Needs:
    __slots__ = ("_bits", "_free", "_given", "_levels", "_masks", "_used")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._bits: dict[Vector, int] = {}
        self._given = 0  # bits of all these
        self._used = 0  # bits of the needs that were asked about since bits were last taken
        self._free: list[int] = []  # bits that needs had before
        # For each resource the amounts that are needed of it, and for each interval between two of them the needs to
        # which an amount in it is enough.
        self._levels: list[list[float]] = []
        self._masks: list[list[int]] = []
        self._clear(width)

    def covered(self, room: Vector) -> int:
        """The needs that the room covers."""
        found = -1
        for amount, levels, masks in zip(room, self._levels, self._masks):  # noqa: B905 - the hot path
            found &= masks[bisect_right(levels, amount)]
        return found

    def bits(self, need: Vector) -> int:
        """The bits that `covered` returns for every room that covers the need. The need gets a bit if one is free."""
        bit = self._bits.get(need)
        if bit is None and len(self._bits) < NEEDS_KEPT:
            bit = self._bits[need] = self._free.pop() if self._free else 1 << len(self._bits)
            self._add(need, bit)
            self._given |= bit
        self._used |= bit or 0
        return self.covered(need) & self._given

    def _add(self, need: Vector, bit: int) -> None:
        for amount, levels, masks in zip(need, self._levels, self._masks, strict=True):
            place = bisect_left(levels, amount)
            if place == len(levels) or levels[place] != amount:
                levels.insert(place, amount)
                masks.insert(place, masks[place])
            masks[: place + 1] = [mask & ~bit for mask in masks[: place + 1]]

    def renew(self) -> int:
        """Take up to half of the bits, of needs that were not asked about since bits were last taken, if there are any.
        Returns these bits: they are to be set in all that `covered` has returned."""
        unused = [need for need, bit in self._bits.items() if not bit & self._used]
        freed = (unused or list(self._bits))[: NEEDS_KEPT // 2]
        bits = [self._bits.pop(need) for need in freed]
        self._free += bits
        self._given &= ~sum(bits)
        self._used = 0
        self._clear(len(self._levels))
        for need, bit in self._bits.items():
            self._add(need, bit)
        return sum(bits)

    def _clear(self, width: int) -> None:
        self._levels = [[] for _ in range(width)]
        self._masks = [[(1 << NEEDS_KEPT) - 1] for _ in range(width)]
