"""The routes of `/api/v1`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response, StreamingResponse

from remuda_web import limits, problems
from remuda_web.api_v1 import pages
from remuda_web.bodies import TooLarge, body_of
from remuda_web.problems import Problem
from remuda_web.source import Row, Source, Unreadable
from remuda_web.ws_v1.events import record

PREFIX: Final = "/api/v1"
Kind = Literal["queues", "nodes", "applications", "rejections", "allocations", "asks", "usage", "explain"]
Filter = Annotated[str | None, Query(max_length=limits.FILTER_CHARACTERS)]
# Its own encoding keeps the compression away from a stream.
STREAM: Final = {"Cache-Control": "no-store", "Content-Encoding": "identity", "X-Accel-Buffering": "no"}


def tagged(request: Request, found: object) -> Response:
    """JSON with an entity tag; 304 if the client has it."""
    body = json.dumps(found, ensure_ascii=False).encode(errors="surrogatepass")
    headers = {"ETag": pages.entity_tag(body), "Cache-Control": "no-cache"}
    if pages.matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


class Api:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._streams = 0

    def add_to(self, app: FastAPI) -> None:
        router = APIRouter(prefix=PREFIX, tags=["api/v1"])
        for path, handler, summary in (
            ("/rms", self.rms, "The registered RMs"),
            ("/rms/{rm}/stats", self.stats, "Totals of an RM, and its registration"),
            ("/rms/{rm}/watch/{kind}", self.watch, "Server-sent events: the rows of a query whenever they change"),
            ("/rms/{rm}/{kind}", self.rows, "A page of a query (docs/queries.md)"),
            ("/configuration/versions", self.versions, "Versions of the file, or of the configuration of an RM"),
            ("/configuration/versions/{number}", self.version, "A version with its text"),
            ("/events", self.events, "Server-sent events: event records as they come"),
        ):
            router.add_api_route(path, handler, methods=["GET"], summary=summary, response_class=Response)
        router.add_api_route(
            "/configuration/check", self.check, methods=["POST"], summary="Check a queues.yaml", response_class=Response
        )
        app.include_router(router)
        app.add_exception_handler(Problem, _problem)
        app.add_exception_handler(RequestValidationError, _invalid)

    async def rms(self, request: Request) -> Response:
        return tagged(request, {"rms": list(self._source.rms())})

    async def stats(self, request: Request, rm: str) -> Response:
        return tagged(request, await self._asked(rm, "stats"))

    async def rows(
        self, request: Request, rm: str, kind: Kind, application: Filter = None, queue: Filter = None,
        node: Filter = None, user: Filter = None, group: Filter = None, key: Filter = None, after: Filter = None,
        limit: Annotated[int | None, Query(ge=1, le=limits.PAGE_ROWS)] = None,
        min_log_seq: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:  # fmt: skip
        given = {
            "application": application, "queue": queue, "node": node, "user": user, "group": group, "key": key,
            "limit": limit, "min_log_seq": min_log_seq, "after": None if after is None else pages.after_of(after),
        }  # fmt: skip
        asked = {name: value for name, value in given.items() if value is not None}
        answer = tagged(request, page := pages.page(kind, await self._asked(rm, kind, **asked)))
        if page["next"] is not None:
            following = request.url.include_query_params(after=page["next"])
            answer.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
        return answer

    async def _asked(self, rm: str, kind: str, **arguments: Any) -> Row:
        if rm not in self._source.rms():
            raise Problem(404, f"rm={rm[:64]!r}: no such resource manager is registered")
        try:
            return await self._source.page(rm, kind, **arguments)
        except Unreadable as error:
            raise Problem(error.code, str(error)) from None

    async def watch(self, request: Request, rm: str, kind: Kind) -> Response:
        await self._asked(rm, "stats")
        return self._stream(self._changes(rm, kind))

    async def _changes(self, rm: str, kind: str) -> AsyncIterator[bytes]:
        """The first page whenever the state has changed."""
        shown = ""
        while True:
            try:
                page = pages.page(kind, await self._source.page(rm, kind))
            except Unreadable as error:
                yield _event("problem", json.dumps({"detail": str(error)}))
            else:
                rows = json.dumps(page["rows"])
                if rows != shown:
                    shown = rows
                    yield _event(kind, json.dumps(page))
            await asyncio.sleep(limits.WATCH_EVERY_S)

    async def events(self, count: Annotated[int, Query(ge=0, le=1_000)] = 0) -> Response:
        return self._stream(self._records(count))

    async def _records(self, count: int) -> AsyncIterator[bytes]:
        async for one in self._source.new_events(count):
            yield _event("event", json.dumps(record(one)))

    def _stream(self, events: AsyncIterator[bytes]) -> Response:
        if self._streams >= limits.STREAMS_AT_ONCE:
            raise Problem(503, f"{self._streams} streams are open, expected at most {limits.STREAMS_AT_ONCE}")
        return StreamingResponse(self._counted(events), media_type="text/event-stream", headers=STREAM)

    async def _counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            async for event in events:
                yield event
        finally:
            self._streams -= 1

    async def versions(self, request: Request, rm: Filter = None) -> Response:
        return tagged(request, await self._configuration("history", {} if rm is None else {"rm": rm}))

    async def version(self, request: Request, number: int, rm: Filter = None) -> Response:
        of = {} if rm is None else {"rm": rm}
        return tagged(request, await self._configuration("show", {**of, "version": number}))

    async def check(self, request: Request) -> Response:
        try:
            text = await body_of(request)
        except TooLarge as error:
            raise Problem(413, str(error)) from None
        return tagged(request, await self._configuration("check", {"text": text}))

    async def _configuration(self, kind: str, request: Row) -> Row:
        try:
            return await self._source.configurations(kind, request)
        except Unreadable as error:
            raise Problem(error.code, str(error)) from None


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problems.answer(error.status, error.detail)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [f"{one['loc'][-1]}={str(one.get('input'))[:64]!r}: {one['msg']}" for one in error.errors()]
    return problems.answer(400, "; ".join(found))
