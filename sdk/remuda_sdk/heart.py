"""The heart of an RM: says that it is there, and up to where it was told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers


class Heart:
    """`says`: the headers of the next beat."""

    def __init__(self, bus: Bus, rm_id: str, every_s: float, says: Callable[[], Headers]) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._every_s = every_s
        self._says = says
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Idempotent."""
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._run(), name=f"heartbeat of {self._rm_id}")

    async def beat(self) -> None:
        with contextlib.suppress(BusError):  # the next one may get through
            await self._bus.publish(subjects.heartbeat(self._rm_id), b"", self._says())

    async def stop(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.wait([beating])

    async def _run(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(self._every_s)
