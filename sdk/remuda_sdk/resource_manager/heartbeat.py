"""Heartbeats of an RM: they show that it is alive, and report its callback cursor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers


class Heartbeat:
    """Publishes a heartbeat every `interval_s` seconds, until it is stopped. `headers`: returns the headers of the next
    one."""

    def __init__(self, bus: Bus, rm_id: str, interval_s: float, headers: Callable[[], Headers]) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._interval_s = interval_s
        self._headers = headers
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start publishing. Idempotent."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self.run(), name=f"heartbeat of {self._rm_id}")

    async def publish_once(self) -> None:
        with contextlib.suppress(BusError):  # the next one may get through
            await self._bus.publish(subjects.heartbeat(self._rm_id), b"", self._headers())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self.publish_once()
            await asyncio.sleep(self._interval_s)
