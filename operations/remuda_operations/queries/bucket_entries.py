"""Current entries of a bucket."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry


async def registered_rms(bus: Bus) -> list[Entry]:
    """Entries of the resource managers on record. Raises Unanswered."""
    return await bus.entries(subjects.RMS.name)
