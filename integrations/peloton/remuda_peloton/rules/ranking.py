"""Two rankings: the tasks of a pool in the order in which they are preempted, and hosts in the order in which they are
drained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from .lifecycle import LAUNCHED, LAUNCHING, PLACED, PLACING, READY, RESERVED, RUNNING, STARTING
from .resources import ZERO, Vector, subtract
from .task import Task

# States whose tasks are preempted: by Peloton, and with `preempt_all_states`. In the order in which they are preempted:
# the least work is lost first. A task that is RESERVED has waited through all cycles of one that is PLACING.
STATES: Final = (READY, PLACING, RUNNING)
ALL_STATES: Final = (READY, PLACING, RESERVED, PLACED, LAUNCHING, LAUNCHED, STARTING, RUNNING)


class Candidate(Protocol):
    """A task that may be preempted. `started_ms`: the time at which it entered RUNNING; 0: it has not."""

    task: Task
    state: str
    started_ms: int


C = TypeVar("C", bound=Candidate)


def victims(
    tasks: Iterable[C], non_slack: Vector, slack: Vector, fewest: bool = False, states: Sequence[str] = STATES
) -> list[C]:
    """The tasks to preempt, in order, to free `slack` from revocable tasks and `non_slack` from the others. `fewest`: a
    task is passed over if it frees nothing that is still to be freed; else if it frees nothing of what was at first."""
    ranked = sorted((one for one in tasks if one.task.preemptible and one.state in states), key=_rank)
    revocable = [one for one in ranked if one.task.revocable]
    others = [one for one in ranked if not one.task.revocable]
    return [*_free(revocable, slack, fewest), *_free(others, non_slack, fewest)]


def _rank(one: Candidate) -> tuple[int, int, int]:
    return ALL_STATES.index(one.state), one.task.priority, 0 if one.state == READY else -one.started_ms


def _free(ranked: list[C], wanted: Vector, fewest: bool) -> list[C]:
    chosen, left = [], subtract(wanted, ZERO)
    for one in ranked:
        if left == ZERO:
            break
        missing = left if fewest else wanted
        if any(has > 0 and lacks > 0 for has, lacks in zip(one.task.resource, missing, strict=True)):
            chosen.append(one)
            left = subtract(left, one.task.resource)
    return chosen


COUNTED: Final = frozenset({LAUNCHED, STARTING, RUNNING})
BATCH: Final = 1


class HostTask(msgspec.Struct, frozen=True):
    """A task on a host that may be drained. `run_time_s`: None: it does not run yet."""

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
