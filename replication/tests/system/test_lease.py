"""A lease has one holder at a time, and a dead holder is replaced soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import connect
from remuda_replication.lease import HOLDER_CHECK_INTERVAL_S, Lease

TTL_S = 1.5
LEASES = replace(subjects.LEASES, ttl_s=TTL_S)


@pytest.fixture(autouse=True)
def leases_that_soon_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "BUCKETS", (LEASES,))


def lease(bus: Bus, holder: str) -> Lease:
    return Lease(bus, "a", holder, LEASES)


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus(buckets=(LEASES,))
        return
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        yield bus
        await bus.close()


async def test_a_renewed_lease_is_kept(bus: Bus) -> None:
    first, second = lease(bus, "one"), lease(bus, "two")
    await first.acquire()
    waiting = asyncio.ensure_future(second.acquire())
    await asyncio.sleep(1.5 * TTL_S)
    assert first.held
    assert not waiting.done()
    released = time.monotonic()
    await first.release()
    await asyncio.wait_for(waiting, 1)
    assert time.monotonic() - released < 2 * HOLDER_CHECK_INTERVAL_S + 0.25
    assert second.epoch > first.epoch
    await asyncio.wait_for(first.lost(), 1)
    await second.release()
    assert await bus.get(subjects.LEASES.name, "a") is None


async def test_a_dead_holder_is_replaced_at_the_expiry(bus: Bus) -> None:
    dead, heir = lease(bus, "one"), lease(bus, "two")
    await dead.acquire()
    await dead._stop()
    died = time.monotonic()
    await asyncio.wait_for(heir.acquire(), 3 * TTL_S)
    assert TTL_S / 2 < time.monotonic() - died < 1.5 * TTL_S + 0.5
    await heir.release()


async def test_a_dead_holder_that_had_answered_is_replaced_at_once(bus: Bus) -> None:
    dead, heir = lease(bus, "one"), lease(bus, "two")
    await dead.acquire()
    waiting = asyncio.ensure_future(heir.acquire())
    await asyncio.sleep(2 * HOLDER_CHECK_INTERVAL_S)
    assert not waiting.done()
    died = time.monotonic()
    await dead._stop()
    await asyncio.wait_for(waiting, TTL_S / 2)
    assert time.monotonic() - died < TTL_S / 2
    await heir.release()


async def test_a_restarted_process_replaces_its_former_self_at_once(bus: Bus) -> None:
    dead, again = lease(bus, "one"), lease(bus, "one")
    await dead.acquire()
    await dead._stop()
    await asyncio.wait_for(again.acquire(), TTL_S / 2)
    await again.release()


async def test_a_live_process_of_the_same_name_is_not_replaced(bus: Bus) -> None:
    one, namesake = lease(bus, "one"), lease(bus, "one")
    await one.acquire()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(namesake.acquire(), TTL_S)
    assert one.held
    await one.release()


async def test_the_entry_of_a_dead_holder_is_taken_over_at_once(bus: Bus) -> None:
    dead, heir, late = lease(bus, "one"), lease(bus, "two"), lease(bus, "three")
    assert await dead.try_acquire()
    assert not await heir.try_acquire()
    entry = await bus.get(subjects.LEASES.name, "a")
    assert entry is not None
    assert await heir.try_acquire(entry.revision)
    assert not await late.try_acquire(entry.revision), "of two who find out, one gets it"
    assert heir.epoch > dead.epoch
    await asyncio.wait_for(dead.lost(), TTL_S)
    assert heir.held
    await dead.release()
    await heir.release()


async def test_a_lease_that_another_process_takes_is_lost(bus: Bus) -> None:
    one = lease(bus, "one")
    await one.acquire()
    await bus.put(subjects.LEASES.name, "a", b"usurper")
    await asyncio.wait_for(one.lost(), TTL_S)
    assert not one.held
    await one.release()
    entry = await bus.get(subjects.LEASES.name, "a")
    assert entry is not None
    assert entry.value == b"usurper"


async def test_a_lease_that_cannot_be_renewed_is_lost(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        one = lease(bus, "one")
        await one.acquire()
        await server.stop()
        await asyncio.wait_for(one.lost(), 2 * TTL_S)
        await server.start()
        await one.acquire()
        await one.release()
        await bus.close()


async def test_a_lease_survives_a_short_outage(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        one = lease(bus, "one")
        await one.acquire()
        await server.restart()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one.lost(), 1.5 * TTL_S)
        await one.release()
        await bus.close()


def test_a_bucket_without_expiry_is_refused() -> None:
    with pytest.raises(ValueError, match="ttl_s is 0"):
        Lease(MemoryBus(), "a", "one", subjects.RMS)
