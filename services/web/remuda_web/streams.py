"""Answers without end: of which a bounded number is open, and which end with the identity of their sender."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Final

from starlette.responses import Response, StreamingResponse

from remuda_bus.queries.status_codes import UNAVAILABLE
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

    @property
    def are_full(self) -> bool:
        return self._open >= limits.STREAMS_AT_ONCE

    def answer(self, events: AsyncGenerator[bytes], sender: Sender | None) -> Response:
        """Server-sent events. The last one is a problem, where the sender or the source of the events is gone. Raises
        Problem when there are too many streams."""
        if self.are_full:
            raise Problem(503, f"{self._open} streams are open, expected at most {limits.STREAMS_AT_ONCE}")
        told = self.counted(_with_problems(events, sender), None)
        return StreamingResponse(told, media_type="text/event-stream", headers=HEADERS)

    async def counted(self, parts: AsyncGenerator[bytes], sender: Sender | None) -> AsyncIterator[bytes]:
        """The parts of a stream, which is open while they are read. It just ends when the sender or the source of the
        parts is gone."""
        self._open += 1
        try:
            with suppress(Problem, Unreadable):
                async with aclosing(_while_known(parts, sender)) as known:
                    async for one in known:
                        yield one
        finally:
            self._open -= 1


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
