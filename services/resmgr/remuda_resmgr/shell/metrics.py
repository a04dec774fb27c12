"""Metrics of a process of Peloton's resource manager (docs/metrics.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from remuda_bus.metrics import counter, gauge
from remuda_bus.replication.metrics import ReplicationMetrics

from ..core import Core
from ..limits import METRICS_S
from ..state import State

REPLICATION: Final = ReplicationMetrics("resmgr", " of Peloton")
RPCS: Final = counter("remuda_resmgr_rpcs", "RPCs that this process has answered.", ("rpc", "result"))
RESULTS: Final = ("answered", "refused", "unavailable")
READY_GANGS: Final = gauge("remuda_resmgr_ready_gangs", "Gangs that wait for a placement engine.")
PLACEMENTS: Final = gauge("remuda_resmgr_placements", "Placements that wait for a job manager.")
TASKS: Final = gauge("remuda_resmgr_tasks", "Tasks, by state.", ("state",))
ORPHANS: Final = gauge("remuda_resmgr_orphans", "Runs that were replaced and have not ended.")


async def measure_always(core: Core) -> None:
    while True:
        measure(core.state)
        await asyncio.sleep(METRICS_S)


def measure(state: State) -> None:
    READY_GANGS.set(state.ready_count)
    PLACEMENTS.set(len(state.placements))
    ORPHANS.set(len(state.orphans))
    TASKS.clear()
    for name, count in Counter(run.state for run in state.runs.values()).items():
        TASKS.labels(name).set(count)
