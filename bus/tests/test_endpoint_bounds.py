"""Bounds of endpoints of a process."""

from __future__ import annotations

import asyncio

import pytest

from remuda.embedded import NatsServer
from remuda_bus import limits
from remuda_bus.bus import Message, Refused
from remuda_bus.nats import NatsBus, connect


async def echo(message: Message) -> bytes:
    return message.payload


async def test_an_endpoint_with_a_bound_of_its_own_takes_no_places_of_others(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUESTS_AT_ONCE", 2)
    go_on, all_are_there = asyncio.Event(), asyncio.Barrier(4)

    async def slow(message: Message) -> bytes:
        await all_are_there.wait()
        await go_on.wait()
        return b"answered"

    await bus.serve("si.v1.rm.slow.predicates", slow, "predicates", at_once=3)
    await bus.serve("remuda.api.other", echo, "other")
    waiting = [asyncio.ensure_future(bus.request("si.v1.rm.slow.predicates")) for _ in range(3)]
    await asyncio.wait_for(all_are_there.wait(), 5)
    with pytest.raises(Refused, match="3 requests are being answered, try again"):
        await bus.request("si.v1.rm.slow.predicates")
    assert (await bus.request("remuda.api.other", b"x")).payload == b"x"
    go_on.set()
    assert [message.payload for message in await asyncio.gather(*waiting)] == [b"answered"] * 3


async def test_a_busy_process_leaves_questions_of_others_alone(
    server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process gets them all, and the first answer counts."""
    monkeypatch.setattr(limits, "REQUESTS_AT_ONCE", 2)
    go_on, both_are_there = asyncio.Event(), asyncio.Barrier(3)

    async def slow(message: Message) -> bytes:
        await both_are_there.wait()
        await go_on.wait()
        return b"busy"

    busy = await connect(server.url, "busy", timeout_s=5)
    await busy.serve("remuda.api.test.*", slow, "test", lambda: True, mine=lambda subject: subject.endswith(".busy"))
    await bus.serve("remuda.api.test.*", echo, "test", lambda: True, mine=lambda subject: subject.endswith(".idle"))
    waiting = [asyncio.ensure_future(bus.request("remuda.api.test.busy")) for _ in range(2)]
    await asyncio.wait_for(both_are_there.wait(), 5)
    with pytest.raises(Refused, match="2 requests are being answered, try again"):
        await bus.request("remuda.api.test.busy")
    for _ in range(20):
        assert (await bus.request("remuda.api.test.idle", b"x")).payload == b"x"
    go_on.set()
    assert [message.payload for message in await asyncio.gather(*waiting)] == [b"busy"] * 2
    await busy.close()
