"""The core process: leads or follows RMs, and answers queries about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_replication.members import Members
from remuda_replication.rms.halts import Halts
from remuda_replication.standby import Standbys

from .answering import Answering
from .auditor import Auditor
from .rm_standby import RmStandby
from .settings import CoreSettings
from .state_metrics import measure_always


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
    halts = Halts(bus, members.name, clock_ms)
    standbys = Standbys(bus, members, halts, clock_ms, lambda rm_id: RmStandby(bus, rm_id, members, clock_ms, settings))

    def answers(rm_id: str) -> bool:
        return members.answerer(rm_id, of_leader=False) == members.name

    async def answer(message: Message) -> bytes:
        return msgspec.json.encode(standbys.description())

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(halts.watch())
        members.start(tasks)
        await bus.serve(subjects.core_process(members.name), answer, "process")
        auditor = Auditor(
            bus, members.name, standbys.by_log, settings.audit_s, clock_ms, answers, settings.snapshot_in_child
        )
        tasks.create_task(auditor.run(), name="auditor")
        tasks.create_task(measure_always(standbys.by_log, answers))
        await Answering(bus, members, halts, working, standbys.by_log).serve()
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is None and rm_id in working:
                await _end(working.pop(rm_id))
                await members.release(rm_id)
            elif entry.value is not None and rm_id not in working:
                working[rm_id] = tasks.create_task(standbys.stand_by(rm_id), name=f"standby of {rm_id}")


async def _end(task: asyncio.Task[None]) -> None:
    """Stop the standby of an RM that was forgotten."""
    task.cancel()
    await asyncio.wait([task])
