"""Facts about what waits: gangs, placements, and candidates for preemption."""

from __future__ import annotations

from collections import OrderedDict

from .. import facts
from ..rules.admission import PENDING_QUEUE
from ..rules.lifecycle import LAUNCHING, PENDING, PLACED, READY
from ..rules.resources import add, subtract
from ..rules.task import Task, traits
from ..state import Gang, Run, State
from .runs import enter, put_on_host, track


def gang_enqueued(state: State, fact: facts.GangEnqueued) -> None:
    for task in fact.tasks:
        track(state, Run(task, fact.pool_id, PENDING, state.now_ms, fact.reason))
    queue_gang(state, fact.number, fact.pool_id, fact.tasks, PENDING_QUEUE)


def gang_reduced(state: State, fact: facts.GangReduced) -> None:
    gang = state.gangs[fact.number]
    left = tuple(run.task for run in state.members(gang))
    gone = [task for task in gang.tasks if task not in left]
    for task in gone:
        _count_demand(state, gang.pool_id, (task,), gang.traits.revocable, -1)
    first = gang.tasks[0]
    if left and fact.keeps_place and (left[0].priority, left[0].revocable) == (first.priority, first.revocable):
        gang.tasks = left
        return
    queue = gang.queue
    unqueue(state, gang, gone)
    if left:
        queue_gang(state, gang.number, gang.pool_id, left, queue)


def gang_moved(state: State, fact: facts.GangMoved) -> None:
    gang = state.gangs[fact.number]
    queues, priority = state.pools[gang.pool_id].queues, gang.tasks[0].priority
    queues[gang.queue].remove(gang.number, priority)
    queues[fact.queue].add(gang.number, priority)
    gang.queue = fact.queue


def gang_admitted(state: State, fact: facts.GangAdmitted) -> None:
    gang = state.gangs[fact.number]
    unqueue(state, gang, [])
    members = state.members(gang)
    for run in members:
        enter(state, run, READY, 0, "admitted")
    make_ready(state, fact.number, gang.pool_id, members)


def gang_dequeued(state: State, fact: facts.GangDequeued) -> None:
    leave_ready(state, fact.number)
    for one in fact.tasks:
        run = state.runs[one.task_id]
        run.gang, run.timeout_s, run.attempts, run.cycles = 0, one.timeout_s, one.attempts, one.cycles
        enter(state, run, one.state, one.due_ms, "dequeued")
        run.taken_in = fact.number
        state.taken.setdefault(fact.number, {})[one.task_id] = run


def task_requeued(state: State, fact: facts.TaskRequeued) -> None:
    _requeue(state, fact, (state.runs[fact.task_id],))


def gang_requeued(state: State, fact: facts.GangRequeued) -> None:
    runs = tuple(state.runs[task_id] for task_id, _ in fact.tasks)
    if runs[0].gang:
        leave_ready(state, runs[0].gang)
    _requeue(state, fact, runs)


def _requeue(state: State, fact: facts.TaskRequeued | facts.GangRequeued, runs: tuple[Run, ...]) -> None:
    for run in runs:
        enter(state, run, fact.state, 0, fact.reason)
        put_on_host(state, run, "")
        run.placement, run.ready_for_host_reservation = 0, fact.ready_for_host_reservation
        if fact.reset:
            run.attempts = run.cycles = 0.0
    if fact.state == READY:
        make_ready(state, fact.number, runs[0].pool_id, runs)
    else:
        queue_gang(state, fact.number, runs[0].pool_id, tuple(run.task for run in runs), PENDING_QUEUE)


def placement_queued(state: State, fact: facts.PlacementQueued) -> None:
    state.placements[fact.number] = fact.placement
    state.last_number = max(state.last_number, fact.number)
    ports = list(fact.placement.ports)  # of the tasks, one after the other
    for task_id, _ in fact.placement.tasks:
        run = state.runs[task_id]
        enter(state, run, PLACED, fact.due_ms, "placed")
        put_on_host(state, run, fact.placement.hostname)
        run.placement = fact.number
        run.ports, ports = tuple(ports[: run.task.num_ports]), ports[run.task.num_ports :]


def placement_taken(state: State, fact: facts.PlacementTaken) -> None:
    for task_id, run_id in state.placements.pop(fact.number).tasks:
        run = state.run_of(task_id, run_id)
        if run is not None and run.state == PLACED and run.placement == fact.number:
            enter(state, run, LAUNCHING, fact.due_ms, "taken by the job manager")
            run.placement = 0


def candidate_queued(state: State, fact: facts.CandidateQueued) -> None:
    state.candidates[fact.run_id] = (fact.task_id, fact.reason)


def candidates_taken(state: State, fact: facts.CandidatesTaken) -> None:
    for _ in range(fact.count):
        state.candidates.popitem(last=False)


def make_ready(state: State, number: int, pool_id: str, runs: tuple[Run, ...]) -> None:
    """Put runs as a gang into the ready queue of its type."""
    tasks = tuple(run.task for run in runs)
    state.gangs[number] = Gang(number, pool_id, tasks, READY)
    state.last_number = max(state.last_number, number)
    state.ready.setdefault(tasks[0].type, OrderedDict())[number] = None
    state.ready_count += 1
    for run in runs:
        run.gang = number


def leave_ready(state: State, number: int) -> None:
    """Take a gang out of the ready queue of its type."""
    task_type = state.gangs.pop(number).tasks[0].type
    queue = state.ready[task_type]
    del queue[number]
    if not queue:
        del state.ready[task_type]
    state.ready_count -= 1


def queue_gang(state: State, number: int, pool_id: str, tasks: tuple[Task, ...], queue: str) -> None:
    """Put a gang at the end of its priority in a queue of its pool, and count its demand."""
    state.gangs[number] = Gang(number, pool_id, tasks, queue)
    state.last_number = max(state.last_number, number)
    state.pools[pool_id].queues[queue].add(number, tasks[0].priority)
    state.waiting[pool_id] = None
    for task in tasks:
        state.runs[task.id].gang = number
    _count_demand(state, pool_id, tasks, tasks[0].revocable, 1)


def unqueue(state: State, gang: Gang, gone: list[Task]) -> None:
    """Take a gang out of its queue, with its demand. `gone`: members whose demand is not counted any more."""
    pool = state.pools[gang.pool_id]
    del state.gangs[gang.number]
    pool.queues[gang.queue].remove(gang.number, gang.tasks[0].priority)
    left = tuple(task for task in gang.tasks if task not in gone)
    _count_demand(state, gang.pool_id, left, gang.tasks[0].revocable, -1)
    if not any(pool.queues.values()):
        state.waiting.pop(gang.pool_id, None)


def _count_demand(state: State, pool_id: str, tasks: tuple[Task, ...], revocable: bool, sign: int) -> None:
    if not tasks:
        return
    pool, amount = state.pools[pool_id], traits(tasks).resource
    change = add if sign > 0 else subtract
    if revocable:
        pool.slack_demand = change(pool.slack_demand, amount)
    else:
        pool.demand = change(pool.demand, amount)
