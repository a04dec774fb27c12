"""EnqueueGangs puts gangs into the queues of a leaf; an admission pass makes them READY while the leaf has room."""

from __future__ import annotations

from collections.abc import Generator

from ..commands import ALREADY_EXIST, GANG_FAILED, INTERNAL, Admit, Enqueued, EnqueueGangs, TaskFailure
from ..facts import Fact, GangAdmitted, GangEnqueued, GangMoved, GangReduced
from ..limits import LOOKS_PER_LEAF, READY_GANGS
from ..rules.admission import ADMITTED, FULL, INVALID, QUEUES, SKIPPED, obstacle, queue_aside
from ..rules.lifecycle import REPLACEABLE
from ..rules.task import Task, problem_of, traits
from ..settings import Settings
from ..state import Gang, Pool, State


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


def admit(state: State, settings: Settings, command: Admit) -> Generator[Fact, None, int]:
    """Leaves in the order in which they began to wait. Only gangs hold each other up, and only in their leaf."""
    admitted = 0
    for pool_id in list(state.waiting) if command.pool_ids is None else command.pool_ids:
        if pool_id not in state.waiting:
            continue
        admitted += len((yield from admit_in(state, settings, state.pools[pool_id], LOOKS_PER_LEAF)))
    return admitted


def admit_in(state: State, settings: Settings, pool: Pool, limit: int) -> Generator[Fact, None, list[int]]:
    """One pass over one leaf: the numbers of the gangs that were admitted. `limit`: how many gangs it looks at."""
    admitted: list[int] = []
    looks = 0
    for name in QUEUES:
        while looks < limit and state.ready_count < READY_GANGS:
            number = pool.queues[name].first()
            if number is None:
                break
            result = yield from try_admit(state, settings, state.gangs[number])
            looks += result == ADMITTED or not settings.count_admitted_only
            if result == ADMITTED:
                admitted.append(number)
            elif result == FULL:
                break
    return admitted


def try_admit(state: State, settings: Settings, gang: Gang) -> Generator[Fact, None, str]:
    """One attempt to admit a gang. Returns ADMITTED; INVALID: it has lost members, and queues anew without them; FULL:
    it waits where it is; or how it has stepped aside."""
    members = state.members(gang)
    if len(members) < len(gang.tasks):
        yield GangReduced(gang.number, settings.survivors_keep_their_place)
        return INVALID
    pool, gang_traits = state.pools[gang.pool_id], traits(gang.tasks)
    if obstacle(gang_traits, pool.room(), settings.preemption_enabled) is None:
        yield GangAdmitted(gang.number)
        return ADMITTED
    queue = queue_aside(gang_traits, gang.queue, settings.preemption_enabled)
    if queue == gang.queue:
        return FULL
    yield GangMoved(gang.number, queue)
    return SKIPPED[queue]
