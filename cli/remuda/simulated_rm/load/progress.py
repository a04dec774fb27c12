"""Progress of a load: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ...terminal.output import console, print_line
from ..rm_state import RmState
from .workload import Workload

DRAW_EVERY_S = 0.2
LINE_EVERY_S = 5.0


@contextlib.asynccontextmanager
async def shown(workload: Workload, rm_state: RmState, plain: bool) -> AsyncIterator[None]:
    """Shows the progress while the body runs."""
    task = asyncio.create_task(_lines(workload, rm_state) if plain else _bar(workload, rm_state))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _bar(workload: Workload, rm_state: RmState) -> None:
    columns = (BarColumn(None), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, expand=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=workload.total, text="")
        rate = Rate()
        while True:
            done, where = workload.progress(rm_state)
            text = f"{rm_state.placed:,} placed, {rate.of(rm_state.placed):,.0f}/s, {where}"
            bar.update(task, completed=done, text=text, refresh=True)
            await asyncio.sleep(DRAW_EVERY_S)


async def _lines(workload: Workload, rm_state: RmState) -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        done, where = workload.progress(rm_state)
        print_line(
            "load",
            f"{done:,} of {workload.total:,}: {rm_state.placed:,} placed, {rm_state.rejected_asks:,} rejected, {where}",
        )


class Rate:
    """A rate per second, smoothed over about a second."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._count = 0
        self._rate = 0.0

    def of(self, count: int) -> float:
        now = time.monotonic()
        passed = now - self._at
        if passed > 0:
            new = (count - self._count) / passed
            weight = min(1.0, passed)
            self._rate += (new - self._rate) * weight
            self._at, self._count = now, count
        return self._rate
