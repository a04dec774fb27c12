"""Facts about single runs. `enter` and `forget` keep allocations, hosts and timers in step with states."""

from __future__ import annotations

from heapq import heappop, heappush

from .. import facts
from ..rules.allocation import of_task
from ..rules.lifecycle import RUNNING, UNALLOCATED, UNPLACED
from ..state import Run, State


def track(state: State, run: Run) -> None:
    """Track a run. The task's former run, if there is one, becomes an orphan, and keeps its allocation."""
    former = state.runs.get(run.task.id)
    if former is not None:
        state.orphans[former.task.mesos_id] = former
        former.due_ms = 0
    state.runs[run.task.id] = state.pools[run.pool_id].runs[run.task.id] = run
    if former is not None and former.pool_id != run.pool_id:
        del state.pools[former.pool_id].runs[run.task.id]
    state.task_of[run.task.mesos_id] = run.task.id
    if run.state not in UNALLOCATED:
        _allocate(state, run)
    if run.hostname:
        state.hosts.setdefault(run.hostname, {})[run.task.mesos_id] = run
        state.host_changed(run.hostname)


def enter(state: State, run: Run, to: str, due_ms: int, reason: str) -> None:
    """Change the state of a run, with its allocation and its timer."""
    held, holds = run.state not in UNALLOCATED, to not in UNALLOCATED
    if run.hostname and (run.state in UNPLACED) != (to in UNPLACED):
        state.host_changed(run.hostname)
    run.state, run.since_ms, run.due_ms = to, state.now_ms, due_ms
    run.reason = reason
    leave_engine(state, run)
    end_reservation(state, run)
    if holds and not held:
        _allocate(state, run)
    elif held and not holds:
        _deallocate(state, run)
    if to == RUNNING:
        run.started_ms = state.now_ms
    if due_ms:
        heappush(state.timers, (due_ms, run.task.id, run.task.mesos_id))


def leave_engine(state: State, run: Run) -> None:
    """The engine that may have the run has it no more."""
    if run.taken_in:
        together = state.taken[run.taken_in]
        del together[run.task.id]
        if not together:
            del state.taken[run.taken_in]
        run.taken_in = 0


def end_reservation(state: State, run: Run) -> None:
    if run.reserved_host:
        del state.reserved[run.reserved_host]
        state.host_changed(run.reserved_host)
        run.reserved_host = ""


def put_on_host(state: State, run: Run, hostname: str) -> None:
    """`hostname`: empty: the run is on no host. It has no ports there yet."""
    _off_host(state, run)
    run.hostname, run.ports = hostname, ()
    if hostname:
        state.hosts.setdefault(hostname, {})[run.task.mesos_id] = run
        state.host_changed(hostname)


def task_moved(state: State, fact: facts.TaskMoved) -> None:
    run = state.run_of(fact.task_id, fact.run_id) or state.orphans[fact.run_id]
    enter(state, run, fact.state, fact.due_ms, fact.reason)


def run_ended(state: State, fact: facts.RunEnded) -> None:
    run = state.orphans.pop(fact.run_id, None)
    if run is None:
        run = state.runs.pop(fact.task_id)
        del state.pools[run.pool_id].runs[fact.task_id]
    if run.state not in UNALLOCATED:
        _deallocate(state, run)
    del state.task_of[fact.run_id]
    _off_host(state, run)
    leave_engine(state, run)
    end_reservation(state, run)
    run.gang = run.placement = run.due_ms = 0


def run_recovered(state: State, fact: facts.RunRecovered) -> None:
    run = Run(fact.task, fact.pool_id, fact.state, state.now_ms, "recovered")
    run.started_ms = fact.started_ms
    track(state, run)


def hosts_ranked(state: State, fact: facts.HostsRanked) -> None:
    state.ranked_hosts = fact.hosts


def events_acknowledged(state: State, fact: facts.EventsAcknowledged) -> None:
    state.acknowledged = fact.offset


def time_passed(state: State, fact: facts.TimePassed) -> None:
    """Drop the timers that have been handled. Those of the last moment that did not fit into the tick have run.due_ms
    unchanged, and stay."""
    while state.timers and state.timers[0][0] <= fact.until_ms:
        due_ms, task_id, run_id = heappop(state.timers)
        run = state.run_of(task_id, run_id)
        if run is not None and run.due_ms == due_ms:
            heappush(state.timers, (due_ms, task_id, run_id))
            break


def _off_host(state: State, run: Run) -> None:
    runs = state.hosts.get(run.hostname)
    if runs is not None and runs.pop(run.task.mesos_id, None) is not None:
        state.host_changed(run.hostname)
        if not runs:
            del state.hosts[run.hostname]


def _allocate(state: State, run: Run) -> None:
    pool = state.pools[run.pool_id]
    pool.allocation = pool.allocation.plus(of_task(run.task))


def _deallocate(state: State, run: Run) -> None:
    pool = state.pools[run.pool_id]
    pool.allocation = pool.allocation.minus(of_task(run.task))
