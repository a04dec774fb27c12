"""Behaviour of a cluster with an account for each RM: a server does not know the subscriptions at other servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Outgoing
from remuda_bus.nats import NatsBus
from remuda_bus.streams.ordered_append import append_in_order
from tests.system.guarded import GuardedCluster
from tests.system.running import until

RM = "rm-1"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[GuardedCluster]:
    async with GuardedCluster(tmp_path) as running:
        await (await running.declared()).close()
        yield running


async def test_callbacks_go_on_at_once_when_a_connection_moves(cluster: GuardedCluster) -> None:
    """A server that is replaced sends its clients elsewhere. Their open pull requests are answered, without a receiver,
    by the server that leads the consumer."""
    durable, metadata = subjects.callback_consumer(RM), {"number": "1"}
    proxy = await cluster.connect("remuda-rmproxy", "rmproxy")
    await proxy.create_consumer(subjects.CALLBACKS.name, subjects.callback(RM, "*"), durable, 0, metadata)
    leads = await proxy._jetstream.api(f"CONSUMER.INFO.{subjects.CALLBACKS.name}.{durable}")
    rm = await cluster.connect(durable, RM, but=leads["cluster"]["leader"])
    consumer = await rm.join_consumer(subjects.CALLBACKS.name, durable, metadata)
    told = count()

    async def tell() -> None:
        while True:
            number = next(told)
            message = Outgoing(subjects.callback(RM, "node"), b"%d" % number, {subjects.MSG_ID: f"{number}"})
            await append_in_order(proxy, [message], 10.0)
            await asyncio.sleep(0.002)

    telling = asyncio.get_running_loop().create_task(tell())
    heard, loop = 0, asyncio.get_running_loop()
    for _ in range(2):
        moved_at = loop.time()
        await moved(rm)
        longest_s = 0.0
        while loop.time() < moved_at + 3.0:
            waited_since = loop.time()
            messages = await consumer.batch(timeout_s=10)
            longest_s = max(longest_s, loop.time() - waited_since)
            # Messages acknowledged while the connection broke may be repeated, before all others.
            new = [number for message in messages if (number := int(message.payload)) >= heard]
            assert new == list(range(heard, heard + len(new)))
            heard += len(new)
            await consumer.ack(messages)
        assert longest_s < 2.5
    telling.cancel()
    await consumer.close()
    for bus in (rm, proxy):
        await bus.close()


async def moved(bus: NatsBus) -> None:
    """It is connected to another server: chosen by chance, so it may take several times."""
    client = bus._connection.client
    before = client.connected_url
    while client.connected_url in (before, None):
        count = bus._connection.count
        if client._transport is not None:
            client._transport.close()

        async def again(count: int = count) -> bool:
            return bus._connection.count > count

        await until(again)
