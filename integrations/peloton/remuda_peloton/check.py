"""Invariants of a state, as assertions. Sums are computed afresh and compared."""

from __future__ import annotations

from .rules.admission import QUEUES
from .rules.lifecycle import PENDING, PLACED, PLACING, READY, RESERVED, TERMINAL, UNALLOCATED
from .rules.resources import Vector, total
from .rules.task import Allocation, of_task
from .state import Pool, State

# Sums of doubles in another order differ by less than this.
CLOSE = 0.01


def check(state: State) -> None:
    """Check the sums and indexes of a state against its runs and gangs. Raises AssertionError."""
    _check_runs(state)
    _check_gangs(state)
    for pool in state.pools.values():
        _check_pool(state, pool)
    on_hosts = {run_id: host for host, runs in state.hosts.items() for run_id in runs}
    held = {run.task.mesos_id: run.hostname for run in (*state.runs.values(), *state.orphans.values()) if run.hostname}
    assert on_hosts == held, (on_hosts, held)
    taken = {run.task.id: run.taken_in for run in state.runs.values() if run.taken_in}
    assert taken == {task_id: number for number, runs in state.taken.items() for task_id in runs}
    reserved = {run.reserved_host: run for run in state.runs.values() if run.reserved_host}
    assert reserved == state.reserved and reserved.keys() <= state.known_hosts.keys()
    assert all(run.state == RESERVED for run in reserved.values())
    assert state.known_hosts.keys() == state.host_changes.keys()
    assert list(state.host_changes.values()) == sorted(state.host_changes.values())


def _check_runs(state: State) -> None:
    known = {run.task.mesos_id: run.task.id for run in (*state.runs.values(), *state.orphans.values())}
    assert state.task_of == known
    for task_id, run in state.runs.items():
        assert run.task.id == task_id and run.state not in TERMINAL
        assert state.pools[run.pool_id].runs[task_id] is run
        assert (run.gang > 0) == (run.state in (PENDING, READY)), (task_id, run.state, run.gang)
        assert (run.placement > 0) == (run.state == PLACED), (task_id, run.state, run.placement)
        assert not run.taken_in or run.state in (PLACING, RESERVED), (task_id, run.state)
        if run.gang:
            assert run.task in state.gangs[run.gang].tasks
            assert (state.gangs[run.gang].queue == READY) == (run.state == READY)
        if run.placement:
            assert (task_id, run.task.mesos_id) in state.placements[run.placement].tasks
        if run.due_ms:
            assert (run.due_ms, task_id, run.task.mesos_id) in state.timers


def _check_gangs(state: State) -> None:
    ready = [number for queue in state.ready.values() for number in queue]
    assert state.ready_count == len(ready)
    waiting = {number for number, gang in state.gangs.items() if gang.queue == READY}
    assert set(ready) == waiting
    assert max(state.gangs, default=0) <= state.last_number


def _check_pool(state: State, pool: Pool) -> None:
    runs = [one for one in (*state.runs.values(), *state.orphans.values()) if one.pool_id == pool.config.id]
    allocation = Allocation()
    for run in runs:
        if run.state not in UNALLOCATED:
            allocation = allocation.plus(of_task(run.task))
    for field in allocation.__struct_fields__:
        _close(getattr(pool.allocation, field), getattr(allocation, field), pool, field)
    gangs = [state.gangs[number] for name in QUEUES for number in pool.queues[name]]
    assert all(gang.pool_id == pool.config.id and gang.queue in QUEUES for gang in gangs)
    assert (pool.config.id in state.waiting) == bool(gangs)
    for revocable, demand in ((False, pool.demand), (True, pool.slack_demand)):
        wanted = total(gang.traits.resource for gang in gangs if gang.tasks[0].revocable == revocable)
        _close(demand, wanted, pool, f"demand, revocable {revocable}")


def _close(held: Vector, computed: Vector, pool: Pool, what: str) -> None:
    close = all(abs(a - b) < CLOSE for a, b in zip(held, computed, strict=True))
    assert close, (pool.config.id, what, held, computed)
