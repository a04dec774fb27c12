"""EnqueueGangs: each gang is accepted or refused by itself, and as a whole."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import ALREADY_EXIST, GANG_FAILED, INTERNAL, Enqueued, EnqueueGangs, TaskFailure
from ..facts import GangEnqueued
from ..rules.lifecycle import REPLACEABLE
from ..rules.task import Task, problem_of
from ..settings import Settings
from ..state import State


def enqueue_gangs(state: State, settings: Settings, command: EnqueueGangs) -> Generator[GangEnqueued, None, Enqueued]:
    pool = state.pools.get(command.pool_id)
    if pool is None:
        return Enqueued(False)
    failures: list[TaskFailure] = []
    for tasks in command.gangs:
        if not tasks:
            continue
        if not pool.is_leaf:
            message = f"pool {command.pool_id} is root or has children, expected a leaf"
            failures.extend(TaskFailure(task, GANG_FAILED, message) for task in tasks)
            continue
        refused = _refusals(state, tasks)
        if refused:
            failures.extend(refused)
        else:
            yield GangEnqueued(state.last_number + 1, command.pool_id, tasks, command.reason)
    return Enqueued(True, tuple(failures))


def _refusals(state: State, tasks: tuple[Task, ...]) -> list[TaskFailure]:
    """Why the tasks cannot be enqueued as a gang; empty: they can. A refused gang leaves nothing behind."""
    problems = [_problem(state, task, tasks[:place]) for place, task in enumerate(tasks)]
    if not any(problems):
        return []
    message = "another task of the gang was refused"
    return [
        TaskFailure(task, *(problem or (GANG_FAILED, message))) for task, problem in zip(tasks, problems, strict=True)
    ]


def _problem(state: State, task: Task, before: tuple[Task, ...]) -> tuple[str, str] | None:
    if why := problem_of(task):
        return INTERNAL, why
    if any(other.id == task.id for other in before):
        return ALREADY_EXIST, f"task {task.id} is in the gang twice"
    if any(other.mesos_id == task.mesos_id for other in before):
        return ALREADY_EXIST, f"run {task.mesos_id} is in the gang twice"
    run = state.runs.get(task.id)
    if task.mesos_id in state.task_of:
        return ALREADY_EXIST, f"run {task.mesos_id} is known already"
    if run is not None and run.state not in REPLACEABLE:
        states = " or ".join(sorted(REPLACEABLE))
        return INTERNAL, f"run {run.task.mesos_id} of the task is {run.state}, expected {states} for a new run"
    return None
