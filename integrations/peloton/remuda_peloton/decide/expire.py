"""Time-outs: what happens to a task that has been in a state for too long."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush

from ..commands import Tick
from ..facts import Fact, TaskMoved, TimePassed
from ..limits import TIMERS_PER_TICK
from ..rules.lifecycle import LAUNCHING, PENDING, PLACED, PLACING, PREEMPTING, READY, RESERVED, RUNNING
from ..settings import Settings
from ..state import Run, State
from .requeue import after_placing_timeout, requeued


def tick(state: State, settings: Settings, command: Tick) -> Generator[Fact, None, None]:
    """Handle at most TIMERS_PER_TICK timers that are due. Timers of tasks that have gone on are dropped."""
    if not state.timers or state.timers[0][0] > state.now_ms:
        return
    due = due_timers(state, TIMERS_PER_TICK)
    for due_ms, task_id, run_id in due:
        run = state.run_of(task_id, run_id)
        if run is not None and run.due_ms == due_ms:
            yield expired(state, settings, run)
    yield TimePassed(due[-1][0] if len(due) == TIMERS_PER_TICK else state.now_ms)


def due_timers(state: State, limit: int) -> list[tuple[int, str, str]]:
    """Those that are due, the first ones first. O(`limit` log `limit`), however many there are: in a heap, no timer is
    due before the one above it."""
    heap, below = state.timers, [(state.timers[0], 0)]
    due: list[tuple[int, str, str]] = []
    while below and len(due) < limit:
        timer, place = heappop(below)
        if timer[0] > state.now_ms:
            break
        due.append(timer)
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(below, (heap[child], child))
    return due


def expired(state: State, settings: Settings, run: Run) -> Fact:
    """The fact that follows when the state of a run has timed out."""
    if run.state == PLACING:
        return after_placing_timeout(state, settings, run)
    if run.state == RESERVED:
        return requeued(state, settings, run, PENDING, "reserving a host timed out", reset=True)
    if run.state == PREEMPTING:
        return TaskMoved(run.task.id, run.task.mesos_id, RUNNING, "preempting timed out")
    if run.state in (LAUNCHING, PLACED):
        return requeued(state, settings, run, READY, f"{run.state.lower()} timed out")
    raise AssertionError(f"{run.state} has no time-out")
