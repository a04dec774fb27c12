"""Reports of host managers and job managers about runs: single updates, kills, and comparisons with all runs of a host
or a pool.

Each host, each pool, and each range of runs of a pool is complete in a comparison. A run that may be newer than the
report is not ended: the sender has begun to read its runs after `as_of_ms`, a time of the resource manager.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from itertools import islice
from typing import Final

from ..commands import (
    HOST_MAINTENANCE,
    KillTasks,
    NotifyTaskUpdates,
    Reconciled,
    ReconcileHosts,
    ReconcilePools,
    Report,
    UpdateTasksState,
)
from ..facts import EventsAcknowledged, Fact, RunEnded, TaskMoved
from ..limits import LIMIT_PER_CALL
from ..rules.lifecycle import (
    FAILED,
    KILLED,
    LAUNCHED,
    LAUNCHING,
    LOST,
    ON_HOST,
    RUNNING,
    STARTING,
    SUCCEEDED,
    TERMINAL,
    UPDATES,
    due_ms,
)
from ..rules.ranges import Ranges
from ..settings import Settings
from ..state import Run, State
from .preemption import evict

# States of tasks by Mesos' states. Those in which Mesos has no task any more are LOST.
BY_MESOS: Final = {
    "TASK_STAGING": LAUNCHED,
    "TASK_STARTING": STARTING,
    "TASK_RUNNING": RUNNING,
    "TASK_KILLING": RUNNING,
    "TASK_FINISHED": SUCCEEDED,
    "TASK_FAILED": FAILED,
    "TASK_ERROR": FAILED,
    "TASK_KILLED": KILLED,
    "TASK_LOST": LOST,
    "TASK_DROPPED": LOST,
    "TASK_UNREACHABLE": LOST,
    "TASK_GONE": LOST,
    "TASK_GONE_BY_OPERATOR": LOST,
    "TASK_UNKNOWN": LOST,
}


def notify_task_updates(state: State, settings: Settings, command: NotifyTaskUpdates) -> Generator[Fact, None, int]:
    """Move or end runs as the events say. Every event is acknowledged, also an event about an unknown run."""
    for event in command.events:
        task_id, to = state.task_of.get(event.run_id), BY_MESOS.get(event.mesos_state)
        if task_id is None or to is None:
            continue
        if to in TERMINAL:
            yield RunEnded(task_id, event.run_id, to, event.mesos_state)
            continue
        run = state.run_of(task_id, event.run_id) or state.orphans.get(event.run_id)
        if to == RUNNING and run is not None and RUNNING in UPDATES.get(run.state, ()):
            yield TaskMoved(task_id, event.run_id, RUNNING, event.mesos_state)
            yield from _leave_draining(state, settings, run)
    acknowledged = max((event.offset for event in command.events), default=state.acknowledged)
    if acknowledged != state.acknowledged:
        yield EventsAcknowledged(acknowledged)
    return acknowledged


def update_tasks_state(state: State, settings: Settings, command: UpdateTasksState) -> Generator[Fact, None, None]:
    """Terminal states end the run, also an orphan. Others only move it where no queue is concerned."""
    for update in command.updates:
        if update.state in TERMINAL:
            if state.task_of.get(update.run_id) == update.task_id:
                yield RunEnded(update.task_id, update.run_id, update.state, "reported by the job manager")
            continue
        run = state.run_of(update.task_id, update.run_id)
        if run is not None and update.state in UPDATES.get(run.state, ()):
            at_ms = due_ms(state.now_ms, update.state, settings)
            yield TaskMoved(update.task_id, update.run_id, update.state, "reported by the job manager", at_ms)
            yield from _leave_draining(state, settings, run)


def _leave_draining(state: State, settings: Settings, run: Run) -> Generator[Fact, None, None]:
    """A run that was launched on a host before it began to drain: it is preempted once it runs."""
    host = state.known_hosts.get(run.hostname)
    if run.state == RUNNING and host is not None and host.draining:
        yield from evict(state, settings, (run,), HOST_MAINTENANCE)


def kill_tasks(state: State, settings: Settings, command: KillTasks) -> Generator[Fact, None, tuple[str, ...]]:
    unknown: list[str] = []
    for task_id in command.task_ids:
        run = state.runs.get(task_id)
        if run is None:
            unknown.append(task_id)
        else:
            yield RunEnded(task_id, run.task.mesos_id, KILLED, "killed by the job manager")
    return tuple(unknown)


def reconcile_hosts(state: State, settings: Settings, command: ReconcileHosts) -> Generator[Fact, None, Reconciled]:
    """Runs, also orphans, that their host does not have any more are LOST. `unknown` are those that the host should not
    have."""
    before_ms, unknown, lost = _before_ms(state, settings, command.as_of_ms), list[str](), list[Run]()
    for hostname, (reported, _) in _by_name(command.reports).items():
        here = state.hosts.get(hostname, {})
        lost.extend(
            run for run_id, run in here.items()
            if run_id not in reported and run.state in ON_HOST and run.since_ms < before_ms
        )  # fmt: skip
        unknown.extend(
            run_id for run_id in reported
            if (run := here.get(run_id)) is None or run.state not in ON_HOST | {LAUNCHING}
        )  # fmt: skip
    ended = yield from _end(lost, LOST, "its host does not have it")
    return Reconciled(state.now_ms, tuple(unknown), ended)


def reconcile_pools(state: State, settings: Settings, command: ReconcilePools) -> Generator[Fact, None, Reconciled]:
    """Tracked runs of which their job manager does not know are KILLED. Orphans end when their host says so. `unknown`
    are runs that were lost here, and have to be enqueued again."""
    before_ms, unknown, leaked = _before_ms(state, settings, command.as_of_ms), list[str](), list[Run]()
    for pool_id, (reported, ranges) in _by_name(command.reports).items():
        pool = state.pools.get(pool_id)
        leaked.extend(
            run for run in (pool.runs.values() if pool is not None else ())
            if (run_id := run.task.mesos_id) in ranges and run_id not in reported and run.known_ms < before_ms
        )  # fmt: skip
        unknown.extend(run_id for run_id in reported if run_id not in state.task_of)
    ended = yield from _end(leaked, KILLED, "no job manager knows it")
    return Reconciled(state.now_ms, tuple(unknown), ended)


def _by_name(reports: Iterable[Report]) -> dict[str, tuple[Collection[str], Ranges]]:
    """The runs of each host or pool, in order, and the ranges in which they are all."""
    together: dict[str, list[Report]] = {}
    for report in reports:
        together.setdefault(report.name, []).append(report)
    return {
        name: (dict.fromkeys(run_id for one in its for run_id in one.run_ids), Ranges(one.within for one in its))
        for name, its in together.items()
    }


def _before_ms(state: State, settings: Settings, as_of_ms: int) -> int:
    """The time before which a run must have been as it is now to be compared."""
    return min(as_of_ms, state.now_ms) - int(settings.reconciliation_age_s * 1_000)


def _end(runs: Iterable[Run], to: str, reason: str) -> Generator[Fact, None, tuple[str, ...]]:
    """End at most LIMIT_PER_CALL runs; the next report ends the rest."""
    ended: list[str] = []
    for run in islice(runs, LIMIT_PER_CALL):
        yield RunEnded(run.task.id, run.task.mesos_id, to, reason)
        ended.append(run.task.mesos_id)
    return tuple(ended)
