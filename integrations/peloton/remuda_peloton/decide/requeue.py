"""How a task goes back that was not placed or not launched."""

from __future__ import annotations

from ..facts import GangRequeued, TaskRequeued
from ..rules.backoff import all_cycles_complete, cycle_complete
from ..rules.lifecycle import PENDING, READY
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
    """Back to READY; when the attempts of the cycle are used up, to PENDING."""
    if settings.reserve_after_failures and _needs_a_host(settings, run):
        return requeued(state, settings, run, READY, reason, ready_for_host_reservation=True)
    return requeued(state, settings, run, PENDING if cycle_complete(run.attempts, settings) else READY, reason)


def after_placing_timeout(state: State, settings: Settings, run: Run) -> Requeued:
    """Like a failed placement; but when all cycles are used up, the task asks for the reservation of a host."""
    reason = "placing timed out"
    if _needs_a_host(settings, run):
        return requeued(state, settings, run, READY, reason, ready_for_host_reservation=True)
    return after_failed_placement(state, settings, run, reason)


def _needs_a_host(settings: Settings, run: Run) -> bool:
    """All attempts of all cycles were in vain."""
    return settings.enable_host_reservation and all_cycles_complete(run.attempts, run.cycles, settings)


def _together(state: State, run: Run) -> tuple[Run, ...]:
    return state.members(state.gangs[run.gang]) if run.gang else state.taken_with(run)
