"""One holder at a time, and the next one soon after it is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.lease import Lease
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import connect

TTL_S = subjects.LEASES.ttl_s


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus()
        return
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        yield bus
        await bus.close()


async def test_it_is_kept_as_long_as_it_is_renewed(bus: Bus) -> None:
    first, second = Lease(bus, "a", "one"), Lease(bus, "a", "two")
    await first.acquire()
    waiting = asyncio.ensure_future(second.acquire())
    await asyncio.sleep(1.5 * TTL_S)
    assert first.held
    assert not waiting.done()
    released = time.monotonic()
    await first.release()
    await asyncio.wait_for(waiting, 1)
    assert time.monotonic() - released < 0.5
    assert second.epoch > first.epoch
    await asyncio.wait_for(first.lost(), 1)
    await second.release()
    assert await bus.get(subjects.LEASES.name, "a") is None


async def test_a_holder_that_died_is_followed(bus: Bus) -> None:
    dead = Lease(bus, "a", "one")
    await dead.acquire()
    await dead._stop()
    died = time.monotonic()
    heir = Lease(bus, "a", "two")
    await asyncio.wait_for(heir.acquire(), 3 * TTL_S)
    assert time.monotonic() - died < 1.5 * TTL_S + 0.5
    await heir.release()


async def test_the_entry_of_a_holder_that_is_gone_is_taken_over_at_once(bus: Bus) -> None:
    dead, heir, late = Lease(bus, "a", "one"), Lease(bus, "a", "two"), Lease(bus, "a", "three")
    assert await dead.take()
    assert not await heir.take()
    entry = await bus.get(subjects.LEASES.name, "a")
    assert entry is not None
    assert await heir.take(entry.revision)
    assert not await late.take(entry.revision), "of two who find out, one gets it"
    assert heir.epoch > dead.epoch
    await asyncio.wait_for(dead.lost(), TTL_S)
    assert heir.held
    await dead.release()
    await heir.release()


async def test_it_is_lost_when_another_takes_it(bus: Bus) -> None:
    lease = Lease(bus, "a", "one")
    await lease.acquire()
    await bus.put(subjects.LEASES.name, "a", b"usurper")
    await asyncio.wait_for(lease.lost(), TTL_S)
    assert not lease.held
    await lease.release()
    entry = await bus.get(subjects.LEASES.name, "a")
    assert entry is not None
    assert entry.value == b"usurper"


async def test_it_is_lost_when_it_cannot_be_renewed(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        lease = Lease(bus, "a", "one")
        await lease.acquire()
        await server.stop()
        await asyncio.wait_for(lease.lost(), 2 * TTL_S)
        await server.start()
        await lease.acquire()
        await lease.release()
        await bus.close()


async def test_a_short_outage_does_not_cost_it(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        lease = Lease(bus, "a", "one")
        await lease.acquire()
        await server.restart()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lease.lost(), 1.5 * TTL_S)
        await lease.release()
        await bus.close()


def test_a_bucket_that_keeps_its_entries_is_no_good() -> None:
    with pytest.raises(ValueError, match="ttl_s is 0"):
        Lease(MemoryBus(), "a", "one", subjects.RMS)
