"""Ranges of IDs, for reports that know a part of what there is. IDs are in the order of their bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

Range = tuple[str, str]  # IDs from the first one on, and below the second one; empty: no bound
EVERYTHING: Final[Range] = ("", "")


def is_in(one: str, within: Range) -> bool:
    first, below = within
    return first <= one and (not below or one < below)


def overlap(ranges: Iterable[Range]) -> bool:
    """Whether two of the ranges have an ID in common. No range is empty."""
    return any(not below or after < below for (_, below), (after, _) in pairwise(sorted(ranges)))


class Ranges:
    """The IDs in ranges that do not overlap."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = sorted(ranges)
        self._first = [first for first, _ in self._ranges]

    def __contains__(self, one: str) -> bool:
        place = bisect_right(self._first, one) - 1
        return place >= 0 and is_in(one, self._ranges[place])
