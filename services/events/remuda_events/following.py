"""Follows the log of one RM for something that is derived from it, and opens both again after an outage or a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import structlog

from remuda_bus.bus import BusError, HistoryChanged
from remuda_bus.retry import pause
from remuda_events import limits
from remuda_replication.log import LogReader
from remuda_replication.rms.faults import Faults

log = structlog.get_logger()


class Derived(Protocol):
    @property
    def log_seq(self) -> int:
        """The sequence of the commit that is in work."""
        ...


D = TypeVar("D", bound=Derived)


async def follow_log(
    rm_id: str,
    kind: str,
    resumes: str,
    openings: asyncio.Semaphore,
    faults: Faults,
    open_derived: Callable[[], Awaitable[D]],
    open_log: Callable[[D], Awaitable[LogReader]],
    follow: Callable[[D, LogReader], Awaitable[None]],
) -> None:
    """Follows the log until the RM is halted; outages are retried. `kind`: of its faults. `resumes`: where it goes on,
    for its log lines. `openings` bounds how many are opened at the same time. Raises HistoryChanged."""
    while True:
        derived: D | None = None
        try:
            async with openings:
                derived = await open_derived()
                reader = await open_log(derived)
            try:
                await follow(derived, reader)
            finally:
                await reader.close()
        except BusError as error:
            log.warning("following a log is interrupted", rm=rm_id, resumes=resumes, error=str(error))
        except HistoryChanged:
            raise
        except Exception as fault:  # noqa: BLE001 - any exception here is a fault at a commit of this RM alone
            await faults.record(rm_id, kind, derived.log_seq if derived else 0, fault)
        await pause(limits.HISTORY_RETRY)
