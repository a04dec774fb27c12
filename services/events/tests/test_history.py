"""The history on a real server: everything once, in order, wherever it was interrupted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, Outgoing, Refused, Unreadable
from remuda_bus.nats import NatsBus, connect
from remuda_bus.retry import RetryPolicy
from remuda_events import limits
from remuda_events.history.event_history import EventHistory
from remuda_events.shell import LagWarning, publish, serve
from remuda_replication.log import LogReader, Position

from .history_log import RM, expected, history_of, register, running, write


async def test_each_record_is_written_once_and_in_order_for_every_rm(bus: NatsBus):
    for rm_id in ("rm:1", "rm:2"):
        await register(bus, rm_id)
        await write(bus, 3, 0, 1_300, 1, rm_id=rm_id)
    async with running(publish(bus)):
        for rm_id in ("rm:1", "rm:2"):
            assert await history_of(bus, 2_608, rm_id) == await expected(bus, rm_id)
        await write(bus, 2, 5, rm_id="rm:2")
        assert await history_of(bus, 2_622, "rm:2") == await expected(bus, "rm:2")


async def test_an_rm_that_registers_later_has_a_history(bus: NatsBus):
    async with running(publish(bus)):
        await register(bus, "later")
        await write(bus, 1, rm_id="later")
        assert await history_of(bus, 2, "later") == await expected(bus, "later")


@pytest.mark.parametrize("written", [0, 1, 7, 8, 1_007, 1_008, 2_000, 2_608, 2_610])
async def test_it_goes_on_exactly_after_the_last_record(bus: NatsBus, written: int):
    await register(bus)
    await write(bus, 4, 1_300, 1)
    await interrupted_after(bus, written)
    async with running(publish(bus)):
        await write(bus, 2)
        assert await history_of(bus, 2_614) == await expected(bus)


async def interrupted_after(bus: Bus, records: int) -> None:
    lines = (await expected(bus))[:records]
    positions = await positions_of(bus)
    for seq, index, payload in lines:
        headers = {**positions[seq].headers(), subjects.EVENT_INDEX: str(index)}
        await bus.append(subjects.event(RM), payload, headers)


async def test_it_goes_on_inside_a_commit_of_several_parts(tmp_path: Path):
    async with NatsServer(tmp_path / "nats", max_payload=20_000) as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        await register(bus)
        await write(bus, 1, 900, 1)
        whole = await expected(bus)
        seqs = sorted({seq for seq, _, _ in whole})
        assert seqs[1] - seqs[0] > 2, "the large commit has parts"
        await interrupted_after(bus, 500)
        async with running(publish(bus)):
            assert await history_of(bus, len(whole)) == whole
        await bus.close()


@pytest.mark.parametrize("known", [True, False])
async def test_a_log_trimmed_beyond_the_newest_record_has_changed(bus: NatsBus, known: bool):
    """Trimming keeps that."""
    await register(bus)
    await write(bus, 1, 1, 1)
    first, *_, last = (await positions_of(bus)).values()
    complete = first if known else None
    if not known:
        await bus.append(subjects.event(RM), b"", {**first.headers(), subjects.EVENT_INDEX: "0"})
    await bus.trim(subjects.LOG.name, subjects.log(RM), last.seq)
    with pytest.raises(HistoryChanged, match="nothing behind it is in the event history"):
        await (await EventHistory.open(bus, RM, complete)).open_log()


async def positions_of(bus: Bus) -> dict[int, Position]:
    reader = await LogReader.open(bus, RM)
    positions = {entry.seq: entry.position async for entries in reader.read_to_end() for entry in entries}
    await reader.close()
    return positions


async def test_two_processes_that_both_write_write_nothing_twice(
    bus: NatsBus, server: NatsServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "HISTORY_RETRY", RetryPolicy(0.01))
    other = await connect(server.url, "other", timeout_s=5)
    await register(bus)
    async with running(publish(bus)), running(publish(other)):
        for _ in range(10):
            await write(bus, 3, 700, 0, 1)
        assert await history_of(bus, 10 * 1_408) == await expected(bus)
    await other.close()


async def test_the_next_instance_takes_over(bus: NatsBus, server: NatsServer):
    other = await connect(server.url, "other", timeout_s=5)
    await register(bus)
    await write(bus, 3)
    async with running(serve(bus, "one")) as one:
        await history_of(bus, 6)
        async with running(serve(other, "two")):
            await write(bus, 2)
            await history_of(bus, 10)
            assert await holder(bus) == "one"
            one.cancel()
            await write(bus, 4)
            assert await history_of(bus, 18) == await expected(bus)
            assert await holder(bus) == "two"
    await other.close()


async def test_a_lost_lease_is_acquired_again(bus: NatsBus):
    await register(bus)
    await write(bus, 3)
    async with running(serve(bus, "one")):
        await history_of(bus, 6)
        taken = await bus.put(subjects.LEASES.name, subjects.EVENTS_LEASE, b'{"holder": "an operator"}')
        async with asyncio.timeout(10):
            async for entry in bus.watch(subjects.LEASES.name):
                if entry.key == subjects.EVENTS_LEASE and entry.value and entry.revision > taken:
                    break
        await write(bus, 700)
        assert await history_of(bus, 1_406) == await expected(bus)
        assert await holder(bus) == "one"


async def holder(bus: Bus) -> str:
    lease = await bus.get(subjects.LEASES.name, subjects.EVENTS_LEASE)
    assert lease is not None
    assert lease.value is not None
    found: str = json.loads(lease.value)["holder"]
    return found


async def test_a_bookmark_stands_in_for_records_that_are_no_longer_kept(bus: NatsBus):
    await register(bus)
    await write(bus, 3, 2)
    history = await EventHistory.open(bus, RM)
    reader = await history.open_log()
    await history.append_events(await reader.batch())
    await history.write_bookmark()
    await reader.close()
    await bus.trim(subjects.EVENTS.name, subjects.event(RM), below=1_000)
    assert await bus.last_message(subjects.EVENTS.name, subjects.event(RM)) is None
    whole = await expected(bus)
    async with running(publish(bus)):
        await write(bus, 1)
        assert await history_of(bus, 2) == (await expected(bus))[len(whole) :]


async def test_records_that_expire_while_it_runs_are_not_written_again(bus: NatsBus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "HISTORY_RETRY", RetryPolicy(0.01))
    await register(bus)
    await write(bus, 3)
    async with running(publish(bus)):
        whole = await history_of(bus, 6)
        await bus.trim(subjects.EVENTS.name, subjects.event(RM), below=1_000)
        await write(bus, 1)
        assert await history_of(bus, 2) == (await expected(bus))[len(whole) :]


class Stingy:
    """The bus of a server that takes fewer messages at once."""

    def __init__(self, bus: Bus, limit: int) -> None:
        self._bus = bus
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if len(messages) > self._limit:
            raise Refused("batch publish is too large")
        return await self._bus.append_all(messages, timeout_s)


@pytest.mark.parametrize("limit", [300, 1])
async def test_a_server_that_takes_fewer_at_once_gets_fewer(bus: NatsBus, limit: int):
    await register(bus)
    await write(bus, 400)
    async with running(publish(Stingy(bus, limit))):
        assert await history_of(bus, 800) == await expected(bus)


async def test_what_others_publish_into_the_history_is_named(bus: NatsBus):
    await bus.append(subjects.event(RM), b"hello")
    with pytest.raises(Unreadable, match="another client publishes there"):
        await EventHistory.open(bus, RM)


def test_being_late_is_said_once_a_minute():
    now = 1_000.0
    late = LagWarning(RM, lambda: now)
    with structlog.testing.capture_logs() as said:
        late.check(995_000)  # 5 s
        assert said == []
        late.check(980_000)
        assert [(line["late_s"], line["rm"]) for line in said] == [(20.0, RM)]
        now += 59
        late.check(980_000)
        assert len(said) == 1
        now += 1
        late.check(980_000)
        assert len(said) == 2
