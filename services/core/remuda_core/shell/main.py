"""The core process: leads every resource manager whose lease it gets, and answers questions about them."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.process import Settings

from .leader import Leader
from .queries import Queries

log = structlog.get_logger()


async def main(bus: Bus, settings: Settings) -> None:
    """Runs until something goes wrong with any of them: doubt means death, and a new process starts from the log."""
    async with asyncio.TaskGroup() as leaders:
        known: set[str] = set()
        async for entry in bus.watch(subjects.RMS.name):
            rm_id = subjects.rm_of_key(entry.key)
            if entry.value is None or rm_id in known:
                continue
            known.add(rm_id)
            leader = Leader(bus, rm_id, settings.instance)
            leaders.create_task(
                leader.lead(lambda one: asyncio.ensure_future(Queries(one.core).serve(bus))), name=f"leader of {rm_id}"
            )
