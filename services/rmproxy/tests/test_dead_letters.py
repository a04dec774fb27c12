"""Callbacks about dead letters are bounded: CALLBACKS is shared by all RMs and refuses when it is full."""

from __future__ import annotations

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEAD_LETTER_CALLBACKS", 20)
    monkeypatch.setattr(limits, "DEAD_LETTER_CALLBACKS_OF_UNKNOWN", 30)
    monkeypatch.setattr(limits, "DEAD_LETTER_CALLBACKS_COUNTED_EVERY", 10)


async def refuse(letters: DeadLetters, rm_id: str, first_seq: int, count: int) -> None:
    for seq in range(first_seq, first_seq + count):
        await letters.write(Message(subjects.request(rm_id, "node"), b"x", {}, seq), rm_id, "bad", {})


async def callbacks(bus: MemoryBus, rm_id: str) -> int:
    return await bus.message_count(subjects.CALLBACKS.name, subjects.callback(rm_id, "dead_letter"))


async def test_an_rm_that_acknowledges_nothing_fills_no_stream_of_others() -> None:
    bus, registry = MemoryBus(), RmRegistry()
    for rm_id in ("bad", "good"):
        registry.update(rm_id, RmRecord(rm_id, state="registered").encode())
    published: list[tuple[str, int]] = []
    letters = DeadLetters(bus, registry, lambda rm_id, seq: published.append((rm_id, seq)))
    await refuse(letters, "bad", 1, 100)
    await refuse(letters, "good", 101, 1)
    assert (await callbacks(bus, "bad"), await callbacks(bus, "good")) == (20, 1)
    assert published == [*(("bad", seq) for seq in range(1, 21)), ("good", 21)]
    assert await bus.message_count(subjects.DEAD_LETTERS.name, subjects.dead_letter("bad")) == 100

    await bus.trim(subjects.CALLBACKS.name, subjects.callback("bad", "dead_letter"), 1_000)
    await refuse(letters, "bad", 201, 20)  # there is room again
    assert await callbacks(bus, "bad") > 0
    await bus.close()


async def test_senders_without_a_record_share_one_bound() -> None:
    bus = MemoryBus()
    letters = DeadLetters(bus, RmRegistry())
    for number in range(50):
        await refuse(letters, f"stranger-{number}", number + 1, 1)
    assert await callbacks(bus, "*") == 30
    assert len(letters._room) == 1
    await bus.close()


async def test_nothing_is_stored_of_an_rm_that_is_gone() -> None:
    bus, registry = MemoryBus(), RmRegistry()
    registry.update("rm-1", RmRecord("rm-1").encode())
    letters = DeadLetters(bus, registry)
    await refuse(letters, "rm-1", 1, 1)
    letters.untrack("rm-1")
    assert not letters._room
    await bus.close()
