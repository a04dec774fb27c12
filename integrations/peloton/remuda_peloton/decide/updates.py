"""NotifyTaskUpdates, UpdateTasksState, KillTasks: what host managers and job managers say about runs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ..commands import HOST_MAINTENANCE, KillTasks, NotifyTaskUpdates, UpdateTasksState
from ..facts import EventsAcknowledged, Fact, RunEnded, TaskMoved
from ..rules.lifecycle import (
    FAILED,
    KILLED,
    LAUNCHED,
    LOST,
    RUNNING,
    STARTING,
    SUCCEEDED,
    TERMINAL,
    UPDATES,
    timeout_ms,
)
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
    """Every event is acknowledged, also one about a run that is not known."""
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
            lasts_ms = timeout_ms(update.state, settings)
            due_ms = state.now_ms + lasts_ms if lasts_ms else 0
            yield TaskMoved(update.task_id, update.run_id, update.state, "reported by the job manager", due_ms)
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
