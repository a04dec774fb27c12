"""The method that reads the ledger of an RM: sums of closed hours."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.status_codes import NOT_FOUND
from remuda_operations.ledger import hours
from remuda_operations.ledger.reading import DAY_MS, BadQuery, LedgerAnswer, LedgerQuery, TooManyRows, read_ledger
from remuda_operations.operator_api.messages import Caller, add_rows, decoded, encoded, rm_of
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import admin_pb2 as admin

# Readings at the same time: a year of hours takes seconds of a processor.
READINGS_AT_ONCE: Final = 2
# Rows of all pages, for each of which the ledger is read anew. An hour has fewer, so each can be read in full.
LEDGER_ROWS: Final = 50_000
PAGE_ROWS: Final = 1_000
# Of all names in `by`, which each row of an answer has, in a process that serves others, too.
BY_CHARACTERS: Final = 2_000


class Ledgers:
    """The readings of this process, of which a few go on at a time."""

    def __init__(self) -> None:
        self._readings = asyncio.Semaphore(READINGS_AT_ONCE)

    async def get_ledger(self, bus: Bus, _: Caller, request: admin.GetLedgerRequest) -> admin.GetLedgerResponse:
        rm, after = rm_of(request), _place(request.page_token)
        try:
            query = _query(request, after)
            async with self._readings:
                closed_by_ms = after.closed_ms if after is not None else None
                answer = await read_ledger(bus, rm, query, most_rows=LEDGER_ROWS, closed_by_ms=closed_by_ms)
        except BadQuery as error:
            raise Refused(str(error)) from None
        except TooManyRows as error:
            raise Refused(f"per: {error}") from None
        known = answer.rows or answer.begun_ms or await bus.get(subjects.RMS.name, subjects.key_of(rm)) is not None
        if not known:
            raise Refused(f"no resource manager {rm!r} is registered, and none has a ledger", NOT_FOUND)
        return await _page(answer, min(request.limit or PAGE_ROWS, PAGE_ROWS), after)


class _Place(NamedTuple):
    """The last row of a page. `since_ms`, `until_ms`: the whole time. `closed_ms`: of it, all pages are sums of the
    hours before, which were closed at the first page."""

    since_ms: int
    until_ms: int
    closed_ms: int
    from_ms: int
    names: tuple[str, ...]


def _place(token: str) -> _Place | None:
    """Raises Refused."""
    if not token:
        return None
    try:
        return msgspec.convert(decoded(token), _Place)
    except msgspec.ValidationError:
        raise Refused(f"page_token is {shown(token)}, expected the next_page_token of the page before") from None


def _query(request: admin.GetLedgerRequest, after: _Place | None) -> LedgerQuery:
    """Raises BadQuery, Refused."""
    until_ms = request.until_ms or time.time_ns() // 1_000_000
    since_ms = request.since_ms or max(0, until_ms - DAY_MS)
    if after is not None:
        since_ms, until_ms = after.since_ms, after.until_ms
    if (characters := sum(map(len, request.by))) > BY_CHARACTERS:
        raise Refused(f"by has {characters} characters, expected at most {BY_CHARACTERS}")
    if until_ms < 0:
        raise Refused(f"until_ms is {until_ms}, expected 0 or more")
    if not 0 <= since_ms < until_ms:
        raise Refused(f"since_ms is {since_ms}, expected 0 or more, and less than until_ms, {until_ms}")
    return LedgerQuery(
        hours.hour_of(since_ms), until_ms, tuple(request.by), request.per or "all", request.zone or "UTC",
        request.partition, request.queue.lower(), request.user, request.application,
    )  # fmt: skip


async def _page(answer: LedgerAnswer, limit: int, after: _Place | None) -> admin.GetLedgerResponse:
    response = admin.GetLedgerResponse(rm=answer.rm, begun_ms=answer.begun_ms, closed_ms=answer.closed_ms)
    rows, begin = answer.rows, (after.from_ms, after.names) if after is not None else None
    if begin is not None:
        rows = [row for row in rows if (row.from_ms, tuple(row.names.values())) > begin]
    await add_rows(response.rows, map(_texts, replace(answer, rows=rows[:limit]).as_json()["rows"]))
    if len(rows) > limit:
        last, query = rows[limit - 1], answer.query
        if after is not None:
            closed_ms = after.closed_ms
        else:  # 0: no ledger is kept any more, so no further hour is closed
            closed_ms = min(query.until_ms, answer.closed_ms or query.until_ms)
        place = _Place(query.since_ms, query.until_ms, closed_ms, last.from_ms, tuple(last.names.values()))
        response.next_page_token = encoded(place)
    return response


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    """Amounts as decimal texts: no field of a message holds all of them."""
    return {**row, **{kind: {name: str(amount) for name, amount in row[kind].items()} for kind in hours.KINDS}}
