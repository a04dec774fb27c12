"""Writes a record into the event history of an RM when an audit has found its state wrong
(docs/adr/queries-and-audits.md)."""

from __future__ import annotations

import asyncio
import json

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Entry
from remuda_bus.retry import pause
from remuda_events import limits
from remuda_events.event_records import NS_PER_MS
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import START
from remuda_replication.rms.faults import AUDIT, Fault, told_key

log = structlog.get_logger()


async def publish_violations(bus: Bus) -> None:
    """Runs until cancelled. A violation whose record cannot be written does not hold up others."""
    async with asyncio.TaskGroup() as group:
        async for entry in bus.watch(subjects.FAULTS.name):
            if entry.value is not None and entry.key.endswith(f".{AUDIT}"):
                fault = Fault.decode(entry.value)
                if entry.key == subjects.fault_key(fault.rm_id, AUDIT):
                    group.create_task(_publish_until_durable(bus, entry, fault))


async def _publish_until_durable(bus: Bus, entry: Entry, fault: Fault) -> None:
    """Retry until the record is durable, or the fault is not the newest any more."""
    while True:
        try:
            current = await bus.get(subjects.FAULTS.name, entry.key)
            if current is not None and current.revision == entry.revision:
                await publish_violation(bus, fault)
            return
        except BusError as error:  # an outage, or another record was written at the same moment
            log.info("the record of an audit is not written yet, trying again", rm=fault.rm_id, error=str(error))
            await pause(limits.HISTORY_RETRY)


async def publish_violation(bus: Bus, fault: Fault) -> None:
    """Write the record, unless the same was told less than VIOLATION_TOLD_EVERY_MS before. Raises BusError.

    The record has the place of the newest one: it belongs to no commit, and the history of the RM resumes behind the
    newest (`event_history`). It expects that one, so both stay in order."""
    key = told_key(fault.rm_id)
    mark = await bus.get(subjects.EVENT_BOOKMARKS.name, key)
    if mark is not None and mark.value is not None and _is_told(json.loads(mark.value), fault):
        return
    record = si.EventRecord(
        objectID=fault.rm_id, timestampNano=fault.at_ms * NS_PER_MS,
        message=f"an audit has found the state at commit {fault.seq} wrong: {fault.error} (in {fault.by})",
    )  # fmt: skip
    subject = subjects.event(fault.rm_id)
    last = await bus.last_message(subjects.EVENTS.name, subject)
    payload = record.SerializeToString(deterministic=True)
    if last is None or last.payload != payload:  # else only the mark is missing
        place = {**START.headers(), subjects.EVENT_INDEX: "0"} if last is None else last.headers
        wanted = {name: place[name] for name in (*START.headers(), subjects.EVENT_INDEX)}
        expected = {subjects.EXPECTED_LAST: str(0 if last is None else last.seq)}
        await bus.append(subject, payload, {**wanted, **expected})
    told = {"error": fault.error, "at_ms": fault.at_ms}
    await bus.put(subjects.EVENT_BOOKMARKS.name, key, json.dumps(told).encode())


def _is_told(told: dict[str, object], fault: Fault) -> bool:
    at_ms = told["at_ms"]
    assert isinstance(at_ms, int)
    same = told["error"] == fault.error and fault.at_ms < at_ms + limits.VIOLATION_TOLD_EVERY_MS
    return same or fault.at_ms <= at_ms
