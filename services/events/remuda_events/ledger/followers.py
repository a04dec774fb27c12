"""Keeps the ledgers of all RMs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from remuda_bus.bus import Bus
from remuda_events import limits
from remuda_events.following import follow_log
from remuda_events.ledger.follower import Ledger
from remuda_events.quiet import wait_for_quiet_log
from remuda_replication.log import LogReader
from remuda_replication.rms.faults import LEDGER_OF_LOG, Faults
from remuda_replication.snapshots import SnapshotListing


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
        await follow_log(
            rm_id, LEDGER_OF_LOG, "at the checkpoint of the ledger", self._openings, self._faults,
            lambda: Ledger.open(self._bus, rm_id, self._listed_tags, self._listing),
            lambda ledger: ledger.open_log(self._listing), _follow,
        )  # fmt: skip


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
