"""Tasks that go back to a queue: they were not placed, not launched, or their state has timed out."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush

from ..commands import Tick
from ..facts import Fact, GangRequeued, TaskMoved, TaskRequeued, TimePassed
from ..limits import TIMERS_PER_TICK
from ..rules.lifecycle import (
    LAUNCHING,
    PENDING,
    PLACED,
    PLACING,
    PREEMPTING,
    READY,
    RESERVED,
    RUNNING,
    all_cycles_complete,
    cycle_complete,
)
from ..settings import Settings
from ..state import Run, State

Requeued = TaskRequeued | GangRequeued


def requeued(
    state: State, settings: Settings, run: Run, to: str, reason: str, ready_for_host_reservation: bool = False,
    reset: bool = False,
) -> Requeued:  # fmt: skip
    """The task goes back alone, as a gang of one. With `whole_gangs`, those that are in a ready queue or with an engine
    together with it go back, too, in one gang."""
    number = state.last_number + 1
    together = _together(state, run) if settings.whole_gangs else (run,)
    if len(together) > 1:
        pairs = tuple((one.task.id, one.task.mesos_id) for one in together)
        return GangRequeued(pairs, to, number, reason, ready_for_host_reservation, reset)
    task = run.task
    return TaskRequeued(task.id, task.mesos_id, to, number, reason, ready_for_host_reservation, reset)


def after_failed_placement(state: State, settings: Settings, run: Run, reason: str) -> Requeued:
    """The task becomes READY again; when the attempts of the cycle are used up, PENDING."""
    if settings.reserve_after_failures and _needs_a_host(settings, run):
        return requeued(state, settings, run, READY, reason, ready_for_host_reservation=True)
    return requeued(state, settings, run, PENDING if cycle_complete(run.attempts, settings) else READY, reason)


def after_placing_timeout(state: State, settings: Settings, run: Run) -> Requeued:
    """The task goes back as after a failed placement; when all cycles are used up, the task asks for the reservation of
    a host."""
    reason = "placing timed out"
    if _needs_a_host(settings, run):
        return requeued(state, settings, run, READY, reason, ready_for_host_reservation=True)
    return after_failed_placement(state, settings, run, reason)


def _needs_a_host(settings: Settings, run: Run) -> bool:
    """All attempts of all cycles were in vain."""
    return settings.enable_host_reservation and all_cycles_complete(run.attempts, run.cycles, settings)


def _together(state: State, run: Run) -> tuple[Run, ...]:
    return state.members(state.gangs[run.gang]) if run.gang else state.taken_with(run)


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
    """The first `limit` timers that are due, in order. O(`limit` log `limit`), however many there are: in a heap, no
    timer is due before the one above it."""
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
