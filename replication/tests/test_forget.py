"""Forgetting deletes everything of one RM and nothing of others, wherever the process that forgets it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Unanswered
from remuda_bus.memory import MemoryBus
from remuda_replication.lease import Lease, Ownership
from remuda_replication.rms.forget import FORGETTING, Busy, first_life, forget, kept_in_buckets, kept_in_streams
from tests.failing_bus import FailingBus

RM, OTHERS = "rm:1", ("rm:10", "rm", "other")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.rms.forget.HALT_SETTLE_S", 0.0)


async def fill(bus: MemoryBus, rm_id: str) -> None:
    """One of everything."""
    for stream, subject in kept_in_streams(rm_id):
        await bus.append(subject, stream.encode())
    for bucket, key in kept_in_buckets(rm_id):
        if bucket != subjects.HALTS.name:
            await bus.put(bucket, key, json.dumps({"rm_id": rm_id, "state": "deregistered"}).encode())
    await bus.create_consumer(subjects.CALLBACKS.name, "x", subjects.callback_consumer(rm_id), 0, {})
    await bus.create_consumer(subjects.EVENTS.name, "x", subjects.event_consumer(rm_id), 0, {})
    await bus.put_object(subjects.SNAPSHOTS.name, f"{subjects.key_of(rm_id)}.7", parts())


async def parts() -> AsyncIterator[bytes]:
    yield b"a state"


async def kept(bus: MemoryBus, rm_id: str) -> set[str]:
    streams = {subject for stream, subject in kept_in_streams(rm_id) if await bus.last_message(stream, subject)}
    buckets = {bucket for bucket, key in kept_in_buckets(rm_id) if await bus.get(bucket, key)}
    consumers = {
        durable
        for stream, durable in (
            (subjects.CALLBACKS.name, subjects.callback_consumer(rm_id)),
            (subjects.EVENTS.name, subjects.event_consumer(rm_id)),
        )
        if await bus.consumer_state(stream, durable)
    }
    objects = {
        name for name in await bus.object_names(subjects.SNAPSHOTS.name) if name == f"{subjects.key_of(rm_id)}.7"
    }
    return streams | buckets | consumers | objects


class Died(Exception):
    """So does the process."""


@pytest.mark.parametrize("after", [False, True])
async def test_an_interrupted_call_continues_when_repeated(after: bool) -> None:
    number, failed = 0, True
    while failed:
        number += 1
        bus = MemoryBus()
        for rm_id in (RM, *OTHERS):
            await fill(bus, rm_id)
        before = [await kept(bus, rm_id) for rm_id in OTHERS]
        failing: Any = FailingBus(bus, number, Died(), after=after)
        try:
            await forget(failing, RM, "test", lambda: 7)
        except Died:
            await bus.delete(subjects.LEASES.name, subjects.forget_lease(RM))  # it expires
            left = await kept(bus, RM)
            assert subjects.RMS.name in left or left <= {subjects.HALTS.name}, f"call {number}: its record goes last"
            await forget(bus, RM, "test", lambda: 8)
        failed = failing.failed
        assert await kept(bus, RM) == set(), f"call {number}"
        assert [await kept(bus, rm_id) for rm_id in OTHERS] == before, f"call {number}"
        assert await first_life(bus) >= 7
        await bus.close()
    assert number > 30


async def test_nothing_is_deleted_while_a_core_leads_the_rm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.rms.forget.CORE_RELEASE_TIMEOUT_S", 0.02)
    monkeypatch.setattr("remuda_replication.rms.forget.CORE_RELEASE_CHECK_INTERVAL_S", 0.01)
    bus = MemoryBus()
    await fill(bus, RM)
    before = await kept(bus, RM)
    lease = Lease(bus, subjects.member("core-1"), "core-1")
    await lease.acquire()
    held = await bus.get(subjects.LEASES.name, subjects.member("core-1"))
    assert held is not None and held.value is not None
    owner = Ownership("core-1", json.loads(held.value)["token"], 0)
    await bus.put(subjects.LEADERS.name, subjects.key_of(RM), owner.encode())
    with pytest.raises(Busy):
        await forget(bus, RM, "test", lambda: 7)
    assert await kept(bus, RM) == before | {subjects.HALTS.name}
    record = await bus.get(subjects.RMS.name, subjects.key_of(RM))
    assert record is not None and json.loads(record.value or b"")["state"] == FORGETTING
    await lease.release()
    await forget(bus, RM, "test", lambda: 7)
    assert await kept(bus, RM) == set()
    await bus.close()


async def test_an_rm_that_has_registered_meanwhile_is_kept() -> None:
    bus = MemoryBus()
    await fill(bus, RM)
    before = await kept(bus, RM)
    assert not await forget(bus, RM, "test", lambda: 7, states=(FORGETTING,))
    assert await kept(bus, RM) == before
    assert await forget(bus, RM, "test", lambda: 7, states=("deregistered",))
    assert not await forget(bus, RM, "test", lambda: 7, states=("deregistered",))
    await bus.close()


async def test_only_one_process_forgets_an_rm() -> None:
    bus = MemoryBus()
    await fill(bus, RM)
    other = Lease(bus, subjects.forget_lease(RM), "other")
    assert await other.try_acquire()
    with pytest.raises(Busy, match="by another process"):
        await forget(bus, RM, "test", lambda: 7)
    await other.release()
    await bus.close()


@pytest.mark.parametrize("name", ["*", ">", "a.b", "", "x" * 65])
async def test_a_malformed_rm_id_deletes_nothing(name: str) -> None:
    bus = MemoryBus()
    await fill(bus, "other")
    before = await kept(bus, "other")
    with pytest.raises(ValueError, match="rmID"):
        await forget(bus, name, "test", lambda: 7)
    assert await kept(bus, "other") == before
    await bus.close()


async def test_an_outage_is_raised() -> None:
    class Away(MemoryBus):
        async def last_message(self, stream: str, subject: str) -> None:
            raise Unanswered("no server")

    bus = Away()
    with pytest.raises(Unanswered):
        await forget(bus, RM, "test", lambda: 7)
    await bus.close()


async def test_a_new_life_is_later_than_all_forgotten_ones() -> None:
    bus = MemoryBus()
    assert await first_life(bus) == 0
    for now_ms in (7, 7, 3):
        before = await first_life(bus)
        await forget(bus, RM, "test", lambda now_ms=now_ms: now_ms)  # type: ignore[misc]
        assert await first_life(bus) > before
    await bus.close()
