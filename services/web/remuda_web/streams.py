"""Answers without end: server-sent events, of which a bounded number is open."""

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
    """The streams of this process."""

    def __init__(self) -> None:
        self.open = 0

    def answer(self, events: AsyncGenerator[bytes]) -> Response:
        """Raises Problem when there are too many."""
        if self.open >= limits.STREAMS_AT_ONCE:
            raise Problem(503, f"{self.open} streams are open, expected at most {limits.STREAMS_AT_ONCE}")
        return StreamingResponse(self._counted(events), media_type="text/event-stream", headers=HEADERS)

    async def _counted(self, events: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            async with aclosing(events):
                async for one in events:
                    yield one
        finally:
            self.open -= 1
