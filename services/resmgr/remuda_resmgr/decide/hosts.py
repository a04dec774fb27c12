"""Hosts: draining, ranking for it, and the recovery of runs that a host manager reports."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import HOST_MAINTENANCE, DrainHosts, RankHosts, RecoverRuns
from ..facts import Fact, HostsRanked, RunRecovered
from ..rules.host_scores import HostTask, order
from ..rules.lifecycle import TERMINAL, UNALLOCATED
from ..settings import Settings
from ..state import Run, State
from .preemption import evict


def drain_hosts(state: State, settings: Settings, command: DrainHosts) -> Generator[Fact, None, tuple[str, ...]]:
    empty: list[str] = []
    for hostname in command.hostnames:
        runs = list(state.hosts.get(hostname, {}).values())
        if runs:
            yield from evict(state, runs, HOST_MAINTENANCE)
        if hostname not in state.hosts:
            empty.append(hostname)
    return tuple(empty)


def rank_hosts(state: State, settings: Settings, command: RankHosts) -> Generator[Fact, None, None]:
    tasks = {
        hostname: [_host_task(run, state.now_ms) for run in state.hosts.get(hostname, {}).values()]
        for hostname in command.hostnames
    }
    ranked = tuple(order(command.hostnames, tasks))
    if ranked != state.ranked_hosts:
        yield HostsRanked(ranked)


def recover_runs(state: State, settings: Settings, command: RecoverRuns) -> Generator[Fact, None, None]:
    """Runs of pools that do not exist, of states without an allocation, and runs that are known are left alone."""
    for one in command.runs:
        known = one.task.id in state.runs or one.task.mesos_id in state.task_of
        if not known and one.pool_id in state.pools and one.state not in TERMINAL | UNALLOCATED:
            yield RunRecovered(one.task, one.pool_id, one.state, one.started_ms)


def _host_task(run: Run, now_ms: int) -> HostTask:
    task = run.task
    run_time_s = (now_ms - run.started_ms) / 1_000 if run.started_ms else None
    return HostTask(run.pool_id, task.type, run.state, task.priority, task.preemptible, task.controller, run_time_s)
