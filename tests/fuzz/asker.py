"""Somebody who asks about the side RM while hostile RMs ask about themselves: how long each answer takes."""

from __future__ import annotations

import asyncio
import time

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from tests.patience import PATIENCE

ASK_EVERY_S = 0.1
WITHIN_S = 5.0 * PATIENCE


class Asker:
    """`waits_s`: for answers. `failed`: why there was none."""

    def __init__(self, bus: Bus, rm_id: str) -> None:
        self.waits_s: list[float] = []
        self.failed: list[str] = []
        self._bus = bus
        self._rm_id = rm_id

    async def run(self) -> None:
        """Asks the core that follows, and the leader, until cancelled."""
        while True:
            for subject_of in (subjects.core_query, subjects.leader_query):
                await self._ask(subject_of(self._rm_id, "stats"))
                await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self, subject: str) -> None:
        began = time.monotonic()
        try:
            await self._bus.request(subject, timeout_s=WITHIN_S)
        except BusError as error:
            self.failed.append(f"{subject}: {error}")
        self.waits_s.append(time.monotonic() - began)
