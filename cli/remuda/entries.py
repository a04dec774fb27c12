"""What a bucket holds now."""

from __future__ import annotations

import asyncio
import contextlib

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry

from . import limits


async def entries(bus: Bus, bucket: str) -> list[Entry]:
    """By key."""
    found: dict[str, Entry] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.ENTRIES_WITHIN_S):
            async for entry in bus.watch(bucket):
                found[entry.key] = entry
    return [found[key] for key in sorted(found) if found[key].value is not None]


async def registered(bus: Bus) -> list[Entry]:
    """The resource managers there are."""
    return await entries(bus, subjects.RMS.name)
