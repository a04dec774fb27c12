"""The core process: follows every resource manager, leads those whose lease it has, and answers questions about
them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_bus.halts import Halts

from .members import Members
from .settings import CoreSettings
from .standby import Standby


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


async def main(bus: Bus, settings: CoreSettings, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
    """Runs until something goes wrong with any of them: doubt means death, and a new process starts from the log. Only
    of an RM whose past has changed there is no doubt: it is halted."""
    try:
        await _work(bus, Members(bus, settings.instance), clock_ms, settings)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _work(bus: Bus, members: Members, clock_ms: Callable[[], int], settings: CoreSettings) -> None:
    known: set[str] = set()
    standbys: dict[str, Standby] = {}
    halts = Halts(bus, members.name, clock_ms)

    async def stand_by(rm_id: str) -> None:
        members.know(rm_id)
        standbys[rm_id] = Standby(bus, rm_id, members, clock_ms, settings)
        try:
            await standbys[rm_id].run()
        finally:
            del standbys[rm_id]
            members.hot(rm_id)  # a halted one is not waited for

    async def answer(message: Message) -> bytes:
        return msgspec.json.encode(_what_it_does(members.name, standbys))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(halts.watch())
        tasks.create_task(members.watch())
        tasks.create_task(members.announce())
        await bus.serve(subjects.core_process(members.name), answer, "process")
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is None or rm_id in known:
                continue
            known.add(rm_id)
            work = halts.guard(rm_id, partial(stand_by, rm_id))
            tasks.create_task(work, name=f"standby of {rm_id}")


def _what_it_does(name: str, standbys: Mapping[str, Standby]) -> object:
    return {
        "instance": name,
        "rms": [
            {"rm": rm_id, "leads": one.leads, "log_seq": one.position.seq, "at_ms": one.at_ms}
            for rm_id, one in standbys.items()
        ],
    }
