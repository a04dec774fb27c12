"""The time for which one state machine may keep its process busy."""

from __future__ import annotations

import asyncio
import time

from remuda_bus import limits


class TimeSlice:
    """Pauses after TURN_S, so that the process can renew its lease and do other work."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def pause_when_over(self) -> None:
        if time.perf_counter() - self._began >= limits.TURN_S:
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(0)
        self._began = time.perf_counter()
