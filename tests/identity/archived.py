"""Waits until an archive has what there is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from remuda_archive.holdings import holdings_of, prefix_of
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Bus
from tests.patience import PATIENCE

ARCHIVED_WITHIN_S = 60.0 * PATIENCE


async def until_archived(bus: Bus, archive: Path) -> None:
    """Returns when the archive has what the logs end with now."""
    store = Store.open(str(archive))
    records = await bus.entries(subjects.RMS.name)
    for rm in (subjects.rm_of_key(entry.key) for entry in records if entry.value is not None):
        last = await bus.last_message(subjects.log_stream(rm), subjects.log(rm))
        async with asyncio.timeout(ARCHIVED_WITHIN_S):
            while last is not None:
                held = holdings_of(rm, await store.names(prefix_of(rm))).segments
                if held and held[-1].end >= last.seq:
                    break
                await asyncio.sleep(0.2)
