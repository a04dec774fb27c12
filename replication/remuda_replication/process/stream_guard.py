"""Compares the settings of all streams with what was declared while the process runs: an operator's limit may delete
what is acknowledged, and a service would find out at its next start, when it is gone."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import limits, metrics, subjects
from remuda_bus.bus import BusError
from remuda_bus.health import PROCESS_HEALTH
from remuda_bus.nats import NatsBus

log = structlog.get_logger()

LOGS = {one.name for one in (subjects.LOG, subjects.INBOX, subjects.PELOTON_LOG, subjects.PELOTON_INBOX)}


class StreamChanged(BusError):
    """A stream from which states are restored may lose messages."""


async def guard(bus: NatsBus, keeps_logs: bool) -> None:
    """Runs until cancelled. `keeps_logs`: the process leads logs. Raises StreamChanged when such a process could not
    put back a log's settings: it must not lead, because what it decides may be lost."""
    while True:
        try:
            await check(bus, keeps_logs)
        except StreamChanged:
            raise
        except BusError as error:
            log.debug("the settings of streams were not compared", error=str(error))
        await asyncio.sleep(limits.STREAMS_CHECK_INTERVAL_S)


async def check(bus: NatsBus, keeps_logs: bool) -> None:
    """Compare once, and put back. Raises BusError."""
    found = await bus.keep_settings()
    if found != PROCESS_HEALTH.changed_streams:
        for name, how in found.items():
            log.error("somebody has changed a stream, run `remuda declare`", stream=name, settings=how)
        if not found:
            log.warning("all streams have their settings again")
    PROCESS_HEALTH.changed_streams = found
    metrics.CHANGED_STREAMS.set(len(found))
    if keeps_logs and (changed := sorted(found.keys() & LOGS)):
        raise StreamChanged(f"stream {changed[0]}: {found[changed[0]]}; run `remuda declare`")
