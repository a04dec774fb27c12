"""Reports of what host managers and job managers know, compared with the runs that are known here.

Each host and each pool of a report is complete. Nothing is ended that may be newer than the report: its sender has
begun to read what it knows after `as_of_ms`, a time that the resource manager has told it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final

from ..commands import Reconciled, ReconcileHosts, ReconcilePools
from ..facts import Fact, RunEnded
from ..limits import LIMIT_PER_CALL
from ..rules.lifecycle import KILLED, KILLING, LAUNCHED, LAUNCHING, LOST, PREEMPTING, RUNNING, STARTING
from ..settings import Settings
from ..state import Run, State

# States in which a host has the run.
ON_HOST: Final = frozenset({LAUNCHED, STARTING, RUNNING, PREEMPTING, KILLING})


def reconcile_hosts(state: State, settings: Settings, command: ReconcileHosts) -> Generator[Fact, None, Reconciled]:
    """Runs, also orphans, that their host does not have any more are LOST. `unknown` are those that the host should not
    have."""
    before_ms, unknown, lost = _before_ms(state, settings, command.as_of_ms), list[str](), list[Run]()
    for report in command.reports:
        reported = frozenset(report.run_ids)
        here = state.hosts.get(report.name, {})
        lost.extend(
            run for run_id, run in here.items()
            if run_id not in reported and run.state in ON_HOST and run.since_ms < before_ms
        )  # fmt: skip
        unknown.extend(
            run_id for run_id in report.run_ids
            if (run := here.get(run_id)) is None or run.state not in ON_HOST | {LAUNCHING}
        )  # fmt: skip
    ended = yield from _end(lost, LOST, "its host does not have it")
    return Reconciled(state.now_ms, tuple(unknown), ended)


def reconcile_pools(state: State, settings: Settings, command: ReconcilePools) -> Generator[Fact, None, Reconciled]:
    """Tracked runs of which their job manager does not know are KILLED. Orphans end when their host says so. `unknown`
    are runs that were lost here, and have to be enqueued again."""
    before_ms, unknown, leaked = _before_ms(state, settings, command.as_of_ms), list[str](), list[Run]()
    for report in command.reports:
        reported = frozenset(report.run_ids)
        pool = state.pools.get(report.name)
        leaked.extend(
            run for run in (pool.runs.values() if pool is not None else ())
            if run.task.mesos_id not in reported and run.known_ms < before_ms
        )  # fmt: skip
        unknown.extend(run_id for run_id in report.run_ids if run_id not in state.task_of)
    ended = yield from _end(leaked, KILLED, "no job manager knows it")
    return Reconciled(state.now_ms, tuple(unknown), ended)


def _before_ms(state: State, settings: Settings, as_of_ms: int) -> int:
    """Only what was so before this time is compared."""
    return min(as_of_ms, state.now_ms) - int(settings.reconciliation_age_s * 1_000)


def _end(runs: Iterable[Run], to: str, reason: str) -> Generator[Fact, None, tuple[str, ...]]:
    """The next report ends the rest."""
    ended: list[str] = []
    for run in _once(runs):
        yield RunEnded(run.task.id, run.task.mesos_id, to, reason)
        ended.append(run.task.mesos_id)
    return tuple(ended)


def _once(runs: Iterable[Run]) -> Iterator[Run]:
    """A report may name a host or a pool twice."""
    return islice({run.task.mesos_id: run for run in runs}.values(), LIMIT_PER_CALL)
