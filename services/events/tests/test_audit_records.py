"""What an audit has found is told in the event history, between the records of commits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_events import limits
from remuda_events.shell import publish
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.rms.faults import AUDIT, Fault

from .history_log import RM, WITHIN_S, expected, line, register, write

FAULT = Fault(RM, AUDIT, 7, "AssertionError: n1", "core-1", 5_000)


async def found(bus: MemoryBus, fault: Fault) -> None:
    await bus.put(subjects.FAULTS.name, subjects.fault_key(fault.rm_id, AUDIT), fault.encode())


async def history(bus: MemoryBus, records: int) -> list[Message]:
    """The first so many records, waiting for them; and whatever is there beyond."""
    reader = await bus.read(subjects.EVENTS.name, subjects.event(RM))
    messages: list[Message] = []
    async with asyncio.timeout(WITHIN_S):
        while len(messages) < records:
            messages += await reader.batch()
    messages += await reader.batch(timeout_s=0.02)
    await reader.close()
    return messages


def is_audit(message: Message) -> bool:
    return "an audit" in si.EventRecord.FromString(message.payload).message


async def test_a_violation_is_told_once_and_the_history_goes_on() -> None:
    bus = MemoryBus()
    await bus.declare()
    await register(bus)
    await write(bus, 2, 0, 1)
    publishing = asyncio.create_task(publish(bus))
    before = await history(bus, 6)
    await found(bus, FAULT)
    told = (await history(bus, 7))[-1]
    record = si.EventRecord.FromString(told.payload)
    assert record.message == "an audit has found the state at commit 7 wrong: AssertionError: n1 (in core-1)"
    assert (record.objectID, record.timestampNano) == (RM, 5_000_000_000)
    assert told.headers[subjects.LOG_SEQ] == before[-1].headers[subjects.LOG_SEQ]

    await write(bus, 1)  # behind it
    await history(bus, 9)
    publishing.cancel()
    await asyncio.wait([publishing])
    publishing = asyncio.create_task(publish(bus))  # another process sees the fault anew
    await write(bus, 3)
    await found(bus, replace(FAULT, seq=9, at_ms=FAULT.at_ms + 60_000))  # the next audit finds the same
    all_messages = await history(bus, 15)
    assert [line(one) for one in all_messages if not is_audit(one)] == await expected(bus)
    assert sum(map(is_audit, all_messages)) == 1
    for later in (
        replace(FAULT, seq=10, at_ms=FAULT.at_ms + 70_000, error="AssertionError: n2"),
        replace(FAULT, seq=11, at_ms=FAULT.at_ms + 80_000 + limits.VIOLATION_TOLD_EVERY_MS, error="AssertionError: n2"),
    ):
        await found(bus, later)
        all_messages = await history(bus, len(all_messages) + 1)
        assert f"commit {later.seq} " in si.EventRecord.FromString(all_messages[-1].payload).message
    publishing.cancel()


async def test_a_violation_may_be_the_first_record() -> None:
    bus = MemoryBus()
    await bus.declare()
    await found(bus, FAULT)
    await register(bus)
    publishing = asyncio.create_task(publish(bus))
    assert is_audit((await history(bus, 1))[0])
    await write(bus, 1, 2)
    messages = await history(bus, 7)
    assert [line(one) for one in messages if not is_audit(one)] == await expected(bus)
    publishing.cancel()
