"""Streams: their bound, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.responses import StreamingResponse

from remuda_bus.operators import Operator
from remuda_web import limits
from remuda_web.problems import Problem
from remuda_web.source import Unreadable
from remuda_web.streams import Streams


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield b""


async def test_streams_of_all_paths_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_AT_ONCE", 2)
    streams = Streams()
    one, other = streams.counted(endless(), None), streams.counted(endless(), None)
    await anext(one)
    assert not streams.are_full
    await anext(other)
    assert streams.are_full
    with pytest.raises(Problem, match="expected at most 2"):
        streams.answer(endless(), None)
    await other.aclose()
    assert not streams.are_full


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
    response = Streams().answer(events, sender)
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
    one, sender = Streams(), Sender(1)
    assert [part async for part in one.counted(slow(closed), sender)] == [b"one"]
    assert (one.are_full, sender.times) == (False, -1)


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
    assert [part async for part in Streams().counted(gone(), None)] == [b"one"]


async def test_a_reader_that_goes_away_closes_the_parts() -> None:
    closed: list[bool] = []
    parts = Streams().counted(slow(closed), Sender(9))
    assert await anext(parts) == b"one"
    waiting = asyncio.create_task(asyncio.wait_for(anext(parts), 10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert closed == [True]
