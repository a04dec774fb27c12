"""Hosts in the order in which they are best drained: those that lose the least batch work first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .lifecycle import LAUNCHED, RUNNING, STARTING

COUNTED: Final = frozenset({LAUNCHED, STARTING, RUNNING})
BATCH: Final = 1


class HostTask(msgspec.Struct, frozen=True):
    """`run_time_s`: None: it does not run yet."""

    pool_id: str
    type: int
    state: str
    priority: int
    preemptible: bool
    controller: bool
    run_time_s: float | None = None


def order(hosts: Sequence[str], tasks: Mapping[str, Sequence[HostTask]]) -> list[str]:
    """Hosts without tasks first, as listed; then, without hosts that have a task that is not preemptible, by
    controllers, tasks, priorities relative to the highest of their pools, and mean run time. Only batch tasks count."""
    counted = {host: [task for task in tasks.get(host, ()) if _counts(task)] for host in hosts}
    highest: dict[str, int] = {}
    for each in counted.values():
        for task in each:
            highest[task.pool_id] = max(highest.get(task.pool_id, 0), task.priority)
    top = max(highest.values(), default=0)
    idle = [host for host in hosts if not tasks.get(host)]
    busy = [host for host in hosts if tasks.get(host) and all(task.preemptible for task in counted[host])]
    return [*idle, *sorted(busy, key=lambda host: _cost(counted[host], highest, top))]


def _counts(task: HostTask) -> bool:
    return task.type == BATCH and task.state in COUNTED


def _cost(tasks: Sequence[HostTask], highest: Mapping[str, int], top: int) -> tuple[int, int, float, float]:
    weights = {pool: top / most if most else 0.0 for pool, most in highest.items()}
    run_times = [task.run_time_s for task in tasks if task.run_time_s is not None]
    return (
        sum(task.controller for task in tasks),
        len(tasks),
        sum(task.priority * weights[task.pool_id] for task in tasks),
        sum(run_times) / len(run_times) if run_times else 0.0,
    )
