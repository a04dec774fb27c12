"""What a bucket holds now."""

from __future__ import annotations

import asyncio
import contextlib

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry

WITHIN_S = 0.3  # a bucket does not say when its current entries are through


async def entries(bus: Bus, bucket: str) -> list[Entry]:
    """By key."""
    found: dict[str, Entry] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WITHIN_S):
            async for entry in bus.watch(bucket):
                found[entry.key] = entry
    return [found[key] for key in sorted(found) if found[key].value is not None]


async def registered(bus: Bus) -> list[Entry]:
    """The resource managers there are."""
    return await entries(bus, subjects.RMS.name)
