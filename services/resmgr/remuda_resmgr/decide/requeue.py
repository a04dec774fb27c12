"""How a task goes back that was not placed or not launched."""

from __future__ import annotations

from ..facts import TaskRequeued
from ..rules.backoff import all_cycles_complete, cycle_complete
from ..rules.lifecycle import PENDING, READY
from ..settings import Settings
from ..state import Run, State


def requeued(
    state: State, run: Run, to: str, reason: str, ready_for_host_reservation: bool = False, reset: bool = False
) -> TaskRequeued:
    """The task goes back alone, as a gang of one."""
    task = run.task
    number = state.last_number + 1
    return TaskRequeued(task.id, task.mesos_id, to, number, reason, ready_for_host_reservation, reset)


def after_failed_placement(state: State, settings: Settings, run: Run, reason: str) -> TaskRequeued:
    """Back to READY; when the attempts of the cycle are used up, to PENDING."""
    return requeued(state, run, PENDING if cycle_complete(run.attempts, settings) else READY, reason)


def after_placing_timeout(state: State, settings: Settings, run: Run) -> TaskRequeued:
    """Like a failed placement; but when all cycles are used up, the task asks for the reservation of a host."""
    reason = "placing timed out"
    if settings.enable_host_reservation and all_cycles_complete(run.attempts, run.cycles, settings):
        return requeued(state, run, READY, reason, ready_for_host_reservation=True)
    return after_failed_placement(state, settings, run, reason)
