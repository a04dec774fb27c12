"""The core process: leads or follows RMs, and answers queries about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged, Message
from remuda_bus.rms.faults import Faults
from remuda_bus.rms.halts import FAULT, Halts

from . import trial
from .answering import Answering
from .members import Members
from .settings import CoreSettings
from .standby import Standby


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


async def main(bus: Bus, settings: CoreSettings, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
    """Runs until an error: when the result of an append is unknown, and after the first fault at a message, the process
    exits and is started again. An RM whose log has changed its past, or at whose message a fault occurs for the second
    time, is halted instead."""
    try:
        await _work(bus, Members(bus, settings.instance, settings.standbys), clock_ms, settings)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _work(bus: Bus, members: Members, clock_ms: Callable[[], int], settings: CoreSettings) -> None:
    working: dict[str, asyncio.Task[None]] = {}
    standbys: dict[str, Standby] = {}
    halts = Halts(bus, members.name, clock_ms)
    faults = Faults(bus, halts, members.name, clock_ms)

    async def stand_by(rm_id: str) -> None:
        members.know(rm_id, lambda: standbys[rm_id].at_ms if rm_id in standbys else 0)
        try:
            while True:
                await members.follows(rm_id, True)
                standbys[rm_id] = standby = Standby(bus, rm_id, members, clock_ms, settings)
                await run(standby)
                del standbys[rm_id]
        except HistoryChanged:
            await members.release(rm_id)
            raise
        finally:
            if halts.get(rm_id) is not None:
                await members.release(rm_id)
            standbys.pop(rm_id, None)
            members.forget(rm_id)

    async def run(standby: Standby) -> None:
        try:
            await standby.run()
        except (BusError, HistoryChanged):
            raise
        except trial.DeadlyMessage as deadly:
            await halts.halt(standby.rm_id, str(deadly), FAULT)
        except Exception as fault:
            if not await faults.record(standby.rm_id, *standby.place_of(fault), fault):
                raise  # the state of this process may be damaged: it exits
        else:
            return
        await asyncio.get_running_loop().create_future()  # until the guard sees the halt

    async def answer(message: Message) -> bytes:
        return msgspec.json.encode(_what_it_does(members.name, standbys))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(halts.watch())
        members.start(tasks)
        await bus.serve(subjects.core_process(members.name), answer, "process")
        await Answering(bus, members, halts, working, standbys).serve()
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is None and rm_id in working:
                await _end(working.pop(rm_id))
                await members.release(rm_id)
            elif entry.value is not None and rm_id not in working:
                work = halts.guard(rm_id, partial(stand_by, rm_id))
                working[rm_id] = tasks.create_task(work, name=f"standby of {rm_id}")


async def _end(task: asyncio.Task[None]) -> None:
    """Stop the standby of an RM that was forgotten."""
    task.cancel()
    await asyncio.wait([task])


def _what_it_does(name: str, standbys: Mapping[str, Standby]) -> object:
    return {
        "instance": name,
        "rms": [
            {"rm": rm_id, "leads": one.leads, "log_seq": one.position.seq, "at_ms": one.at_ms}
            for rm_id, one in standbys.items()
        ],
    }
