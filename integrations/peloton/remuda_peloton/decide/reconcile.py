"""Reports of what host managers and job managers know, compared with the runs that are known here.

Each host, each pool, and each range of runs of a pool is complete in a report. Nothing is ended that may be newer than
the report: its sender has begun to read what it knows after `as_of_ms`, a time that the resource manager has told it.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from itertools import islice

from ..commands import Reconciled, ReconcileHosts, ReconcilePools, Report
from ..facts import Fact, RunEnded
from ..limits import LIMIT_PER_CALL
from ..rules.lifecycle import KILLED, LAUNCHING, LOST, ON_HOST
from ..rules.ranges import Ranges
from ..settings import Settings
from ..state import Run, State


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
    """Only what was so before this time is compared."""
    return min(as_of_ms, state.now_ms) - int(settings.reconciliation_age_s * 1_000)


def _end(runs: Iterable[Run], to: str, reason: str) -> Generator[Fact, None, tuple[str, ...]]:
    """The next report ends the rest."""
    ended: list[str] = []
    for run in islice(runs, LIMIT_PER_CALL):
        yield RunEnded(run.task.id, run.task.mesos_id, to, reason)
        ended.append(run.task.mesos_id)
    return tuple(ended)
