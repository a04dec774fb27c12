"""Current entries of a bucket."""

from __future__ import annotations

import asyncio
import contextlib

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Entry


async def entries(bus: Bus, bucket: str) -> list[Entry]:
    """Entries ordered by key. A watch does not mark the end of the current entries: they are complete when no entry has
    arrived for ENTRIES_WITHIN_S."""
    found: dict[str, Entry] = {}
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.ALL_ENTRIES_WITHIN_S
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.ENTRIES_WITHIN_S) as waiting:
            async for entry in bus.watch(bucket):
                found[entry.key] = entry
                waiting.reschedule(min(end, loop.time() + limits.ENTRIES_WITHIN_S))
    return [found[key] for key in sorted(found) if found[key].value is not None]


async def registered_rms(bus: Bus) -> list[Entry]:
    """Entries of the resource managers on record."""
    return await entries(bus, subjects.RMS.name)
