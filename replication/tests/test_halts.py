"""No service works for a halted RM until the halt is removed."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged
from remuda_bus.memory import MemoryBus
from remuda_replication.rms.halts import Halt, Halts


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.running = False
        self.fails: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> None:
        self.begun += 1
        self.running = True
        try:
            await self.fails
        finally:
            self.running = False
            self.fails = asyncio.get_running_loop().create_future()


async def test_a_halt_stops_work_and_its_end_restarts_it() -> None:
    bus, work = MemoryBus(), Work()
    here, elsewhere = (Halts(bus, name, lambda: 7) for name in ("here", "elsewhere"))
    tasks = [asyncio.create_task(here.watch()), asyncio.create_task(here.guard("rm:1", work))]
    await turns()
    assert work.running
    await elsewhere.halt("rm:1", "it forgot")
    await elsewhere.halt("rm:1", "a second reason")
    await turns()
    assert not work.running
    assert here.get("rm:1") == Halt("rm:1", "it forgot", "elsewhere", 7)
    await bus.delete(subjects.HALTS.name, subjects.key_of("rm:1"))
    await turns()
    assert (work.running, work.begun) == (True, 2)
    work.fails.set_exception(HistoryChanged("the log ends at 3"))
    await turns()
    assert not work.running
    halt = await elsewhere.refresh("rm:1")
    assert halt is not None
    assert "the log ends at 3" in halt.explanation()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await bus.close()


async def test_no_work_starts_for_a_halted_rm() -> None:
    bus, work = MemoryBus(), Work()
    await Halts(bus, "before", lambda: 7).halt("a", "it forgot")
    guard = asyncio.create_task(Halts(bus, "now", lambda: 7).guard("a", work))
    await turns()
    assert work.begun == 0
    guard.cancel()
    await asyncio.gather(guard, return_exceptions=True)


async def test_other_errors_are_raised() -> None:
    bus, work = MemoryBus(), Work()
    guard = asyncio.create_task(Halts(bus, "here", lambda: 7).guard("a", work))
    await turns()
    work.fails.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError) as failed:
        await guard
    assert failed.value.__notes__ == ["rm a"], "whom it is about"
    assert await bus.get(subjects.HALTS.name, "a") is None
