"""Faults: the second one at a message halts the RM, and so does the third one within an hour."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Unanswered
from remuda_bus.memory import MemoryBus
from remuda_replication.rms.faults import FAULTS_WINDOW_MS, Faults
from remuda_replication.rms.halts import Halts


class Process:
    def __init__(self, bus: MemoryBus, name: str) -> None:
        self.now_ms = 0
        self.halts = Halts(bus, name, lambda: self.now_ms)
        self.faults = Faults(bus, self.halts, name, lambda: self.now_ms)

    async def record(self, seq: int, at_ms: int, stream: str = subjects.INBOX.name) -> bool:
        self.now_ms = at_ms
        try:
            raise KeyError("odd")
        except KeyError as error:
            return await self.faults.record("rm:1", stream, seq, error)

    async def reason(self) -> str:
        halt = await self.halts.refresh("rm:1")
        return "" if halt is None else halt.reason


async def test_a_second_fault_at_one_message_halts() -> None:
    bus = MemoryBus()
    one, two = Process(bus, "one"), Process(bus, "two")
    assert not await one.record(7, 1)
    assert not await one.reason()
    assert await two.record(7, 2)
    assert "an exception was raised again at message 7 of INBOX: KeyError: 'odd'" in await one.reason()


async def test_several_faults_within_an_hour_halt() -> None:
    hour = FAULTS_WINDOW_MS
    one = Process(MemoryBus(), "one")
    assert not await one.record(7, 1)
    assert not await one.record(8, hour + 2)
    assert not await one.record(9, hour + 3)
    assert not await one.reason()
    assert await one.record(10, hour + 4)
    assert "the last of 3 within an hour" in await one.reason()


async def test_a_lost_answer_does_not_count_as_another_fault() -> None:
    class Lossy(MemoryBus):
        lost = False

        async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
            made = await super().put(bucket, key, value, revision)
            if bucket == subjects.FAULTS.name and not self.lost:
                self.lost = True
                raise Unanswered("no answer")
            return made

    one = Process(Lossy(), "one")
    assert not await one.record(7, 1)
    assert not await one.reason()
