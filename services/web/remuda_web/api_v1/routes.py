"""The routes of `/api/v1`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.status_codes import NOT_FOUND, UNAVAILABLE
from remuda_operations.ledger.prices import Prices
from remuda_operations.queries.fields import FILTERS, unknown_field
from remuda_proto.names import RM_ID
from remuda_web import limits, problems
from remuda_web.api_v1 import pages, schemas
from remuda_web.api_v1.answers import tagged
from remuda_web.api_v1.fields import fields_of
from remuda_web.api_v1.ledger import add_ledger
from remuda_web.api_v1.methods import add_methods
from remuda_web.api_v1.parameters import only
from remuda_web.api_v1.peloton import add_peloton
from remuda_web.callers import caller_of, sender_of
from remuda_web.overview import Overviews
from remuda_web.problems import Problem
from remuda_web.queue_history import DeviceHistory, QueueHistory
from remuda_web.seen import sees_queue, source_for
from remuda_web.source import LISTS, Event, Row, Source, Unreadable
from remuda_web.streams import Streams, event
from remuda_web.ws_v1.events import record

PREFIX: Final = "/api/v1"
Filter = Annotated[str | None, Query(max_length=limits.FILTER_CHARACTERS)]
Rows = Callable[..., Awaitable[Response]]
# Parameters of a page of rows, beside its filters.
_OF_PAGE: Final = {
    "after": Filter,
    "limit": Annotated[int | None, Query(ge=1, le=limits.PAGE_ROWS)],
    "min_log_seq": Annotated[int | None, Query(ge=0, lt=2**63)],
    "at": Filter,
}
_NO_PAST: Final = (NOT_FOUND, UNAVAILABLE)
_OF_REPLAY: Final = ("text", "since", "title")
_FLAGS: Final = {"draining": bool | None}


def _of_page(kind: str) -> dict[str, Any]:
    return {name: of for name, of in _OF_PAGE.items() if name != "at" or kind in subjects.PAST_QUERIES}


class Welcome(NamedTuple):
    """The address that a first RM connects to. `nats`: URL of a server; `keys`: whether the servers ask for a key."""

    nats: str
    keys: bool

    @classmethod
    def of(cls, nats_urls: str, keys: bool) -> Welcome:
        """`nats_urls`: separated by commas; what they say of users and passwords is not shown."""
        parts = urlsplit(nats_urls.split(",")[0].strip())
        return cls(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), keys)


NO_ADDRESS: Final = Welcome("", keys=False)


class Api:
    """`bus`: for the methods of `remuda.v1.Admin` and `Metrics`, and for ledgers; None: there are none. `prices`: of
    what ledgers hold; None: costs are not shown."""

    def __init__(
        self, source: Source, history: QueueHistory, devices: DeviceHistory, overviews: Overviews, welcome: Welcome,
        bus: Bus | None, streams: Streams, prices: Prices | None = None,
    ) -> None:  # fmt: skip
        self._prices = prices
        self._source = source
        self._history = history
        self._devices = devices
        self._overviews = overviews
        self._welcome = welcome
        self._bus = bus
        self._streams = streams

    def add_to(self, app: FastAPI) -> None:
        router = APIRouter(prefix=PREFIX, tags=["api/v1"])
        kinds = list(LISTS)
        routes: tuple[tuple[str, Rows, str, schemas.Schema, tuple[str, ...]], ...] = (
            ("/rms", self.rms, "The registered RMs", schemas.answers(schemas.RMS), ()),
            ("/overview", self.overview, "All RMs at a glance: use, waits, what needs attention, latest changes",
             schemas.answers(schemas.OVERVIEW), ()),
            ("/welcome", self.welcome, "Where a resource manager connects to", schemas.answers(schemas.WELCOME), ()),
            ("/me", self.me, "The operator in whose name requests act", schemas.answers(schemas.ME), ()),
            ("/rms/{rm}/stats", self.stats, "Totals of an RM, and its registration", schemas.answers(schemas.STATS),
             ("at",)),
            ("/rms/{rm}/past", self.past, "Of which times the past can be shown, with `at`",
             schemas.answers(schemas.PAST), ()),
            ("/rms/{rm}/replays", self.replays, "Replays that are kept: what would have been, the newest first",
             schemas.answers(schemas.REPLAYS), ()),
            ("/rms/{rm}/replays/{id}", self.replay, "The report of a replay", schemas.answers(schemas.REPLAY), ()),
            ("/rms/{rm}/queue-history", self.queue_history, "What a queue used, wanted and might use in the last day",
             schemas.answers(schemas.QUEUE_HISTORY), ("queue", "partition")),
            ("/rms/{rm}/device-history", self.device_history, "What was free on devices, and what useless, in a day",
             schemas.answers(schemas.DEVICE_HISTORY), ("partition",)),
            *(
                (f"/rms/{{rm}}/{kind}", self._rows_of(kind), f"A page of the query {kind}",
                 schemas.answers(schemas.of_rows(kind)), (*FILTERS[kind], *_of_page(kind)))
                for kind in kinds
            ),
            *(
                (f"/rms/{{rm}}/watch/{kind}", self._watch_of(kind), f"Server-sent events: {kind} whenever they change",
                 schemas.streamed(), ())
                for kind in kinds
            ),
            ("/events", self.events, "Server-sent events: event records as they come", schemas.streamed(), ("count",)),
        )  # fmt: skip
        for path, handler, summary, extra, parameters in routes:
            router.add_api_route(
                path, handler, methods=["GET"], summary=summary, response_class=Response, name=path,
                openapi_extra={"responses": extra}, dependencies=only(parameters),
            )  # fmt: skip
        router.add_api_route(
            "/rms/{rm}/replays", self.begin_replay, methods=["POST"], response_class=Response, name="/rms/{rm}/replays",
            summary="Play the past again with another configuration; the report is kept", operation_id="BeginReplay",
            openapi_extra=schemas.of_replay(), dependencies=only(()),
        )  # fmt: skip
        if self._bus is not None:
            add_methods(router, self._bus, self._streams)
            add_peloton(router, self._bus)
            add_ledger(router, self._bus, self._source, self._prices)
        app.include_router(router)
        app.add_exception_handler(Problem, _problem)
        app.add_exception_handler(RequestValidationError, _invalid)

    async def rms(self, request: Request) -> Response:
        return tagged(request, {"rms": list(self._source.rms())})

    async def overview(self, request: Request) -> Response:
        found = await self._overviews.read(source_for(request, self._source), time.time_ns() // 1_000_000)
        return tagged(request, found)

    async def stats(self, request: Request, rm: str, at: Filter = None) -> Response:
        return tagged(request, await self._asked(request, rm, "stats", **({} if at is None else {"at": at})))

    async def past(self, request: Request, rm: str) -> Response:
        """Zeros: there is no archive of it, or no service that answers from one."""
        try:
            found = await self._of_past(request, rm, subjects.PAST_SPAN)
        except (Problem, Unreadable) as error:
            if isinstance(error, Unreadable) and error.code not in _NO_PAST:
                raise
            found = {"rm": rm, "since_ms": 0, "until_ms": 0, "first_seq": 0, "last_seq": 0}
        return tagged(request, found)

    async def replays(self, request: Request, rm: str) -> Response:
        return tagged(request, await self._of_past(request, rm, subjects.PAST_REPLAYS))

    async def replay(self, request: Request, rm: str, id: Annotated[str, Path(max_length=64)]) -> Response:  # noqa: A002
        return tagged(request, await self._of_past(request, rm, subjects.PAST_REPORT, id=id))

    async def begin_replay(self, request: Request, rm: str) -> Response:
        given = await fields_of(request, has_text=True)
        for name, value in given.items():
            if name not in _OF_REPLAY:
                raise problems.refused(Refused(unknown_field(name, value, _OF_REPLAY)))
        answer = await self._of_past(request, rm, subjects.PAST_REPLAY, **given)
        return Response(json.dumps(answer), media_type="application/json", headers={"Cache-Control": "no-store"})

    async def _of_past(self, request: Request, rm: str, kind: str, **asked: Any) -> Row:
        if not RM_ID.matches(rm):
            raise Problem(404, f"rm={rm[:64]!r}: expected {RM_ID.expected}")
        return await source_for(request, self._source).past(rm, kind, **asked)

    async def queue_history(
        self, request: Request, rm: str,
        queue: Annotated[str, Query(max_length=limits.FILTER_CHARACTERS)],
        partition: Annotated[str, Query(max_length=limits.FILTER_CHARACTERS)] = "default",
    ) -> Response:  # fmt: skip
        self._known(rm)
        partition, queue = partition.strip().lower(), queue.lower()  # their names have no case
        is_seen = await sees_queue(request, self._source, rm, partition, queue)
        return tagged(request, (self._history if is_seen else QueueHistory()).of(rm, partition, queue))

    async def device_history(
        self, request: Request, rm: str,
        partition: Annotated[str, Query(max_length=limits.FILTER_CHARACTERS)] = "default",
    ) -> Response:  # fmt: skip
        """Sums of nodes, which everybody sees."""
        self._known(rm)
        return tagged(request, self._devices.of(rm, partition.strip().lower()))

    async def welcome(self, request: Request) -> Response:
        return tagged(request, self._welcome._asdict())

    async def me(self, request: Request) -> Response:
        caller = caller_of(request)
        operator = caller.operator
        return tagged(
            request,
            {
                "operator": None if operator is None else operator.name,
                "groups": [] if operator is None else list(operator.groups),
                "reads_all": caller.reads_all,
            },
        )

    def _rows_of(self, kind: str) -> Rows:
        async def rows(request: Request, rm: str, **given: Any) -> Response:
            asked = {name: one for name, one in given.items() if one is not None}
            if "after" in asked:
                asked["after"] = pages.after_of(asked["after"])
            return await self._page(request, rm, kind, asked)

        parameters = {**{name: _FLAGS.get(name, Filter) for name in FILTERS[kind]}, **_of_page(kind)}
        rows.__signature__ = Signature(  # type: ignore[attr-defined]  # FastAPI reads the parameters from it
            [Parameter(name, Parameter.KEYWORD_ONLY, annotation=of) for name, of in (("request", Request), ("rm", str))]
            + [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=of) for name, of in parameters.items()]
        )
        return rows

    async def _page(self, request: Request, rm: str, kind: str, asked: Row) -> Response:
        answer = tagged(request, page := pages.page(kind, await self._asked(request, rm, kind, **asked)))
        if page["next"] is not None:
            following = request.url.include_query_params(after=page["next"])
            answer.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
        return answer

    def _known(self, rm: str) -> None:
        if rm not in self._source.rms():
            raise Problem(404, f"rm={rm[:64]!r}: no such resource manager is registered")

    async def _asked(self, request: Request, rm: str, kind: str, **arguments: Any) -> Row:
        if "at" not in arguments or not RM_ID.matches(rm):  # an RM of the past may be registered no more
            self._known(rm)
        return await source_for(request, self._source).page(rm, kind, **arguments)

    def _watch_of(self, kind: str) -> Rows:
        async def watch(request: Request, rm: str) -> Response:
            await self._asked(request, rm, "stats")
            return self._streams.answer(self._changes(request, rm, kind), sender_of(request))

        return watch

    async def _changes(self, request: Request, rm: str, kind: str) -> AsyncGenerator[bytes]:
        """The first page whenever the state has changed."""
        shown = ""
        while True:
            try:
                page = pages.page(kind, await source_for(request, self._source).page(rm, kind))
            except Unreadable as error:
                yield event("problem", {"detail": str(error)})
            else:
                rows = json.dumps(page["rows"])
                if rows != shown:
                    shown = rows
                    yield event(kind, page)
            await asyncio.sleep(limits.WATCH_EVERY_S)

    async def events(self, request: Request, count: Annotated[int, Query(ge=0, le=1_000)] = 0) -> Response:
        return self._streams.answer(self._records(source_for(request, self._source), count), sender_of(request))

    async def _records(self, source: Source, count: int) -> AsyncGenerator[bytes]:
        async with aclosing(source.new_events(count)) as groups:
            async for group in groups:
                yield group.encoded(_told)


def _told(one: Event) -> bytes:
    return event("event", {**record(one.record), "rmID": one.rm})


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problems.answer(error.status, error.detail, error.more)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = problems.problem_of(error.errors())
    return problems.answer(found.status, found.detail, found.more)
