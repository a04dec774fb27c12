"""The side RM's process as a test sees it: how long its asks have waited."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .side_rm import RM

ROOT = Path(__file__).parents[2]
BEGINS_WITHIN_S = 30.0


class Side:
    """`asked` and `allocated`: when, by key, in the order of the asks."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id
        self.asked: dict[str, float] = {}
        self.allocated: dict[str, float] = {}
        self.output: list[str] = []
        self.process: asyncio.subprocess.Process | None = None

    def hear(self, line: str) -> None:
        if not line.startswith("{"):
            self.output.append(line)
            return
        told = json.loads(line)
        if "asked" in told:
            self.asked[told["asked"]] = told["at"]
        else:
            self.allocated.setdefault(told["allocated"], told["at"])

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def waits_s(self, since: float, until: float | None = None) -> list[float]:
        """Of each ask made in that time. One that still waits has waited until now."""
        now = time.monotonic()
        return [
            self.allocated.get(key, now) - at
            for key, at in self.asked.items()
            if since <= at <= (now if until is None else until)
        ]

    async def settled(self, within_s: float) -> bool:
        """Returns when all that was asked until now is allocated."""
        keys = list(self.asked)
        until = time.monotonic() + within_s
        while not self.allocated.keys() >= set(keys):
            if time.monotonic() > until or not self.alive:
                return False
            await asyncio.sleep(0.02)
        return True


def p99(waits_s: list[float]) -> float:
    return statistics.quantiles(waits_s, n=100, method="inclusive")[98] if len(waits_s) > 1 else max(waits_s, default=0)


@asynccontextmanager
async def side_rm(url: str, rm_id: str = RM, every_s: float = 0.05) -> AsyncIterator[Side]:
    """Working, until the block is left."""
    side = Side(rm_id)
    command = [sys.executable, "-m", "tests.tenants.side_rm", url, "--rm", rm_id, "--every-s", str(every_s)]
    side.process = process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    hearing = asyncio.create_task(_hear(process, side))
    try:
        async with asyncio.timeout(BEGINS_WITHIN_S):
            while not side.allocated:
                assert side.alive, "\n".join(side.output)
                await asyncio.sleep(0.02)
        yield side
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await hearing


async def _hear(process: asyncio.subprocess.Process, side: Side) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        side.hear(line.decode(errors="replace").rstrip())
