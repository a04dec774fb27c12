"""Streams: their bound, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from remuda_bus.memory import MemoryBus
from remuda_operations.operators import Operator
from remuda_web import limits
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.problems import Problem
from remuda_web.source import Unreadable
from remuda_web.streams import Streams


class Reader:
    """A client that reads a stream until it goes away. `status`: None until it is answered."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.status: int | None = None
        self.answered = asyncio.Event()
        server, sent = ("web", 80), {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope = {
            **sent, "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [], "server": server, "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        self._task: asyncio.Task[None] = asyncio.create_task(app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> Any:
        return await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answered.set()

    async def go(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@pytest.mark.parametrize("path", ["/api/v1/events", "/ws/v1/events/stream"])
async def test_streams_of_all_paths_count_together(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Also those that are asked for in the same moment."""
    monkeypatch.setattr(limits, "STREAMS_AT_ONCE", 2)
    bus = MemoryBus()
    app = Application(BusSource(bus), "1", 0, "info", bus)
    readers = [Reader(app, one) for one in ("/api/v1/events", path, "/ws/v1/events/stream", path)]
    async with asyncio.timeout(10):
        for one in readers:
            await one.answered.wait()
    assert sorted(one.status or 0 for one in readers) == [200, 200, 503, 503]
    for one in readers:
        await one.go()
    again = Reader(app, path)
    async with asyncio.timeout(10):
        await again.answered.wait()
    assert again.status == 200, "those that have gone do not count"
    await again.go()


class Sender:
    """Known for a number of questions; then `refusal`."""

    def __init__(self, times: int, refusal: int = 401) -> None:
        self.times = times
        self.refusal = refusal

    async def __call__(self) -> Operator:
        self.times -= 1
        if self.times < 0:
            raise Problem(self.refusal, "the session is over")
        return Operator("alice")


async def slow(closed: list[bool]) -> AsyncGenerator[bytes]:
    try:
        yield b"one"
        await asyncio.Event().wait()
    finally:
        closed.append(True)


async def read(events: AsyncGenerator[bytes], sender: Sender | None) -> list[bytes]:
    return await parts_of(Streams().answer(events, sender))


async def lines(parts: AsyncGenerator[bytes], sender: Sender | None) -> list[bytes]:
    return await parts_of(Streams().plain(parts, sender, Problem(503, "full"), {}))


async def parts_of(response: Response) -> list[bytes]:
    assert isinstance(response, StreamingResponse)
    async with asyncio.timeout(10):
        return [bytes(part) async for part in response.body_iterator]  # type: ignore[arg-type]


async def test_a_stream_ends_with_the_identity_of_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one in which nothing happens."""
    monkeypatch.setattr(limits, "SENDER_EVERY_S", 0.001)
    closed: list[bool] = []
    *before, last = await read(slow(closed), Sender(3))
    assert (before, closed) == ([b"one"], [True])
    assert last.startswith(b"event: problem") and b"401" in last and b"the session is over" in last
    sender = Sender(1)
    assert await lines(slow(closed), sender) == [b"one"]
    assert sender.times == -1


async def test_a_stream_outlives_a_provider_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SENDER_EVERY_S", 0.0)
    sender = Sender(0, refusal=503)

    async def some() -> AsyncGenerator[bytes]:
        for number in range(5):
            yield bytes([number])

    assert len(await read(some(), sender)) == 5
    assert sender.times < -1


async def test_a_source_that_is_gone_is_a_last_event() -> None:
    async def gone() -> AsyncGenerator[bytes]:
        yield b"one"
        raise Unreadable("no bus")

    for sender in (None, Sender(1)):
        assert await read(gone(), sender) == [b"one", b'event: problem\ndata: {"status": 503, "detail": "no bus"}\n\n']
    assert await lines(gone(), None) == [b"one"]


async def test_a_reader_that_goes_away_closes_the_parts() -> None:
    closed: list[bool] = []
    response = Streams().plain(slow(closed), Sender(9), Problem(503, "full"), {})
    assert isinstance(response, StreamingResponse)
    parts: Any = response.body_iterator
    assert await anext(parts) == b"one"
    waiting = asyncio.create_task(asyncio.wait_for(anext(parts), 10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert closed == [True]
