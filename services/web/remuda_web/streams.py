"""Answers without end: of which a bounded number is open, and which end with the identity of their sender."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from remuda_bus.status_codes import UNAVAILABLE
from remuda_web import limits
from remuda_web.callers import Sender
from remuda_web.problems import Problem
from remuda_web.source import Unreadable

# Its own encoding keeps the compression away from a stream.
HEADERS: Final = {"Cache-Control": "no-store", "Content-Encoding": "identity", "X-Accel-Buffering": "no"}


def event(name: str, data: object, position: int | None = None) -> bytes:
    """`position`: where a client that comes again resumes (`Last-Event-ID`)."""
    told = "" if position is None else f"id: {position}\n"
    return f"{told}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Streams:
    """The streams of this process, under `/api/v1` and `/ws/v1`."""

    def __init__(self) -> None:
        self._open = 0

    def answer(self, events: AsyncGenerator[bytes], sender: Sender | None) -> Response:
        """Server-sent events. The last one is a problem, where the sender or the source of the events is gone. Sending
        it raises Problem when there are too many streams."""
        most = limits.STREAMS_AT_ONCE
        full = Problem(UNAVAILABLE, f"{most} streams are open, expected at most {most}")
        return _Stream(self, _with_problems(events, sender), full, HEADERS, "text/event-stream")

    def plain(
        self, parts: AsyncGenerator[bytes], sender: Sender | None, full: Exception, headers: Mapping[str, str]
    ) -> Response:
        """A response that just ends when the sender or the source of the parts is gone. Sending it raises `full` when
        there are too many streams."""
        return _Stream(self, _until_gone(parts, sender), full, headers)

    @contextmanager
    def counted(self, full: Exception) -> Iterator[None]:
        """Another stream is open. Raises `full` when there are too many. They are counted where they are checked: of
        requests that come together, not all find the last place."""
        if self._open >= limits.STREAMS_AT_ONCE:
            raise full
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class _Stream(StreamingResponse):
    """Counts as open while it is sent."""

    def __init__(
        self, streams: Streams, parts: AsyncGenerator[bytes], full: Exception, headers: Mapping[str, str],
        media_type: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parts, media_type=media_type, headers=headers)
        self._streams = streams
        self._parts = parts
        self._full = full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.counted(self._full):
            async with aclosing(self._parts):
                await super().__call__(scope, receive, send)


async def _until_gone(parts: AsyncGenerator[bytes], sender: Sender | None) -> AsyncGenerator[bytes]:
    with suppress(Problem, Unreadable):
        async with aclosing(_while_known(parts, sender)) as known:
            async for one in known:
                yield one


async def _with_problems(events: AsyncGenerator[bytes], sender: Sender | None) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(_while_known(events, sender)) as known:
            async for one in known:
                yield one
    except Problem as problem:
        yield event("problem", {"status": problem.status, "detail": problem.detail, **problem.more})
    except Unreadable as error:
        yield event("problem", {"status": error.code, "detail": str(error)})


async def _while_known(parts: AsyncGenerator[bytes], sender: Sender | None) -> AsyncGenerator[bytes]:
    """Raises Problem when the sender is not known any more."""
    loop = asyncio.get_running_loop()
    async with aclosing(parts):
        if sender is None:
            async for one in parts:
                yield one
            return
        coming: asyncio.Task[bytes] | None = None
        ask_at = loop.time() + limits.SENDER_EVERY_S
        try:
            while True:
                coming = coming or asyncio.create_task(_next(parts))
                await asyncio.wait([coming], timeout=max(0.0, ask_at - loop.time()))
                if loop.time() >= ask_at:
                    await _ask(sender)
                    ask_at = loop.time() + limits.SENDER_EVERY_S
                if coming.done():
                    try:
                        part = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = None
                    yield part
        finally:
            while coming is not None and not coming.done():  # nobody may read the parts while they are closed
                coming.cancel()
                with suppress(asyncio.CancelledError):  # of the request, which is cancelled again and again
                    await asyncio.wait([coming])


async def _next(parts: AsyncGenerator[bytes]) -> bytes:
    return await anext(parts)


async def _ask(sender: Sender) -> None:
    try:
        await sender()
    except Problem as problem:
        if problem.status < UNAVAILABLE:  # else the provider does not answer, perhaps only for a while
            raise
