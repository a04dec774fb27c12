"""Metrics of a process of Peloton's resource manager (docs/metrics.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from remuda_bus.metrics import counter, gauge
from remuda_replication.metrics import ReplicationMetrics

from ..core import Core
from ..decide.entitle import usage
from ..limits import METRIC_POOLS, METRICS_S
from ..rules.pools import path_of
from ..rules.resources import KINDS
from ..state import State

REPLICATION: Final = ReplicationMetrics("resmgr")
RPCS: Final = counter("remuda_resmgr_rpcs", "Answered RPCs.", ("rpc", "result"))
RESULTS: Final = ("answered", "refused", "unavailable")
READY_GANGS: Final = gauge("remuda_resmgr_ready_gangs", "Gangs that wait for a placement engine.")
PLACEMENTS: Final = gauge("remuda_resmgr_placements", "Placements that wait for a job manager.")
RESERVED_HOSTS: Final = gauge("remuda_resmgr_reserved_hosts", "Reserved hosts.")
TASKS: Final = gauge("remuda_resmgr_tasks", "Tasks, by state.", ("state",))
ORPHANS: Final = gauge("remuda_resmgr_orphans", "Replaced runs that have not ended.")
POOLS: Final = gauge("remuda_resmgr_pools", "Resource pools, without root.")
BY_POOL: Final = ("pool", "kind")
RESERVATION: Final = gauge("remuda_resmgr_pool_reservation", "Reservation of a pool.", BY_POOL)
LIMIT: Final = gauge("remuda_resmgr_pool_limit", "Limit of a pool.", BY_POOL)
ENTITLEMENT: Final = gauge("remuda_resmgr_pool_entitlement", "Resources that a pool may hold.", BY_POOL)
ALLOCATED: Final = gauge("remuda_resmgr_pool_allocated", "Resources that tasks of a pool hold.", BY_POOL)
DEMAND: Final = gauge("remuda_resmgr_pool_demand", "Resources that wait for admission in a pool.", BY_POOL)
OF_POOLS: Final = (RESERVATION, LIMIT, ENTITLEMENT, ALLOCATED, DEMAND)


async def measure_always(core: Core) -> None:
    while True:
        measure(core.state)
        await asyncio.sleep(METRICS_S)


def measure(state: State) -> None:
    READY_GANGS.set(state.ready_count)
    PLACEMENTS.set(len(state.placements))
    ORPHANS.set(len(state.orphans))
    RESERVED_HOSTS.set(len(state.reserved))
    TASKS.clear()
    for name, count in Counter(run.state for run in state.runs.values()).items():
        TASKS.labels(name).set(count)
    measure_pools(state)


def measure_pools(state: State) -> None:
    """Set the gauges of the first METRIC_POOLS pools, breadth first."""
    POOLS.set(len(state.pools) - 1)
    tree = state.pool_tree()
    pools, configs = [state.pools[pool_id] for pool_id in tree.ids], state.configs()
    summed = usage(tree, pools)
    allocated, demand = (summed.held + summed.slack_held).tolist(), (summed.demand + summed.slack_demand).tolist()
    for one in OF_POOLS:
        one.clear()
    for number, pool in enumerate(pools[: METRIC_POOLS + 1]):
        path, config = path_of(pool.config.id, configs), pool.config
        amounts = (
            config.amounts("reservation"), config.amounts("limit"), pool.entitlement, allocated[number], demand[number]
        )  # fmt: skip
        for metric, of_kinds in zip(OF_POOLS, amounts, strict=True):
            for kind, amount in zip(KINDS, of_kinds, strict=True):
                metric.labels(path, kind).set(amount)
