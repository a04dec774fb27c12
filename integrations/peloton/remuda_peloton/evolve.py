"""Applies facts to the state. One function per kind of fact; it computes and never decides, and on a valid log it never
fails."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from . import facts
from .rules.admission import PENDING_QUEUE
from .rules.lifecycle import LAUNCHING, PENDING, PLACED, READY, RUNNING, UNALLOCATED, UNPLACED
from .rules.pools import ROOT, KindConfig
from .rules.resources import add, by_kind, subtract
from .rules.task import Task, of_task, traits
from .state import Gang, Pool, Run, State


def evolve(state: State, fact: facts.Fact) -> None:
    """Apply one fact. `state.now_ms` must be the time of its commit."""
    BY_FACT[type(fact)](state, fact)


def pool_created(state: State, fact: facts.PoolCreated) -> None:
    state.pools[fact.pool.id] = Pool(fact.pool)
    state.pools[fact.pool.parent].children[fact.pool.id] = None
    state.pools_changed()


def pool_updated(state: State, fact: facts.PoolUpdated) -> None:
    state.pools[fact.pool.id].configure(fact.pool)
    state.pools_changed()


def pool_deleted(state: State, fact: facts.PoolDeleted) -> None:
    pool = state.pools.pop(fact.pool_id)
    del state.pools[pool.config.parent].children[fact.pool_id]
    state.pools_changed()


def capacity_changed(state: State, fact: facts.CapacityChanged) -> None:
    """Root's reservation and limit are the capacity."""
    state.capacity, state.slack_cpu = fact.capacity, fact.slack_cpu
    root = state.pools[ROOT]
    resources = tuple(KindConfig(kind, amount, amount) for kind, amount in by_kind(fact.capacity).items())
    root.configure(msgspec.structs.replace(root.config, resources=resources))


def entitlements_changed(state: State, fact: facts.EntitlementsChanged) -> None:
    for one in fact.pools:
        pool = state.pools[one.pool_id]
        pool.entitlement, pool.non_slack, pool.slack = one.entitlement, one.non_slack, one.slack


def over_allocation_counted(state: State, fact: facts.OverAllocationCounted) -> None:
    state.pools[fact.pool_id].over_count = fact.count


def hosts_put(state: State, fact: facts.HostsPut) -> None:
    for host in fact.hosts:
        state.known_hosts[host.hostname] = host
        state.host_changed(host.hostname)


def hosts_removed(state: State, fact: facts.HostsRemoved) -> None:
    for hostname in fact.hostnames:
        if (run := state.reserved.get(hostname)) is not None:
            end_reservation(state, run)
        del state.known_hosts[hostname], state.host_changes[hostname]


def hosts_shared(state: State, fact: facts.HostsShared) -> None:
    state.shared[fact.shared.name] = fact.shared


def shared_placed(state: State, fact: facts.SharedPlaced) -> None:
    state.shared[fact.name] = msgspec.structs.replace(state.shared[fact.name], placed=fact.number)


def host_reserved(state: State, fact: facts.HostReserved) -> None:
    run = state.runs[fact.task_id]
    end_reservation(state, run)
    run.reserved_host = fact.hostname
    state.reserved[fact.hostname] = run
    state.host_changed(fact.hostname)
    run.reason = f"{fact.hostname} is reserved for it"


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
    """The run is on the host from now on, without ports. `hostname`: empty: the run is on no host."""
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


BY_FACT: Final[dict[type[facts.Fact], Callable[[State, Any], None]]] = {
    facts.PoolCreated: pool_created,
    facts.PoolUpdated: pool_updated,
    facts.PoolDeleted: pool_deleted,
    facts.CapacityChanged: capacity_changed,
    facts.EntitlementsChanged: entitlements_changed,
    facts.OverAllocationCounted: over_allocation_counted,
    facts.GangEnqueued: gang_enqueued,
    facts.GangReduced: gang_reduced,
    facts.GangMoved: gang_moved,
    facts.GangAdmitted: gang_admitted,
    facts.GangDequeued: gang_dequeued,
    facts.TaskRequeued: task_requeued,
    facts.GangRequeued: gang_requeued,
    facts.PlacementQueued: placement_queued,
    facts.PlacementTaken: placement_taken,
    facts.CandidateQueued: candidate_queued,
    facts.CandidatesTaken: candidates_taken,
    facts.TaskMoved: task_moved,
    facts.RunEnded: run_ended,
    facts.RunRecovered: run_recovered,
    facts.HostsPut: hosts_put,
    facts.HostsRemoved: hosts_removed,
    facts.HostReserved: host_reserved,
    facts.HostsShared: hosts_shared,
    facts.SharedPlaced: shared_placed,
    facts.HostsRanked: hosts_ranked,
    facts.EventsAcknowledged: events_acknowledged,
    facts.TimePassed: time_passed,
}
