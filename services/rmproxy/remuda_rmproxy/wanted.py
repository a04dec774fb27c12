"""Asks RMs to register and to report, of which an operator has removed all that was known (`remuda rebuild`)."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_rmproxy.limits import ASK_FOR_REPORT_EVERY_S
from remuda_rmproxy.session import Sessions

log = structlog.get_logger()


async def ask_for_reports(bus: Bus, sessions: Sessions) -> None:
    """For ever: an RM that is away is asked when it is back."""
    while True:
        for rm in sessions.in_state("report_wanted"):
            try:
                await bus.publish(subjects.report_wanted(rm.rm_id), b"")
            except BusError as error:
                log.warning("an RM was not asked to report", rm=rm.rm_id, error=str(error))
        await asyncio.sleep(ASK_FOR_REPORT_EVERY_S)
