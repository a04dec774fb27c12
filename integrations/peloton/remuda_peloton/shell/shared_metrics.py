"""Metrics of an engine of hosts that are shared with an RM of si.v1 (docs/metrics.md).

The process of an engine works for one cluster in one partition, so neither is a label. In other processes all are 0.
"""

from __future__ import annotations

from typing import Final

from remuda_bus.metrics import counter, gauge, histogram

from ..sharing import Difference, Held

GANGS: Final = gauge("remuda_resmgr_shared_gangs", "Gangs that the engine of shared hosts has not placed yet.")
RUNS: Final = gauge("remuda_resmgr_shared_runs", "Runs on shared hosts.")
UNBACKED: Final = gauge("remuda_resmgr_shared_unbacked_runs", "Runs on shared hosts without an allocation.")
ALLOCATIONS: Final = gauge("remuda_resmgr_shared_allocations", "Allocations of guests.")
ASKS: Final = gauge("remuda_resmgr_shared_asks", "Waiting asks of guests.")
PLACED: Final = counter("remuda_resmgr_shared_placed_tasks", "Tasks placed on shared hosts.")
NOT_PLACED: Final = counter(
    "remuda_resmgr_shared_failed_gangs",
    "Failed gangs: never possible there, not_allocated in time, or refused by Peloton's resource manager.",
    ("reason",),
)
NEVER, NOT_ALLOCATED, REFUSED = "never", "not_allocated", "refused"
RELEASED: Final = counter("remuda_resmgr_shared_released_allocations", "Released allocations of guests.")
PREEMPTED: Final = counter(
    "remuda_resmgr_shared_preempted_runs",
    "Requests to preempt a run: revoked by the core, or maintenance of the node.",
    ("cause",),
)
REVOKED, MAINTENANCE = "revoked", "maintenance"
TURN: Final = histogram(
    "remuda_resmgr_shared_turn_seconds",
    "Time of one comparison of partition and runs.",
)
LAST_TURN: Final = gauge("remuda_resmgr_shared_turn_timestamp_seconds", "Last comparison, in seconds since 1970.")
INTERRUPTIONS: Final = counter(
    "remuda_resmgr_shared_interruptions",
    "Restarts of the engine's turn: followed by another one, behind (an answer was), not_ready (the "
    "partition), bus, rpc or timeout.",
    ("cause",),
)


def measure(gangs: int, runs: int, held: Held, found: Difference) -> None:
    """Set the gauges after a turn. `runs`: the number of runs on shared hosts."""
    GANGS.set(gangs)
    RUNS.set(runs)
    UNBACKED.set(len(found.unbacked))
    ALLOCATIONS.set(len(held.allocations))
    ASKS.set(len(held.asks))


def turn_over(took_s: float) -> None:
    TURN.observe(took_s)
    LAST_TURN.set_to_current_time()
