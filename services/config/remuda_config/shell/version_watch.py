"""Keeps the active configuration at the newest version on the bus, and ends staged changes at their deadline."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_config import limits
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.changes import now_ms
from remuda_config.shell.version_store import FILE

log = structlog.get_logger()


async def follow_versions(bus: Bus, active: ActiveConfiguration) -> None:
    """Activates each version that another process stores, without end."""
    async for entry in bus.watch(subjects.CONFIGURATIONS.name):
        if entry.key != FILE or (active.current is not None and active.current.stored.revision >= entry.revision):
            continue
        try:
            await active.follow()
        except BusError as error:
            log.warning("a version of the configuration cannot be read", error=str(error))


async def end_stages(active: ActiveConfiguration) -> None:
    """Rolls back each staged change that is not confirmed in time, without end. A process that starts later does so
    then.

    The deadline is a time of day, so the clock is read again after a while, also for a deadline that is far away.
    """
    while True:
        await active.staged.wait()
        if active.current is None or not active.current.version.is_staged:
            active.staged.clear()
            continue
        left_s = (active.current.version.until_ms - now_ms()) / 1_000
        if left_s > 0:
            await asyncio.sleep(min(left_s, limits.STAGE_CHECK_INTERVAL_S))
            continue
        try:
            await active.end_stage()
        except BusError as error:
            log.warning("a staged change is not rolled back yet", error=str(error))
        if active.current.version.is_staged:
            await asyncio.sleep(limits.RETRY_S)
