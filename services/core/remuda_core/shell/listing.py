"""A dictionary in an order of its own, from any place on, in time that depends on the page and not on the dictionary.

It is sorted when it is first used; from then on only what was added since is sorted in. What has gone stays in the list
until there is as much of it as of the rest. A listing needs no word of changes: a dictionary keeps its entries in the
order in which they were added, so what is new stands at the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ..limits import SORTED_IN_SINGLY

V = TypeVar("V")
Place = Any  # what sorts; of one type in a listing


class Listing(Generic[V]):
    """`place` of an entry never changes, and no two entries have the same. A key that is written again goes first, as
    `evolve` does it: it stands at the end then."""

    def __init__(self, entries: dict[Any, V], place: Callable[[Any, V], Place]) -> None:
        self.entries = entries
        self._place = place
        self._known: dict[Any, V] = {}
        self._places: list[tuple[Place, Any]] = []

    def after(self, place: Place | None) -> Iterator[tuple[Place, V]]:
        """Nothing may change while this goes on."""
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
                break  # it and all before it are known
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
