"""A halt as a record of the event history: whoever reads events hears of it, too."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.halts import Halt
from remuda_bus.log import START
from remuda_events import limits
from remuda_proto.si.v1 import si_pb2 as si

log = structlog.get_logger()

NS_PER_MS: Final = 1_000_000


async def tell_halts(bus: Bus) -> None:
    """For ever."""
    async for entry in bus.watch(subjects.HALTS.name):
        if entry.value is None:
            continue
        halt = Halt.decode(entry.value)
        while True:
            try:
                await tell(bus, halt)
                break
            except BusError as error:
                log.warning("a halt is not in the history yet", rm=halt.rm_id, error=str(error))
                await asyncio.sleep(limits.RETRY_S)


async def tell(bus: Bus, halt: Halt) -> None:
    """Once, though several may hear of it. It tells of no commit: when the RM goes on, its log begins anew."""
    record = si.EventRecord(objectID=halt.rm_id, message=halt.told(), timestampNano=halt.at_ms * NS_PER_MS)
    payload, subject = record.SerializeToString(deterministic=True), subjects.event(halt.rm_id)
    last = await bus.last(subjects.EVENTS.name, subject)
    if last is None or last.payload != payload:
        await bus.append(subject, payload, {**START.headers(), subjects.EVENT_INDEX: "0"})
