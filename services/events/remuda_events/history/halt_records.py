"""Writes a record into the event history of an RM when the RM is halted."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Entry
from remuda_bus.retry import pause
from remuda_events import limits
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START
from remuda_replication.rms.forget import BEING_FORGOTTEN
from remuda_replication.rms.halts import Halt

log = structlog.get_logger()

NS_PER_MS: Final = 1_000_000


async def publish_halts(bus: Bus) -> None:
    """Runs until cancelled. A halt whose record cannot be written does not hold up others."""
    async with asyncio.TaskGroup() as group:
        async for entry in bus.watch(subjects.HALTS.name):
            if entry.value is not None:
                group.create_task(_publish_until_durable(bus, entry))


async def _publish_until_durable(bus: Bus, entry: Entry) -> None:
    """Retry until the record is durable, or the RM is not halted any more."""
    assert entry.value is not None, "checked by the caller"
    halt = Halt.decode(entry.value)
    if halt.reason == BEING_FORGOTTEN:
        return  # its history is removed, too
    while (current := await _current_entry(bus, entry)) is not None and current.revision == entry.revision:
        try:
            await publish_halt(bus, halt)
            return
        except BusError as error:
            log.warning("the record of a halt is not written yet, trying again", key=entry.key, error=str(error))
            await pause(limits.HISTORY_RETRY)


async def _current_entry(bus: Bus, entry: Entry) -> Entry | None:
    try:
        return await bus.get(subjects.HALTS.name, entry.key)
    except BusError:
        return entry  # an outage: try again


async def publish_halt(bus: Bus, halt: Halt) -> None:
    """Write the record unless it is the newest one: another process may have written it. The record has the position
    before the first commit, because the log of the RM begins anew after a rebuild."""
    record = si.EventRecord(objectID=halt.rm_id, message=halt.explanation(), timestampNano=halt.at_ms * NS_PER_MS)
    payload, subject = record.SerializeToString(deterministic=True), subjects.event(halt.rm_id)
    last = await bus.last_message(subjects.EVENTS.name, subject)
    if last is None or last.payload != payload:
        await bus.append(subject, payload, {**START.headers(), subjects.EVENT_INDEX: "0"})
