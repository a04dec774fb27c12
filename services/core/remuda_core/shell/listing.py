"""Sorted iteration over a dictionary from any place on, whose cost depends on the page, not on the dictionary.

The dictionary is sorted at the first use; later uses sort in only the new entries. Removed entries stay in the list
until they are as many as the others. A listing need not be notified of changes: a dictionary keeps its entries in the
order of insertion, so new ones are at its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ..limits import SORTED_IN_SINGLY

V = TypeVar("V")
Place = Any  # a sort key; all of a listing have one type


class Listing(Generic[V]):
    """`place` of an entry must be unique and must never change. A key that is written again must be removed first, as
    `evolve` does, so that it moves to the end."""

    def __init__(self, entries: dict[Any, V], place: Callable[[Any, V], Place]) -> None:
        self.entries = entries
        self._place = place
        self._known: dict[Any, V] = {}
        self._places: list[tuple[Place, Any]] = []

    def after(self, place: Place | None) -> Iterator[tuple[Place, V]]:
        """Yield the entries behind `place` in order. The dictionary must not change meanwhile."""
        self._catch_up()
        begin = 0 if place is None else bisect_right(self._places, place, key=_at)
        for number in range(begin, len(self._places)):
            at, key = self._places[number]
            entry = self.entries.get(key)
            if entry is not None and entry is self._known.get(key):
                yield at, entry

    def _catch_up(self) -> None:
        if len(self._places) > 2 * len(self.entries) + SORTED_IN_SINGLY:
            self._known, self._places = {}, []
        new: list[tuple[Place, Any]] = []
        for key in reversed(self.entries):
            entry = self.entries[key]
            before = self._known.get(key)
            if before is entry:
                break  # this entry and all before it are listed
            if before is not None:
                del self._places[bisect_left(self._places, self._place(key, before), key=_at)]
            self._known[key] = entry
            new.append((self._place(key, entry), key))
        if len(new) <= SORTED_IN_SINGLY:
            for one in new:
                insort(self._places, one, key=_at)
        else:
            self._places = sorted(self._places + new, key=_at)


def _at(one: tuple[Place, Any]) -> Place:
    return one[0]
