"""Metrics of a process of Peloton's resource manager (docs/metrics.md)."""

from __future__ import annotations

from typing import Final

from remuda_bus.metrics import counter, gauge
from remuda_bus.replication.metrics import ReplicationMetrics

REPLICATION: Final = ReplicationMetrics("resmgr", "Resource manager of Peloton")
RPCS: Final = counter("remuda_resmgr_rpcs", "RPCs that this process has answered.", ("rpc", "result"))
READY_GANGS: Final = gauge("remuda_resmgr_ready_gangs", "Gangs that wait for a placement engine.")
PLACEMENTS: Final = gauge("remuda_resmgr_placements", "Placements that wait for a job manager.")
TASKS: Final = gauge("remuda_resmgr_tasks", "Tasks, by state.", ("state",))
ORPHANS: Final = gauge("remuda_resmgr_orphans", "Runs that were replaced and have not ended.")
