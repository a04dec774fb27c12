"""Keeps the ledgers of all RMs: opens each, follows its log, and opens it again after an outage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from remuda_bus.bus import Bus, BusError, HistoryChanged
from remuda_bus.retry import pause
from remuda_events import limits
from remuda_events.ledger.follower import Ledger
from remuda_events.quiet import wait_for_quiet_log
from remuda_replication.log import LogReader
from remuda_replication.rms.faults import LEDGER_OF_LOG, Faults
from remuda_replication.snapshots import SnapshotListing

log = structlog.get_logger()


class Ledgers:
    """`listed_tags`: by which use is told apart. `openings` bounds how many are opened at the same time."""

    def __init__(self, bus: Bus, listed_tags: Sequence[str], faults: Faults, openings: asyncio.Semaphore) -> None:
        self._bus = bus
        self._listed_tags = listed_tags
        self._faults = faults
        self._openings = openings
        self._listing = SnapshotListing(bus)

    async def follow_rm(self, rm_id: str) -> None:
        """Keep the ledger of one RM until the RM is halted; outages are retried. Raises HistoryChanged."""
        while True:
            ledger: Ledger | None = None
            try:
                async with self._openings:
                    ledger = await Ledger.open(self._bus, rm_id, self._listed_tags, self._listing)
                    reader = await ledger.open_log(self._listing)
                try:
                    await _follow(ledger, reader)
                finally:
                    await reader.close()
            except BusError as error:
                log.warning("the ledger is interrupted, resuming at its checkpoint", rm=rm_id, error=str(error))
            except HistoryChanged:
                raise
            except Exception as fault:  # noqa: BLE001 - any exception here is a fault at a commit of this RM alone
                await self._faults.record(rm_id, LEDGER_OF_LOG, ledger.log_seq if ledger else 0, fault)
            await pause(limits.HISTORY_RETRY)


async def _follow(ledger: Ledger, reader: LogReader) -> None:
    """An hour whose end is long over is closed without a commit, but not while commits come."""
    while True:
        closes_at_ms = ledger.closes_at_ms()
        left_s = None if closes_at_ms is None else max(limits.LEDGER_QUIET_S, closes_at_ms / 1_000 - time.time())
        entries = await reader.batch(limits.COMMITS_AT_ONCE, timeout_s=left_s)
        if entries:
            await wait_for_quiet_log(reader, entries)
            await ledger.follow(entries)
        elif closes_at_ms is not None and time.time() * 1_000 >= closes_at_ms:
            await ledger.close_hour()
