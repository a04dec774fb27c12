"""Work of the resource manager at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..commands import Admit, CalculateEntitlements, Command, Preempt, Tick
from ..settings import Settings
from ..state import State
from .host import Host


@dataclass(frozen=True)
class Periods:
    """In seconds; defaults are Peloton's."""

    admission_s: float = 0.1
    entitlement_s: float = 60.0
    preemption_s: float = 60.0
    timers_s: float = 1.0


async def keep_time(host: Host, periods: Periods, settings: Settings) -> None:
    """Never returns. Raises an ExceptionGroup with Stopped when the host has stopped."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_every(host, periods.entitlement_s, CalculateEntitlements()))
        tasks.create_task(_every(host, periods.admission_s, Admit(), lambda state: bool(state.waiting)))
        tasks.create_task(_every(host, periods.timers_s, Tick(), lambda state: bool(state.timers)))
        if settings.preemption_enabled:
            tasks.create_task(_every(host, periods.preemption_s, Preempt()))


async def _every(host: Host, period_s: float, command: Command, due: Callable[[State], bool] = lambda _: True) -> None:
    while True:
        if due(host.state):
            await host.do(command)
        await asyncio.sleep(period_s)
