"""Writes facts into the state. One function per fact, arithmetic only: it never judges and, on a valid log, never
fails.

The scheduling index of a partition is told of what it has to know, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import facts
from .cycle.order import LeafOrder
from .limits import REFUSAL_KEPT_MS, REFUSALS_LAST_MS, RELEASE_OVERDUE_MS
from .rules import connection, lifecycle
from .rules.properties import is_priority_fence, priority_offset
from .rules.resource import Resource, add, items_of
from .settings import Timing
from .state import (
    NO_NODES,
    Alarm,
    Allocation,
    Application,
    Node,
    Partition,
    PendingAsk,
    Preemption,
    Question,
    Queue,
    RejectedApplication,
    Replacement,
    State,
    TaskGroup,
    Timers,
)
from .tracking import book, count_running, track, track_again, untrack


def evolve(state: State, fact: facts.Fact) -> None:
    """`state.now_ms` must be the time of the commit the fact is in."""
    BY_FACT[type(fact)](state, fact)


# Resource managers and configuration


def rm_registered(state: State, fact: facts.RmRegistered) -> None:
    if fact.resync != connection.REPLAY:
        _forget_everything(state)
    state.registered = fact
    state.registration = fact.registration
    state.begin_life(fact.life)
    state.rm_state = connection.RUNNING


def _forget_everything(state: State) -> None:
    """What was known of the RM, and what was to happen by itself: an ID may be used again."""
    state.partitions.clear()
    state.configuration = None
    state.timing = Timing()
    state.timers = Timers()


def rm_paused(state: State, fact: facts.RmPaused) -> None:
    state.rm_state = connection.PAUSED


def rm_resumed(state: State, fact: facts.RmResumed) -> None:
    state.rm_state = connection.RUNNING


def rm_stopped(state: State, fact: facts.RmStopped) -> None:
    state.rm_state = connection.STOPPED
    if fact.deregistered:
        state.registered = None
        _forget_everything(state)


def time_passed(state: State, fact: facts.TimePassed) -> None:
    for _ in state.timers.due(fact.until_ms):
        pass


def nothing(state: State, fact: facts.Fact) -> None:
    """A refusal changes nothing; it is a fact so that somebody hears of it."""


def configuration_applied(state: State, fact: facts.ConfigurationApplied) -> None:
    state.configuration = fact
    for partition in state.partitions.values():
        if partition.yunikorn_1_4 != (fact.compatibility == "yunikorn-1.4"):
            partition.yunikorn_1_4 = not partition.yunikorn_1_4
            partition.index = None
    if state.timing != fact.timing:
        state.timing = fact.timing
        for partition in state.partitions.values():
            for application in partition.applications.values():
                _set_state_alarm(state, partition.name, application)


def partition_added(state: State, fact: facts.PartitionAdded) -> None:
    root = Queue("root", None, leaf=False, managed=True, settings=fact.config.root)
    state.partitions[fact.partition] = Partition(fact.partition, fact.config, root, {"root": root})


def partition_changed(state: State, fact: facts.PartitionChanged) -> None:
    partition = state.partitions[fact.partition]
    partition.settings = fact.config
    partition.root.settings = fact.config.root
    track_again(partition.root)
    partition.root.priority = mapped_priority(partition.root)
    partition.draining = False
    partition.index = None


def partition_draining(state: State, fact: facts.PartitionDraining) -> None:
    state.partitions[fact.partition].draining = True


def partition_removed(state: State, fact: facts.PartitionRemoved) -> None:
    del state.partitions[fact.partition]


def queue_added(state: State, fact: facts.QueueAdded) -> None:
    partition = state.partitions[fact.partition]
    parent = partition.queues[fact.queue.rpartition(".")[0]]
    queue = Queue(fact.queue, parent, fact.leaf, fact.managed, fact.config)
    partition.queues[fact.queue] = parent.children[fact.config.name] = queue
    if partition.index is not None:
        partition.index.queue_added(queue)


def queue_changed(state: State, fact: facts.QueueChanged) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues[fact.queue]
    had = queue.priority if queue.priorities else None
    queue.settings, queue.leaf, queue.managed = fact.config, fact.leaf, fact.managed
    queue.order = None  # a leaf may have become a parent
    track_again(queue)
    queue.priority = mapped_priority(queue)
    _prioritise_queue(queue.parent, had, queue.priority if queue.priorities else None)
    partition.index = None


def queue_draining(state: State, fact: facts.QueueDraining) -> None:
    state.partitions[fact.partition].queues[fact.queue].draining_since_ms = state.now_ms


def queue_restored(state: State, fact: facts.QueueRestored) -> None:
    state.partitions[fact.partition].queues[fact.queue].draining_since_ms = 0


def queue_removed(state: State, fact: facts.QueueRemoved) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues.pop(fact.queue)
    assert queue.parent is not None, "root stays"
    del queue.parent.children[queue.name]
    if partition.index is not None:
        partition.index.queue_removed(queue)


# Nodes


def node_added(state: State, fact: facts.NodeAdded) -> None:
    partition = state.partitions[fact.partition]
    node = Node(fact.node_id, fact.attributes, fact.capacity, fact.occupied, fact.draining)
    node.allocated.update(dict.fromkeys(fact.capacity, 0))  # names are quicker to find than to make
    partition.nodes[fact.node_id] = node
    add(partition.total, fact.capacity)
    _node_sized(partition, node)


def node_changed(state: State, fact: facts.NodeChanged) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    add(partition.total, node.capacity, -1)
    node.attributes, node.capacity, node.occupied = fact.attributes, fact.capacity, fact.occupied
    add(partition.total, fact.capacity)
    _refusals_lifted(partition, node)
    _node_sized(partition, node)


def _node_sized(partition: Partition, node: Node) -> None:
    index = partition.index
    if index is None:
        return
    if not index.knows(node.capacity) or not index.knows(node.occupied):
        partition.index = None
        return
    index.total_changed()
    index.node_changed(node)


def node_draining(state: State, fact: facts.NodeDraining) -> None:
    partition = state.partitions[fact.partition]
    partition.nodes[fact.node_id].draining = True
    if partition.index is not None:
        partition.index.node_changed(partition.nodes[fact.node_id])


def node_schedulable(state: State, fact: facts.NodeSchedulable) -> None:
    partition = state.partitions[fact.partition]
    partition.nodes[fact.node_id].draining = False
    if partition.index is not None:
        partition.index.node_changed(partition.nodes[fact.node_id])


def node_removed(state: State, fact: facts.NodeRemoved) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes.pop(fact.node_id)
    add(partition.total, node.capacity, -1)
    _refusals_lifted(partition, node)
    if partition.index is not None:
        partition.index.nodes.withdraw(node)
        partition.index.total_changed()


def node_reserved(state: State, fact: facts.NodeReserved) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    node.reservation, node.kept_by_preemption = pending, fact.by_preemption
    pending.reservations = (*pending.reservations, node.id)
    since = pending.waiting or {}
    if facts.NO_NODE not in since:  # that is why it is reserved
        pending.waiting = {**since, facts.NO_NODE: state.now_ms}
    pending.free -= 1
    if partition.index is not None:
        partition.index.reserved(pending, node)
    _claims(partition, pending.application, 1)


def node_unreserved(state: State, fact: facts.NodeUnreserved) -> None:
    partition = state.partitions[fact.partition]
    node = partition.nodes[fact.node_id]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    node.reservation, node.kept_by_preemption = None, False
    pending.reservations = tuple(node_id for node_id in pending.reservations if node_id != node.id)
    pending.free += 1
    if partition.index is not None:
        partition.index.unreserved(pending, node)
    _claims(partition, pending.application, -1)


# Applications


def application_accepted(state: State, fact: facts.ApplicationAccepted) -> None:
    partition = state.partitions[fact.partition]
    queue = partition.queues[fact.queue]
    state.next_seq += 1
    application = Application(
        fact.application_id, queue, fact.user, fact.groups, fact.tags, state.next_seq, state.now_ms,
        fact.execution_timeout_ms, fact.placeholder_ask, fact.gang_scheduling_style,
    )  # fmt: skip
    application.state_at_ms = state.now_ms
    application.log.append((state.now_ms, lifecycle.NEW))
    partition.applications.pop(fact.application_id, None)  # they stand in the order of submission
    partition.applications[fact.application_id] = application
    queue.applications[fact.application_id] = application
    track(application)


def application_rejected(state: State, fact: facts.ApplicationRejected) -> None:
    if fact.recorded:
        rejected = state.partitions[fact.partition].rejected
        rejected.pop(fact.application_id, None)
        rejected[fact.application_id] = RejectedApplication(fact, state.now_ms)


def rejection_forgotten(state: State, fact: facts.RejectionForgotten) -> None:
    del state.partitions[fact.partition].rejected[fact.application_id]


def application_state_changed(state: State, fact: facts.ApplicationStateChanged) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    became = application.state = fact.state
    application.state_at_ms = fact.at_ms
    application.log.append((fact.at_ms, became))
    if became in lifecycle.OVER:
        if application.runs:
            _ends_running(partition, application)
        if became != lifecycle.COMPLETING:
            _leave_queue(application)
    elif application.placeholders and not application.runs:
        _begins_running(partition, application)  # it was completing and held placeholders all the same
    if became == lifecycle.RESUMING:
        application.resumed = True
    if partition.index is not None:
        partition.index.state_changed(application)
    _set_state_alarm(state, fact.partition, application)
    if became == lifecycle.RUNNING and application.execution_limit_ms:
        state.timers.set(fact.at_ms + application.execution_limit_ms, "execution", fact.partition, application.id)


def _set_state_alarm(state: State, partition: str, application: Application) -> None:
    """To look at it again when its state ends by itself, if it does."""
    if application.state in lifecycle.TIMEOUTS:
        after_ms = lifecycle.lasts_ms(application.state, state.timing)
        state.timers.set(application.state_at_ms + after_ms, "state", partition, application.id)


def application_removed(state: State, fact: facts.ApplicationRemoved) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications.pop(fact.application_id)
    if application.runs:
        _ends_running(partition, application)
    _leave_queue(application)


def _begins_running(partition: Partition, application: Application) -> None:
    count_running(application, True)
    if partition.index is not None and application.gates:
        partition.index.began_running(application)


def _claims(partition: Partition, application: Application, by: int) -> None:
    """A node was reserved, or a question asked, or that is over. With its last claim an application that has started
    nothing gives its slots back."""
    application.claims += by
    if by > 0 and not application.runs:
        _begins_running(partition, application)
    elif (
        application.runs
        and application.state == lifecycle.ACCEPTED
        and not (application.claims or application.allocations)
    ):
        _ends_running(partition, application)


def _ends_running(partition: Partition, application: Application) -> None:
    count_running(application, False)
    if partition.index is not None and application.gates:
        partition.index.ended_running(application)


def _leave_queue(application: Application) -> None:
    """Nothing if it has left: an ID may have been used again since."""
    if application.queue.applications.get(application.id) is application:
        del application.queue.applications[application.id]
        untrack(application)


# Asks


def ask_accepted(state: State, fact: facts.AskAccepted) -> None:
    ask = fact.ask
    partition = state.partitions[ask.partition]
    application = partition.applications[ask.application_id]
    state.next_seq = seq = state.next_seq + 1
    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, seq, state.now_ms)
    _ask_comes(partition, application, pending)
    if ask.placeholder:
        application.task_groups[ask.task_group].count += ask.max_allocations


def ask_changed(state: State, fact: facts.AskChanged) -> None:
    ask = fact.ask
    partition = state.partitions[ask.partition]
    application = partition.applications[ask.application_id]
    was = application.asks[ask.allocation_key]
    if was.ask.placeholder:
        application.task_groups[was.ask.task_group].count -= was.pending + was.asked
    _ask_goes(partition, application, was)
    pending = PendingAsk(ask, application, ask.max_allocations, ask.max_allocations, was.seq, was.at_ms)
    _ask_comes(partition, application, pending)
    if ask.placeholder:
        application.task_groups[ask.task_group].count += ask.max_allocations


def ask_released(state: State, fact: facts.AskReleased) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks.get(fact.allocation_key)
    if pending is None:
        return  # all of it was allocated: who asked is told that it is over
    if pending.ask.placeholder and fact.termination_type == facts.TIMEOUT:
        application.task_groups[pending.ask.task_group].timed_out += pending.pending + pending.asked
    _ask_goes(partition, application, pending)


def ask_waiting(state: State, fact: facts.AskWaiting) -> None:
    pending = state.partitions[fact.partition].applications[fact.application_id].asks[fact.allocation_key]
    since = pending.waiting or {}
    pending.waiting = {c.key: since.get(c.key, state.now_ms) for c in fact.constraints}


def _ask_comes(partition: Partition, application: Application, pending: PendingAsk) -> None:
    ask = pending.ask
    application.asks[ask.allocation_key] = pending
    book_pending(application, ask.resource, pending.pending)
    prioritise(application, ask.priority, 1)
    if partition.index is not None:
        partition.index.ask_added(pending)
    if ask.placeholder:
        group = application.task_groups.setdefault(ask.task_group, TaskGroup(ask.task_group, ask.resource))
        group.coming += pending.pending
        _group_changed(partition, application, group)


def _ask_goes(partition: Partition, application: Application, pending: PendingAsk) -> None:
    """All of what is still pending of an ask is not asked any more, nor is the RM asked about it."""
    del application.asks[pending.ask.allocation_key]
    partition.refused.pop(pending, None)
    if pending.ask.placeholder:
        group = application.task_groups[pending.ask.task_group]
        group.coming -= pending.pending + pending.asked
        _group_changed(partition, application, group)
    if pending.asked:
        _questions_dropped(partition, application, pending)
    if pending.preemption is not None:
        _preemption_over(partition, pending)
    count, pending.pending, pending.free = pending.pending, 0, 0
    if count:  # else it was in no line
        book_pending(application, pending.ask.resource, -count)
        prioritise(application, pending.ask.priority, -1)
        if partition.index is not None:
            partition.index.ask_gone(pending, count)
    _asked_for(partition, application)


def _forget_if_served(partition: Partition, pending: PendingAsk) -> None:
    """Nothing of it is pending or asked about any more."""
    if not pending.pending and not pending.asked:
        del pending.application.asks[pending.ask.allocation_key]
        partition.refused.pop(pending, None)


def _asked_for(partition: Partition, application: Application) -> None:
    """What an ask asked for is allocated or withdrawn: others may have waited for the last one of the application."""
    if not application.asks and partition.index is not None:
        partition.index.stopped_asking(application)


def book_pending(application: Application, resource: Resource, times: int) -> None:
    asked = application.queue.asked
    for name, amount in resource.items():
        asked[name] += amount * times


def prioritise(application: Application, priority: int, by: int) -> None:
    """A pending ask of this priority came (by=1) or went (by=-1); the highest is known all the way up."""
    highest, lower = application.priority, application.lower
    before = highest if application.foremost else None
    if priority == before:
        application.foremost += by
        if application.foremost:
            return
        if lower:
            application.priority = max(lower)
            application.foremost = lower.pop(application.priority)
        else:
            application.priority = 0
    elif before is not None and priority < before:
        lower[priority] = lower.get(priority, 0) + by
        if not lower[priority]:
            del lower[priority]
        return
    else:
        if before is not None:
            lower[before] = application.foremost
        application.priority, application.foremost = priority, by
    _prioritise_queue(application.queue, before, application.priority if application.foremost else None)
    order = application.queue.order
    if application.priority != highest and isinstance(order, LeafOrder):
        order.application_changed(application)


def _prioritise_queue(queue: Queue | None, before: int | None, now: int | None) -> None:
    """One below a queue (None: with nothing pending) had and now has this priority."""
    while queue is not None and before != now:
        counts = queue.priorities
        if before is None and now is not None and now in counts:  # others have it too: nothing changes above
            counts[now] += 1
            return
        if now is None and before is not None and counts[before] > 1:
            counts[before] -= 1
            return
        had = queue.priority if counts else None
        if before is not None:
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if now is not None:
            counts[now] = counts.get(now, 0) + 1
        queue.priority = mapped_priority(queue)
        before, now = had, queue.priority if counts else None
        queue = queue.parent


def mapped_priority(queue: Queue) -> int:
    """The highest priority below, moved by the queue's offset; under a fence the offset alone (semantics section 9)."""
    if not queue.priorities:
        return 0
    offset = priority_offset(queue.settings.properties)
    if is_priority_fence(queue.settings.properties):
        return offset
    return max(-(2**31), min(2**31 - 1, max(queue.priorities) + offset))


# Allocations


def allocated(state: State, fact: facts.Allocated) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks[fact.allocation_key]
    node = partition.nodes[fact.node_id]
    state.next_allocation += 1
    if fact.question:
        _held_allocated(state, partition, pending, fact)
        return
    pending.pending -= 1
    pending.free -= 1
    allocation = Allocation(fact, node, application, state.now_ms, pending.seq)
    partition.allocations[fact.uuid] = application.allocations[fact.uuid] = node.allocations[fact.uuid] = allocation
    if application.by_key is not None:
        application.by_key.setdefault(fact.allocation_key, {})[fact.uuid] = allocation
    queue = application.queue
    asked, held, on_node, books = queue.asked, application.allocated, node.allocated, queue.books
    if fact.placeholder:
        held = application.allocated_placeholder
        application.task_groups[fact.task_group].coming -= 1
        _placeholder_comes(state, partition, allocation)
    for name, amount in fact.resource.items():
        asked[name] -= amount
        held[name] += amount
        on_node[name] += amount
        for queue_allocated in books:
            queue_allocated[name] += amount
    if application.trackers:
        book(application, fact.resource, 1)
    if not pending.pending:
        if not pending.asked:
            del application.asks[fact.allocation_key]
            if partition.refused:
                partition.refused.pop(pending, None)
        if fact.priority == application.priority and application.foremost > 1:  # prioritise(), without the call
            application.foremost -= 1
        else:
            prioritise(application, fact.priority, -1)
    if pending.preemption is not None:
        _allocated_by_preemption(partition, pending, allocation)
    if fact.execution_timeout_ms > 0:
        _set_execution_alarm(state, fact)
    if partition.index is not None:
        partition.index.allocated(pending, node)
    if not application.runs:
        _begins_running(partition, application)
    if not application.asks:
        _asked_for(partition, application)


def _set_execution_alarm(state: State, fact: facts.Allocated) -> None:
    at_ms = state.now_ms + fact.execution_timeout_ms
    state.timers.set(at_ms, "execution", fact.partition, fact.application_id, fact.uuid)


def allocation_recovered(state: State, fact: facts.AllocationRecovered) -> None:
    allocation = fact.allocation
    partition = state.partitions[allocation.partition]
    application = partition.applications[allocation.application_id]
    node = partition.nodes[allocation.node_id]
    booked = Allocation(allocation, node, application, state.now_ms)
    allocation_comes(partition, booked)
    book_allocated(application, node, allocation.resource, 1, placeholder=allocation.placeholder)
    if not application.runs:
        _begins_running(partition, application)
    if allocation.placeholder:
        _placeholder_comes(state, partition, booked)
    index = partition.index
    if index is not None and index.knows(allocation.resource):
        index.booked(node, application)
    else:
        partition.index = None


def allocation_released(state: State, fact: facts.AllocationReleased) -> None:
    partition = state.partitions[fact.partition]
    allocation = _allocation_goes(state, partition, fact.uuid)
    if allocation.fact.placeholder and allocation.releasing != facts.TIMEOUT:  # those were counted when they were asked
        allocation.application.task_groups[allocation.fact.task_group].timed_out += 1
    if partition.index is not None:
        partition.index.released(allocation.node, allocation.application)


def allocation_comes(partition: Partition, allocation: Allocation) -> None:
    application, uuid = allocation.application, allocation.fact.uuid
    partition.allocations[uuid] = application.allocations[uuid] = allocation.node.allocations[uuid] = allocation
    if application.by_key is not None:
        application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def _allocation_goes(state: State, partition: Partition, uuid: str) -> Allocation:
    allocation = partition.allocations.pop(uuid)
    application, fact = allocation.application, allocation.fact
    if fact.execution_timeout_ms > 0:  # that may be days away
        at_ms = allocation.at_ms + fact.execution_timeout_ms
        state.timers.cancel(Alarm(at_ms, "execution", fact.partition, fact.application_id, uuid))
    if allocation.releasing and allocation.preempting:
        book_preempting(allocation, -1)
    del application.allocations[uuid], allocation.node.allocations[uuid]
    if application.by_key is not None:
        of_key = application.by_key[fact.allocation_key]
        del of_key[uuid]
        if not of_key:
            del application.by_key[fact.allocation_key]
    book_allocated(application, allocation.node, fact.resource, -1, fact.placeholder)
    if fact.placeholder:
        application.placeholders -= 1
        if not application.placeholders:
            application.placeholders_until_ms = 0
        group = application.task_groups[fact.task_group]
        if group.free.pop(uuid, None) is not None:
            _group_changed(partition, application, group)
    return allocation


def book_allocated(
    application: Application, node: Node, resource: Resource, times: int, placeholder: bool = False
) -> None:
    held = application.allocated_placeholder if placeholder else application.allocated
    on_node, books = node.allocated, application.queue.books
    for name, amount in resource.items():
        amount *= times
        held[name] += amount
        on_node[name] += amount
        for queue_allocated in books:
            queue_allocated[name] += amount
    if application.trackers:
        book(application, resource, times)


def release_requested(state: State, fact: facts.ReleaseRequested) -> None:
    partition = state.partitions[fact.partition]
    allocation = partition.allocations[fact.uuid]
    if allocation.preempting:
        book_preempting(allocation, -1)
    if allocation.fact.placeholder:
        if allocation.replacement is not None and allocation.replacement.question:
            _replacement_question_over(partition, allocation.replacement)
        _placeholder_goes(partition, allocation, fact.termination_type)
    allocation.releasing, allocation.releasing_ms, allocation.overdue = fact.termination_type, state.now_ms, False
    if allocation.preempting:
        book_preempting(allocation, 1)
    state.timers.set(state.now_ms + RELEASE_OVERDUE_MS, "release", fact.partition, fact.application_id, fact.uuid)


def release_overdue(state: State, fact: facts.ReleaseOverdue) -> None:
    allocation = state.partitions[fact.partition].allocations[fact.uuid]
    if allocation.preempting:
        book_preempting(allocation, -1)
    allocation.overdue = True


def book_preempting(allocation: Allocation, times: int) -> None:
    for queue in allocation.application.queue.lineage:
        add(queue.preempting, allocation.fact.resource, times)


# Preemption


def preemption_started(state: State, fact: facts.PreemptionStarted) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _preemption_begins(state, partition, pending, fact)
    at_ms = state.now_ms + RELEASE_OVERDUE_MS
    state.timers.set(at_ms, "preemption", fact.partition, fact.application_id, fact.allocation_key)


def _preemption_begins(
    state: State,
    partition: Partition,
    pending: PendingAsk,
    fact: facts.PreemptionStarted | facts.PreemptionAsked,
    question: int = 0,
) -> None:
    pending.preempted_at_ms = state.now_ms
    pending.preemption = Preemption(pending, partition.nodes[fact.node_id], fact.uuids, state.now_ms, question)
    partition.preemptions[fact.application_id, fact.allocation_key] = pending.preemption


def preemption_ended(state: State, fact: facts.PreemptionEnded) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.preemptions[fact.application_id, fact.allocation_key].pending
    _preemption_over(partition, pending)
    pending.preempted_at_ms = 0
    if partition.index is not None:
        partition.index.may_preempt(pending)


def preemption_refused(state: State, fact: facts.PreemptionRefused) -> None:
    """Those that are so old that they do not count any more go, so that only what is asked for now is remembered."""
    partition = state.partitions[fact.partition]
    refusals = partition.queues[fact.queue].refusals
    for like in [like for like, at_ms in refusals.items() if state.now_ms - at_ms > REFUSAL_KEPT_MS]:
        del refusals[like]
    refusals[items_of(fact.resource), fact.required_node, fact.priority] = state.now_ms
    partition.preemption_refused_ms = state.now_ms


def _allocated_by_preemption(partition: Partition, pending: PendingAsk, allocation: Allocation) -> None:
    """Unless the RM is still being asked: then nothing was preempted for it."""
    assert pending.preemption is not None, "it is under way"
    allocation.by_preemption = not pending.preemption.question
    _served(partition, pending)


def _served(partition: Partition, pending: PendingAsk) -> None:
    """One of it has its place. If the RM was still being asked, others may yet be preempted for the rest."""
    preemption = pending.preemption
    _preemption_over(partition, pending)
    if preemption is not None and preemption.question:
        pending.preempted_at_ms = 0
        if pending.pending and partition.index is not None:
            partition.index.may_preempt(pending)


def _preemption_over(partition: Partition, pending: PendingAsk) -> None:
    del partition.preemptions[pending.ask.application_id, pending.ask.allocation_key]
    pending.preemption = None


# Gangs


def _placeholder_comes(state: State, partition: Partition, placeholder: Allocation) -> None:
    """The clock runs as long as the application holds any."""
    application, fact = placeholder.application, placeholder.fact
    application.placeholders += 1
    if application.placeholders == 1:
        lasts_ms = (
            application.execution_timeout_ms if application.execution_timeout_ms > 0 else state.timing.placeholder_ms
        )
        application.placeholders_until_ms = state.now_ms + lasts_ms
        state.timers.set(application.placeholders_until_ms, "placeholder", partition.name, application.id)
    group = application.task_groups.setdefault(fact.task_group, TaskGroup(fact.task_group, fact.resource))
    group.free[fact.uuid] = placeholder
    _group_changed(partition, application, group)


def _placeholder_goes(partition: Partition, placeholder: Allocation, termination_type: int) -> None:
    """The RM is asked to release it. Of those that go because a gang resumes, a real ask may still take one."""
    application = placeholder.application
    group = application.task_groups[placeholder.fact.task_group]
    if termination_type == facts.TIMEOUT and placeholder.releasing != facts.TIMEOUT:
        group.timed_out += 1
    stays = application.state == lifecycle.RESUMING and termination_type == facts.TIMEOUT
    if not stays and group.free.pop(placeholder.fact.uuid, None) is not None:
        _group_changed(partition, application, group)


def _group_changed(partition: Partition, application: Application, group: TaskGroup) -> None:
    if partition.index is not None:
        partition.index.group_changed(application, group)


def replacement_started(state: State, fact: facts.ReplacementStarted) -> None:
    real = fact.allocation
    partition = state.partitions[real.partition]
    application, node = partition.applications[real.application_id], partition.nodes[real.node_id]
    placeholder, pending = partition.allocations[fact.placeholder], application.asks[real.allocation_key]
    state.next_allocation += 1
    replacement = Replacement(real, placeholder, pending, node)
    placeholder.replacement = application.replacements[real.uuid] = replacement
    group = application.task_groups[placeholder.fact.task_group]
    del group.free[fact.placeholder]
    group.leaving += 1
    book_pending(application, real.resource, -1)
    pending.pending -= 1
    pending.free -= 1
    if not pending.pending:
        _forget_if_served(partition, pending)
        prioritise(application, pending.ask.priority, -1)
    if pending.preemption is not None:
        _served(partition, pending)
    if replacement.elsewhere:
        node.arriving[real.uuid] = replacement
        book_arriving(partition, replacement, 1)
    if partition.index is not None:
        partition.index.replacement_started(pending, group)
    _asked_for(partition, application)


def book_arriving(partition: Partition, replacement: Replacement, times: int) -> None:
    for name, amount in replacement.fact.resource.items():
        replacement.node.allocated[name] += amount * times
    if partition.index is not None:
        partition.index.node_changed(replacement.node)


def placeholder_replaced(state: State, fact: facts.PlaceholderReplaced) -> None:
    real = fact.allocation
    partition = state.partitions[real.partition]
    application = partition.applications[real.application_id]
    replacement = _replacement_ends(partition, application, real.uuid)
    pending = replacement.pending
    placeholder = _allocation_goes(state, partition, fact.placeholder)
    group = application.task_groups[placeholder.fact.task_group]
    group.replaced += 1
    node = replacement.node
    allocation = Allocation(real, node, application, state.now_ms, pending.seq, replaced=fact.placeholder)
    allocation_comes(partition, allocation)
    book_allocated(application, node, real.resource, 1)
    if real.execution_timeout_ms > 0:
        _set_execution_alarm(state, real)
    if partition.index is not None:
        partition.index.released(placeholder.node, application)
        partition.index.node_changed(node)


def replacement_cancelled(state: State, fact: facts.ReplacementCancelled) -> None:
    """One of the ask's allocations is pending again: of the ask that is there under this key now, or else of the one
    that was."""
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    was = _replacement_ends(partition, application, fact.uuid).pending
    there = application.asks.get(fact.allocation_key)
    if there is None:
        back = PendingAsk(was.ask, application, 1, 1, was.seq, was.at_ms)
        if was.refused and state.now_ms < was.refused_at_ms + REFUSALS_LAST_MS:
            back.refused, back.refusal, back.refused_at_ms = was.refused, was.refusal, was.refused_at_ms
            partition.refused[back] = None
        _ask_comes(partition, application, back)
        return
    _one_more_pending(partition, there)
    if there.ask.placeholder:  # under this key something else is asked for now
        group = application.task_groups[there.ask.task_group]
        group.coming += 1
        group.count += 1
        _group_changed(partition, application, group)


def replacement_asked(state: State, fact: facts.ReplacementAsked) -> None:
    partition = state.partitions[fact.partition]
    replacement = partition.applications[fact.application_id].replacements[fact.uuid]
    _question_asked(state, fact)
    replacement.question = fact.question
    partition.replacements_asked[fact.question] = replacement


def _replacement_question_over(partition: Partition, replacement: Replacement) -> None:
    del partition.replacements_asked[replacement.question]
    replacement.question = 0


def _replacement_ends(partition: Partition, application: Application, uuid: str) -> Replacement:
    replacement = application.replacements.pop(uuid)
    replacement.placeholder.replacement = None
    if replacement.elsewhere:
        del replacement.node.arriving[uuid]
        book_arriving(partition, replacement, -1)
    group = application.task_groups[replacement.placeholder.fact.task_group]
    group.leaving -= 1
    if replacement.question:  # nothing was asked of the placeholder yet: it keeps its place
        _replacement_question_over(partition, replacement)
        group.free[replacement.placeholder.fact.uuid] = replacement.placeholder
    _group_changed(partition, application, group)
    return replacement


# Questions to the RM: what is asked about is booked like an allocation, so that nothing else is placed in its room


def predicate_asked(state: State, fact: facts.PredicateAsked) -> None:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks[fact.allocation_key]
    node = partition.nodes[fact.node_id]
    _question_asked(state, fact)
    partition.questions[fact.question] = Question(fact, node, application)
    pending.pending -= 1
    pending.free -= 1
    pending.asked += 1
    book_pending(application, fact.resource, -1)
    book_allocated(application, node, fact.resource, 1)
    if not pending.pending:
        prioritise(application, pending.ask.priority, -1)
    if partition.index is not None:
        partition.index.allocated(pending, node)
    _claims(partition, application, 1)


def _question_asked(state: State, fact: facts.PredicateAsked | facts.ReplacementAsked | facts.PreemptionAsked) -> None:
    state.next_question = fact.question + 1
    state.timers.set(fact.answer_by_ms, "predicate", fact.partition, fact.application_id, str(fact.question))


def _held_allocated(state: State, partition: Partition, pending: PendingAsk, fact: facts.Allocated) -> None:
    """What was held is an allocation now: all sums and the index know it already."""
    question = partition.questions.pop(fact.question)
    application, node = question.application, question.node
    allocation = Allocation(fact, node, application, state.now_ms, pending.seq)
    allocation_comes(partition, allocation)
    if fact.placeholder:  # from now on it counts as one
        for name, amount in fact.resource.items():
            application.allocated[name] -= amount
            application.allocated_placeholder[name] += amount
        application.task_groups[fact.task_group].coming -= 1
        if partition.index is not None:
            partition.index.shares_changed(application)
        _placeholder_comes(state, partition, allocation)
    pending.asked -= 1
    _claims(partition, application, -1)
    if pending.preemption is not None:
        _allocated_by_preemption(partition, pending, allocation)
    _forget_if_served(partition, pending)
    if fact.execution_timeout_ms > 0:
        _set_execution_alarm(state, fact)
    _asked_for(partition, application)


def predicate_refused(state: State, fact: facts.PredicateRefused) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _refused(state, partition, pending, fact)
    question = partition.questions.pop(fact.question, None)
    if question is None:  # it was about a replacement, which has been cancelled
        _set_refused(partition, pending, pending.refused)
    else:
        _pending_again(partition, pending, question)


def _refused(
    state: State, partition: Partition, pending: PendingAsk, fact: facts.PredicateRefused | facts.PreemptionAnswered
) -> None:
    pending.refused |= {fact.node_id}
    pending.refusal = f"{fact.node_id}: {fact.reason}"
    pending.refused_at_ms = state.now_ms
    partition.refused[pending] = None
    at_ms = state.now_ms + REFUSALS_LAST_MS
    state.timers.set(at_ms, "refusals", fact.partition, fact.application_id, fact.allocation_key)


def predicate_withdrawn(state: State, fact: facts.PredicateWithdrawn) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _pending_again(partition, pending, partition.questions.pop(fact.question))


def refusals_forgotten(state: State, fact: facts.RefusalsForgotten) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    del partition.refused[pending]
    _set_refused(partition, pending, NO_NODES)


def preemption_asked(state: State, fact: facts.PreemptionAsked) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _question_asked(state, fact)
    _preemption_begins(state, partition, pending, fact, fact.question)


def preemption_answered(state: State, fact: facts.PreemptionAnswered) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _preemption_over(partition, pending)
    pending.preempted_at_ms = 0
    if not fact.success:
        _refused(state, partition, pending, fact)
        _set_refused(partition, pending, pending.refused)
    if partition.index is not None:
        partition.index.may_preempt(pending)


def _pending_again(partition: Partition, pending: PendingAsk, question: Question) -> None:
    pending.asked -= 1
    _free(partition, question)
    _one_more_pending(partition, pending)


def _one_more_pending(partition: Partition, pending: PendingAsk) -> None:
    application, before = pending.application, pending.pending
    pending.pending += 1
    pending.free += 1
    book_pending(application, pending.ask.resource, 1)
    if not before:
        prioritise(application, pending.ask.priority, 1)
    if partition.index is not None:
        partition.index.ask_moved(pending, before)


def _questions_dropped(partition: Partition, application: Application, pending: PendingAsk) -> None:
    """There are never more than a few questions."""
    key = pending.ask.allocation_key
    dropped = [q for q in partition.questions.values() if q.application is application and q.fact.allocation_key == key]
    for question in dropped:
        del partition.questions[question.fact.question]
        _free(partition, question)
    pending.asked = 0


def _free(partition: Partition, question: Question) -> None:
    """What was held is held no more."""
    book_allocated(question.application, question.node, question.fact.resource, -1)
    if partition.index is not None:
        partition.index.released(question.node, question.application)
    _claims(partition, question.application, -1)


def _refusals_lifted(partition: Partition, node: Node) -> None:
    """The node is not the one any more that was refused."""
    for pending in [p for p in partition.refused if node.id in p.refused]:
        refused = pending.refused - {node.id}
        if not refused:
            del partition.refused[pending]
        _set_refused(partition, pending, refused)


def _set_refused(partition: Partition, pending: PendingAsk, refused: frozenset[str]) -> None:
    pending.refused = refused
    if pending.pending and partition.index is not None:
        partition.index.ask_moved(pending, pending.pending)


BY_FACT: Final[dict[type[facts.Fact], Callable[[State, Any], None]]] = {
    facts.TimePassed: time_passed,
    facts.RmRegistered: rm_registered,
    facts.RegistrationRefused: nothing,
    facts.RmPaused: rm_paused,
    facts.RmResumed: rm_resumed,
    facts.RmStopped: rm_stopped,
    facts.ConfigurationApplied: configuration_applied,
    facts.ConfigurationRefused: nothing,
    facts.PartitionAdded: partition_added,
    facts.PartitionChanged: partition_changed,
    facts.PartitionDraining: partition_draining,
    facts.PartitionRemoved: partition_removed,
    facts.QueueAdded: queue_added,
    facts.QueueChanged: queue_changed,
    facts.QueueDraining: queue_draining,
    facts.QueueRestored: queue_restored,
    facts.QueueRemoved: queue_removed,
    facts.NodeAdded: node_added,
    facts.NodeRejected: nothing,
    facts.NodeChanged: node_changed,
    facts.NodeDraining: node_draining,
    facts.NodeSchedulable: node_schedulable,
    facts.NodeRemoved: node_removed,
    facts.NodeReserved: node_reserved,
    facts.NodeUnreserved: node_unreserved,
    facts.ApplicationAccepted: application_accepted,
    facts.ApplicationRejected: application_rejected,
    facts.RejectionForgotten: rejection_forgotten,
    facts.ApplicationStateChanged: application_state_changed,
    facts.ApplicationRemoved: application_removed,
    facts.AskAccepted: ask_accepted,
    facts.AskChanged: ask_changed,
    facts.AskRejected: nothing,
    facts.AskReleased: ask_released,
    facts.AskWaiting: ask_waiting,
    facts.AskOutstanding: nothing,
    facts.Allocated: allocated,
    facts.AllocationRecovered: allocation_recovered,
    facts.AllocationRejected: nothing,
    facts.AllocationReleased: allocation_released,
    facts.ReleaseRequested: release_requested,
    facts.ReleaseIgnored: nothing,
    facts.PredicateAsked: predicate_asked,
    facts.PredicateRefused: predicate_refused,
    facts.PredicateWithdrawn: predicate_withdrawn,
    facts.RefusalsForgotten: refusals_forgotten,
    facts.ReplacementAsked: replacement_asked,
    facts.PreemptionAsked: preemption_asked,
    facts.PreemptionAnswered: preemption_answered,
    facts.ReleaseOverdue: release_overdue,
    facts.PreemptionStarted: preemption_started,
    facts.PreemptionEnded: preemption_ended,
    facts.PreemptionRefused: preemption_refused,
    facts.ReplacementStarted: replacement_started,
    facts.PlaceholderReplaced: placeholder_replaced,
    facts.ReplacementCancelled: replacement_cancelled,
}
