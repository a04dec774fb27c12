"""Sums of the ledger of an RM, `/api/v1/rms/{rm}/ledger`: as JSON, CSV, or with the columns of FOCUS as CSV. Rows of
queues that the caller does not see do not count."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from remuda_bus.bus import Bus, BusError
from remuda_operations.ledger import exports, hours
from remuda_operations.ledger.prices import Prices
from remuda_operations.ledger.reading import BadQuery, LedgerAnswer, LedgerQuery, TooManyRows, read_ledger
from remuda_proto.bounds import shown
from remuda_proto.durations import milliseconds
from remuda_proto.names import RM_ID
from remuda_web import limits
from remuda_web.api_v1 import schemas
from remuda_web.api_v1.answers import tagged
from remuda_web.api_v1.parameters import only
from remuda_web.problems import Problem, refused
from remuda_web.seen import sees_use, source_for
from remuda_web.source import Source

Text = Annotated[str, Query(max_length=limits.FILTER_CHARACTERS)]
When = Annotated[
    str, Query(max_length=40, description="A time: ms since 1970, RFC 3339, or a duration before now, 90m or 7d")
]
By = Annotated[
    str,
    Query(
        max_length=limits.FILTER_CHARACTERS,
        description="partition, queue, user, application, tags, tag:NAME, with commas between them",
    ),
]
Form = Annotated[Literal["json", "csv", "focus"], Query(alias="format")]
_PARAMETERS: Final = ("since", "until", "by", "per", "zone", "partition", "queue", "user", "application", "format")
_CSV: Final = "text/csv; charset=utf-8"


def add_ledger(router: APIRouter, bus: Bus, source: Source, prices: Prices | None) -> None:
    readings = asyncio.Semaphore(limits.LEDGERS_AT_ONCE)

    async def ledger(
        request: Request, rm: str, since: When = "24h", until: When = "0m", by: By = "queue",
        per: Literal["hour", "day", "month", "all"] = "all", zone: Text = "UTC", partition: Text = "",
        queue: Text = "", user: Text = "", application: Text = "", form: Form = "json",
    ) -> Response:  # fmt: skip
        if not RM_ID.matches(rm):
            raise Problem(404, f"rm={rm[:64]!r}: no such resource manager is registered")
        names = exports.FOCUS_BY if form == "focus" else tuple(one.strip() for one in by.split(",") if one.strip())
        try:
            query = LedgerQuery(
                hours.hour_of(_time("since", since)), _time("until", until), exports.by_of(names, prices),
                "day" if form == "focus" and per == "all" else per, zone, partition, queue.lower(), user, application,
            )  # fmt: skip
            seen = await sees_use(request, source, rm)
            async with readings:
                answer = await read_ledger(bus, rm, query, seen, limits.LEDGER_ROWS)
        except BadQuery as error:
            raise Problem(400, str(error), {"field": error.field}) from None
        except TooManyRows as error:
            raise Problem(422, str(error), {"field": "per"}) from None
        except BusError as error:
            raise refused(error) from None
        if not answer.rows and rm not in source_for(request, source).rms():
            raise Problem(404, f"rm={rm[:64]!r}: no such resource manager is registered, and none has a ledger")
        return await asyncio.to_thread(_answered, request, answer, names, prices, form)

    router.add_api_route(
        "/rms/{rm}/ledger", ledger, methods=["GET"], response_class=Response, name="/rms/{rm}/ledger",
        summary="Use in closed hours, and waste", dependencies=only(_PARAMETERS),
        openapi_extra={"responses": schemas.also_csv(schemas.answers(schemas.LEDGER))},
    )  # fmt: skip


def _answered(
    request: Request, answer: LedgerAnswer, names: tuple[str, ...], prices: Prices | None, form: str
) -> Response:
    if form == "json":
        found = exports.priced(answer.rows, names, prices)
        return tagged(request, exports.as_json(answer, names, found.rows, found.costs, prices))
    table = exports.focus(answer, prices) if form == "focus" else exports.table(answer, names, prices)
    headers = {"Content-Disposition": f'attachment; filename="ledger-{form}.csv"', "Cache-Control": "no-cache"}
    return Response(exports.as_csv(table).encode(errors="replace"), media_type=_CSV, headers=headers)


def _time(field: str, text: str) -> int:
    """Raises BadQuery."""
    now_ms = time.time_ns() // 1_000_000
    if text.isascii() and text.isdigit() and len(text) <= limits.TIME_DIGITS:
        return int(text)
    days = text.removesuffix("d")
    if text.endswith("d") and days.isascii() and days.isdigit() and len(days) <= limits.DAYS_DIGITS:
        return now_ms - int(days) * 24 * hours.HOUR_MS
    before_ms = milliseconds(text)
    if before_ms is not None:
        return now_ms - before_ms
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        expected = "ms since 1970, a time such as 2026-11-28T14:00Z, or a duration before now such as 7d"
        raise BadQuery(field, f"{field} is {shown(text)}, expected {expected}") from None
