"""Metrics of an engine of hosts that are shared with an RM of si.v1 (docs/metrics.md).

The process of an engine works for one cluster in one partition, so neither is a label. In other processes all are 0.
"""

from __future__ import annotations

from typing import Final

from remuda_bus.metrics import counter, gauge, histogram

from ..sharing import Difference, Held

GANGS: Final = gauge("remuda_resmgr_shared_gangs", "Gangs that the engine of shared hosts has, and has not placed yet.")
RUNS: Final = gauge("remuda_resmgr_shared_runs", "Runs on shared hosts.")
UNBACKED: Final = gauge("remuda_resmgr_shared_unbacked_runs", "Runs on shared hosts without an allocation.")
ALLOCATIONS: Final = gauge("remuda_resmgr_shared_allocations", "Allocations of guests in the partition.")
ASKS: Final = gauge("remuda_resmgr_shared_asks", "Asks of guests that wait in the partition.")
PLACED: Final = counter("remuda_resmgr_shared_placed_tasks", "Tasks that the engine has placed on shared hosts.")
NOT_PLACED: Final = counter(
    "remuda_resmgr_shared_failed_gangs",
    "Gangs that were reported as failed: never possible there, not_allocated by the core in time, or refused by the "
    "resource manager of Peloton.",
    ("reason",),
)
NEVER, NOT_ALLOCATED, REFUSED = "never", "not_allocated", "refused"
RELEASED: Final = counter("remuda_resmgr_shared_released_allocations", "Allocations of guests that were given back.")
PREEMPTED: Final = counter(
    "remuda_resmgr_shared_preempted_runs",
    "Requests to preempt a run on a shared host: revoked by the core, or maintenance of the node.",
    ("cause",),
)
REVOKED, MAINTENANCE = "revoked", "maintenance"
TURN: Final = histogram(
    "remuda_resmgr_shared_turn_seconds",
    "Time from reading what the partition holds until what differs from the runs was sent.",
)
LAST_TURN: Final = gauge(
    "remuda_resmgr_shared_turn_timestamp_seconds", "When the engine has last compared both, in seconds since 1970."
)
INTERRUPTIONS: Final = counter(
    "remuda_resmgr_shared_interruptions",
    "Times that the engine had to begin anew: followed by another one, behind (an answer was), not_ready (the "
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
