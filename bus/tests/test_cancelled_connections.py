"""Cancellations that nats-py swallows or spreads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from remuda.embedded import NatsServer
from remuda_bus.bus import Unanswered
from remuda_bus.nats import connect
from remuda_bus.nats.patched_client import heeded


async def test_a_cancellation_swallowed_by_nats_py_is_raised() -> None:
    there = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await heeded(asyncio.wait_for(there, 5))
        await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    there.set_result(None)
    task.cancel()
    await asyncio.wait([task], timeout=1)
    assert task.cancelled()


@pytest.mark.parametrize("step", [(TcpTransport, "connect"), (Client, "_process_connect_init")])
async def test_connect_keeps_its_timeout(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    """Even when nats-py swallows the cancellation and retries without end."""

    async def swallows(*_: Any, **__: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("refused") from None

    monkeypatch.setattr(*step, swallows)
    async with asyncio.timeout(5):
        with pytest.raises(Unanswered):
            await connect(server.url, "test", timeout_s=0.2)


async def test_closing_ends_although_a_cancelled_reconnection_waited_for_the_same_socket(server: NatsServer) -> None:
    other = await connect(server.url, "other", timeout_s=5)
    client = other._connection.client
    assert client._transport is not None
    waiting = asyncio.create_task(client._transport.wait_closed())
    await asyncio.sleep(0)
    waiting.cancel()
    await other.close()
    assert client.is_closed and not client._subs
