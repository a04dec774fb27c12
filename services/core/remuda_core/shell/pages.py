"""Pages of long answers: rows in a stable order, each with the place from which the next page continues.

A page has at most `limit` rows of the request, and no more bytes than fit into one message. If there are more rows,
`next` is the value that the next request sends as `after`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from remuda_bus.bus import Refused
from remuda_proto.bounds import shown

from ..limits import PAGE_BYTES, PAGE_ROWS

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
