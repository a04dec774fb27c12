"""Facts of allocations."""

from __future__ import annotations

from .. import facts, timeouts
from ..rules.keyed import unlist
from ..rules.runtime import name_of
from ..state import Allocation, Node, Partition, PendingAsk, Run, State
from .booking import (
    allocation_comes,
    book_allocated,
    book_bound,
    book_devices,
    book_pending_as_allocated,
    book_preempting,
    count_claims,
    count_coming,
    count_running,
    end_without_placeholders,
    keep_peak,
    placeholder_comes,
    placeholder_goes,
    prioritise,
)
from .budgets import commit, commit_until
from .predicate_classes import leave_class
from .preemption import allocated_by_preemption
from .questions import forget_if_served, refusals_over, replacement_question_over


def allocated(state: State, fact: facts.Allocated) -> PendingAsk:
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    pending = application.asks[fact.allocation_key]
    node = partition.nodes[fact.node_id]
    state.next_allocation += 1
    if fact.question:
        _held_allocated(state, partition, pending, fact)
        return pending
    pending.pending -= 1
    pending.free -= 1
    allocation = Allocation(fact, node, application, state.now_ms, pending.seq, pending.at_ms)
    book_pending_as_allocated(partition, allocation)
    if fact.placeholder:
        count_coming(application, application.task_groups[fact.task_group], -1)
        placeholder_comes(state, partition, allocation)
    if not pending.pending:
        if not pending.asked:
            del application.asks[fact.allocation_key]
            if partition.refused or partition.batch_predicates:
                refusals_over(state, partition, pending)
                leave_class(state, partition, pending)
        prioritise(application, fact.priority, -1)
    if pending.preemption is not None:
        allocated_by_preemption(state, partition, pending, allocation)
    if fact.execution_timeout_ms > 0:
        state.timers.put(timeouts.of_allocation(allocation))
    if not application.counts_as_running:
        count_running(application, True)
    return pending


def _held_allocated(state: State, partition: Partition, pending: PendingAsk, fact: facts.Allocated) -> None:
    """The answer to a question: the booked resources become an allocation. Sums and index stay as they are."""
    question = partition.questions.pop(fact.question)
    state.timers.cancel(timeouts.of_question(question))
    application, node = question.application, question.node
    commit_until(application, question.until_ms, fact.resource, -1)
    node.allocations_left += 1  # the question's, which the allocation takes
    allocation = Allocation(fact, node, application, state.now_ms, pending.seq, pending.at_ms)
    allocation_comes(partition, allocation)
    if fact.placeholder:  # until now it was booked as a real allocation
        for name, amount in fact.resource.items():
            application.allocated[name] -= amount
            application.allocated_placeholder[name] += amount
        count_coming(application, application.task_groups[fact.task_group], -1)
        placeholder_comes(state, partition, allocation)
    pending.asked -= 1
    count_claims(application, -1)
    if pending.preemption is not None:
        allocated_by_preemption(state, partition, pending, allocation)
    forget_if_served(state, partition, pending)
    if fact.execution_timeout_ms > 0:
        state.timers.put(timeouts.of_allocation(allocation))


def allocation_recovered(state: State, fact: facts.AllocationRecovered) -> None:
    partition = state.partitions[fact.allocation.partition]
    booked = book_running(state, fact.allocation, partition.nodes[fact.allocation.node_id])
    if fact.allocation.placeholder:
        placeholder_comes(state, partition, booked)


def book_running(state: State, allocation: facts.Allocated, node: Node) -> Allocation:
    """Book an allocation that runs on the node already: no ask was pending for it."""
    partition = state.partitions[allocation.partition]
    application = partition.applications[allocation.application_id]
    booked = Allocation(allocation, node, application, state.now_ms)
    allocation_comes(partition, booked)
    if allocation.execution_timeout_ms > 0:
        state.timers.put(timeouts.of_allocation(booked))
    partition.holders.add_holder(allocation.allocation_key, application.id)
    partition.names.add_names(allocation.resource)
    book_allocated(application, node, allocation.resource, 1, state.now_ms, allocation.placeholder)
    book_devices(node, allocation, 1)
    if not application.counts_as_running:
        count_running(application, True)
    return booked


def allocation_released(state: State, fact: facts.AllocationReleased) -> Allocation:
    partition = state.partitions[fact.partition]
    allocation = allocation_goes(state, partition, fact.uuid)
    if partition.settings.backfill:
        _learn_runtime(state, partition, allocation)
    if allocation.fact.placeholder and allocation.releasing != facts.TIMEOUT:  # time-outs are counted already
        allocation.application.task_groups[allocation.fact.task_group].timed_out += 1
    return allocation


def _learn_runtime(state: State, partition: Partition, allocation: Allocation) -> None:
    """Remember how long the allocation ran, if it ended by itself or by its bound."""
    fact, application = allocation.fact, allocation.application
    if fact.placeholder or allocation.releasing not in (0, facts.TIMEOUT):
        return
    run = Run(state.now_ms - allocation.at_ms, max(0, fact.execution_timeout_ms))
    partition.runtimes.add_run(application.user, name_of(fact.tags, application.tags), run)


def allocation_goes(state: State, partition: Partition, uuid: str) -> Allocation:
    allocation = partition.allocations.pop(uuid)
    application, node, fact = allocation.application, allocation.node, allocation.fact
    if fact.execution_timeout_ms > 0:  # else it would stay for days
        state.timers.cancel(timeouts.of_allocation(allocation))
    if allocation.releasing:
        state.timers.cancel(timeouts.of_release(allocation))
        if allocation.preempting:
            book_preempting(allocation, -1)
    del application.allocations[uuid], node.allocations[uuid]
    if fact.tags:
        book_bound(allocation, -1)
    if application.queue.budgets:
        commit(allocation, -1)
    if not node.reported and not node.allocations:
        del partition.unreported[node.id]
    node.allocations_left += 1
    application.asks_over -= allocation.ask_over
    if application.by_key is not None:
        unlist(application.by_key, fact.allocation_key, uuid)
    keep_peak(application, fact.placeholder)
    book_allocated(application, node, fact.resource, -1, state.now_ms, fact.placeholder)
    if fact.devices:
        book_devices(node, fact, -1)
    if fact.placeholder:
        application.placeholders -= 1
        end_without_placeholders(state, partition, application)
        group = application.task_groups[fact.task_group]
        group.placed -= 1
        group.free.discard_placeholder(uuid)
    return allocation


def release_requested(state: State, fact: facts.ReleaseRequested) -> None:
    partition = state.partitions[fact.partition]
    allocation = partition.allocations[fact.uuid]
    if allocation.preempting:
        book_preempting(allocation, -1)
    if allocation.fact.placeholder:
        if allocation.replacement is not None and allocation.replacement.question:
            replacement_question_over(state, partition, allocation.replacement)
        placeholder_goes(allocation, fact.termination_type)
    state.timers.cancel(timeouts.of_release(allocation))
    allocation.releasing, allocation.releasing_ms, allocation.overdue = fact.termination_type, state.now_ms, False
    if allocation.preempting:
        book_preempting(allocation, 1)
    state.timers.put(timeouts.of_release(allocation))


def release_overdue(state: State, fact: facts.ReleaseOverdue) -> None:
    allocation = state.partitions[fact.partition].allocations[fact.uuid]
    if allocation.preempting:
        book_preempting(allocation, -1)
    allocation.overdue = True
