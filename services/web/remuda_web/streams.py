"""Answers without end: of which a bounded number is open."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse

from remuda_web import limits
from remuda_web.problems import Problem

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

    def answer(self, events: AsyncGenerator[bytes]) -> Response:
        """Raises Problem when there are too many."""
        if self.are_full:
            raise Problem(503, f"{self._open} streams are open, expected at most {limits.STREAMS_AT_ONCE}")
        return StreamingResponse(self.counted(events), media_type="text/event-stream", headers=HEADERS)

    async def counted(self, parts: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        """The parts of a stream, which is open while they are read."""
        self._open += 1
        try:
            async with aclosing(parts):
                async for one in parts:
                    yield one
        finally:
            self._open -= 1
