"""A signal for several waiting tasks."""

from __future__ import annotations

import asyncio


class Bell:
    """Wakes all tasks that wait for the next change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(rung)
        await rung

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for rung in waiting:
            if not rung.done():
                rung.set_result(None)
