"""From REQUESTS to the inbox, once: also where the process dies that has just forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Entry, Outgoing, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.records.rm_record import RmRecord
from services.rmproxy.tests.forwarding import forwarder_of

RM = "rm-1"
REGISTERED = RmRecord(RM, state="registered", registration=1)


async def ask(bus: MemoryBus) -> None:
    request = si.NodeRequest(rmID=RM, nodes=[si.NodeInfo(nodeID="n1", action=si.NodeInfo.CREATE)])
    await bus.append(subjects.request(RM, "node"), request.SerializeToString())


async def forwarded(bus: MemoryBus) -> None:
    """The actions of a process that ends as soon as all requests are forwarded."""
    forwarder = forwarder_of(bus)
    running = asyncio.create_task(forwarder.run())
    try:
        async with asyncio.timeout(5):
            await forwarder.wait_until_forwarded(RM)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def letters_and_commands(bus: MemoryBus) -> tuple[list[str], int]:
    """Of which requests there are dead letters, and how many commands."""
    letters = await (await bus.read(subjects.DEAD_LETTERS.name, subjects.dead_letter(RM))).batch(timeout_s=0)
    commands = await (await bus.read(subjects.INBOX.name, subjects.inbox(RM))).batch(timeout_s=0)
    return [letter.headers[subjects.ORIGIN_SEQ] for letter in letters], len(commands)


async def test_what_was_forwarded_is_no_dead_letter_when_the_rm_has_deregistered_since() -> None:
    bus = MemoryBus()
    await bus.put(subjects.RMS.name, subjects.key_of(RM), REGISTERED.encode())
    await ask(bus)
    await forwarded(bus)
    await bus.put(subjects.RMS.name, subjects.key_of(RM), REGISTERED.deregistered(0).encode())
    await ask(bus)
    await forwarded(bus)
    assert await letters_and_commands(bus) == (["2"], 1)
    await bus.close()


async def test_nor_for_a_process_that_had_read_it_and_checks_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = MemoryBus()
    await bus.put(subjects.RMS.name, subjects.key_of(RM), REGISTERED.encode())
    await ask(bus)
    look_up, has_read, may_go_on = bus.get, asyncio.Event(), asyncio.Event()

    async def late(bucket: str, key: str) -> Entry | None:
        has_read.set()
        await may_go_on.wait()
        return await look_up(bucket, key)

    monkeypatch.setattr(bus, "get", late)
    slow = asyncio.create_task(forwarded(bus))
    await has_read.wait()
    monkeypatch.setattr(bus, "get", look_up)
    await forwarded(bus)
    await bus.put(subjects.RMS.name, subjects.key_of(RM), REGISTERED.deregistered(0).encode())
    may_go_on.set()
    await slow
    assert await letters_and_commands(bus) == ([], 1)
    await bus.close()


async def test_nor_after_an_append_of_unknown_fate_when_the_rm_has_registered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FORWARD_RETRY", RetryPolicy(0.0))
    monkeypatch.setattr(limits, "INBOX_APPEND_TIMEOUT_S", 0.0)
    bus = MemoryBus()
    await bus.put(subjects.RMS.name, subjects.key_of(RM), REGISTERED.encode())
    append_all = bus.append_all
    failed: list[int] = []

    async def unanswered(messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if failed:
            return await append_all(messages, timeout_s)
        failed.append(await append_all(messages, timeout_s))
        again = RmRecord(RM, state="registered", registration=2)
        await bus.put(subjects.RMS.name, subjects.key_of(RM), again.encode())
        raise Unanswered("no answer")

    monkeypatch.setattr(bus, "append_all", unanswered)
    request = si.NodeRequest(rmID=RM, nodes=[si.NodeInfo(nodeID="n1", action=si.NodeInfo.CREATE)])
    await bus.append(subjects.request(RM, "node"), request.SerializeToString(), {subjects.REGISTRATION: "1"})
    await forwarded(bus)
    assert failed
    assert await letters_and_commands(bus) == ([], 1)
    await bus.close()
