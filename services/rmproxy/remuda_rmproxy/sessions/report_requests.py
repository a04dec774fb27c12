"""Asks RMs to register and to report again after an operator has removed their logs (`remuda rebuild`)."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_rmproxy.limits import REPORT_REQUEST_INTERVAL_S
from remuda_rmproxy.records.registry import RmRegistry

log = structlog.get_logger()


async def request_reports(bus: Bus, registry: RmRegistry) -> None:
    """Runs until cancelled. It repeats the request until the RM registers, because the RM may not be running yet."""
    while True:
        for record in registry.in_state("report_wanted"):
            try:
                await bus.publish(subjects.report_request(record.rm_id), b"")
            except BusError as error:
                log.warning("the request to report was not sent", rm=record.rm_id, error=str(error))
        await asyncio.sleep(REPORT_REQUEST_INTERVAL_S)
