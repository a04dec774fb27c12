"""Give each demand a bit, so that sets of demands are integers, and say as such a set which demands a room covers.

A number is shared by several demands where there are more than DEMAND_BITS. Amounts are told apart exactly up to
LEVELS_KEPT different ones of a resource; further ones are rounded down by a thirty-second at most. So a set may name a
demand too many, never one too few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..limits import DEMAND_BITS, LEVELS_KEPT
from .fit_list import Vector

# Bits of a demand in sets that say what is to be looked at in which state of a demand: while it is open, while a freed
# node fits it, and while it is reserving.
STATES = 3
FREED = 1
RESERVING = 2


class DemandBits:
    __slots__ = ("_free", "_given", "_last", "_levels", "_masks", "_sharing")

    def __init__(self, width: int) -> None:
        """`width`: length of the vectors."""
        self._sharing: list[int] = []  # how many demands have each number
        self._free: list[int] = []  # numbers that no demand has any more
        self._given = 0  # the bit of each number there is
        self._last = 0  # the number that was shared last
        # For each resource the amounts that are needed of it, and for each interval between two of them the demands to
        # which an amount in it is enough.
        self._levels: list[list[float]] = [[] for _ in range(width)]
        self._masks: list[list[int]] = [[0] for _ in range(width)]

    def give(self, need: Vector) -> int:
        """A number for a demand."""
        number = self._number()
        self._sharing[number] += 1
        bit = bit_of(number)
        for amount, levels, masks in zip(need, self._levels, self._masks, strict=True):
            level = amount if len(levels) < LEVELS_KEPT else rounded_down(int(amount))
            place = bisect_left(levels, level)
            if place == len(levels) or levels[place] != level:
                levels.insert(place, level)
                masks.insert(place, masks[place])
            for above in range(place + 1, len(masks)):
                if masks[above] & bit:
                    break
                masks[above] |= bit
        return number

    def _number(self) -> int:
        if self._free:
            number = self._free.pop()
            self._clear(bit_of(number))
            return number
        if len(self._sharing) < DEMAND_BITS:
            self._given |= bit_of(len(self._sharing))
            self._sharing.append(0)
            return len(self._sharing) - 1
        self._last = (self._last + 1) % DEMAND_BITS
        return self._last

    def take(self, number: int) -> None:
        """A demand that had the number is gone."""
        self._sharing[number] -= 1
        if not self._sharing[number]:
            self._free.append(number)

    def covered(self, room: Vector) -> int:
        """The bits of all demands that the room covers."""
        found = self._given
        for amount, levels, masks in zip(room, self._levels, self._masks):  # noqa: B905 - the hot path
            found &= masks[bisect_right(levels, amount)]
        return found

    def _clear(self, bit: int) -> None:
        """No demand has the bit: it is covered by nothing. Levels at which nothing begins are dropped."""
        for place, (levels, masks) in enumerate(zip(self._levels, self._masks, strict=True)):
            kept_levels, kept_masks = list[float](), [masks[0] & ~bit]
            for level, mask in zip(levels, masks[1:], strict=True):
                if mask & ~bit != kept_masks[-1]:
                    kept_levels.append(level)
                    kept_masks.append(mask & ~bit)
            self._levels[place], self._masks[place] = kept_levels, kept_masks


def bit_of(number: int) -> int:
    """Each number has STATES bits, of which this is the first. The caller makes use of the others."""
    return 1 << STATES * number


def rounded_down(amount: int) -> int:
    """To six significant binary digits."""
    places = max(amount.bit_length() - 6, 0)
    return amount >> places << places
