"""Pages of long answers: rows in a stable order, each with the place from which the next page continues.

A page has at most `limit` rows of the request, and no more bytes than fit into one message. If there are more rows,
`next` is the value that the next request sends as `after`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from remuda_bus.bus import Refused
from remuda_proto.bounds import shown

from ..limits import PAGE_BYTES, PAGE_ROWS, SORTED_IN_SINGLY

# In the order of the rows, and of the same types in all rows of a question.
Place = list[Any]
Row = tuple[Place, Callable[[], object]]


def page(
    request: Mapping[str, Any],
    name: str,
    rows: Iterable[Row],
    head: Mapping[str, object],
    enough: Callable[[], bool] = lambda: False,
) -> dict[str, object]:
    """Make a page. The rows come in order, starting at `after` or before; the content of a row is computed when it is
    taken. `enough`: true when computing them has been too much work for one page."""
    limit, after, taken, size = limit_of(request), request.get("after"), list[msgspec.Raw](), 0
    last: Place = []
    for place, row in rows:
        if after is not None and not comes_after(place, after):
            continue
        after = None  # all later rows are behind it, too
        if taken and (len(taken) >= limit or enough()):
            return {**head, name: taken, "next": last}
        encoded = msgspec.json.encode(row())
        if taken and size + len(encoded) > PAGE_BYTES:
            return {**head, name: taken, "next": last}
        taken.append(msgspec.Raw(encoded))
        size += len(encoded)
        last = place
    return {**head, name: taken}


def limit_of(request: Mapping[str, Any]) -> int:
    limit = request.get("limit", PAGE_ROWS)
    if type(limit) is not int or limit < 1:
        raise Refused(f"limit is {shown(limit)}, expected a number from 1")
    return min(limit, PAGE_ROWS)


def comes_after(place: Place, after: object) -> bool:
    try:
        return place > after  # type: ignore[operator]  # it comes from outside
    except TypeError:
        raise Refused(f"after is {shown(after)}, expected the `next` of the page before") from None


V = TypeVar("V")
# A sort key. All keys of a listing have one type.
Key = Any


class Listing(Generic[V]):
    """Iterates over a dictionary in order from any place on. The cost depends on the page, not on the dictionary.

    The dictionary is sorted at the first use; later uses sort in only the new entries. Removed entries stay in the list
    until they are as many as the others. A listing need not be notified of changes: a dictionary keeps its entries in
    the order of insertion, so new ones are at its end. `place` of an entry must be unique and must never change. A key
    that is written again must be removed first, as `evolve` does, so that it moves to the end."""

    def __init__(self, entries: dict[Any, V], place: Callable[[Any, V], Key]) -> None:
        self.entries = entries
        self._place = place
        self._known: dict[Any, V] = {}
        self._places: list[tuple[Key, Any]] = []

    def after(self, place: Key | None) -> Iterator[tuple[Key, V]]:
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
        new: list[tuple[Key, Any]] = []
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


def _at(one: tuple[Key, Any]) -> Key:
    return one[0]
