"""Facts of the replacement of placeholders, and the counts of placeholders by task group (semantics section 12)."""

from __future__ import annotations

from .. import facts, timeouts
from ..limits import REFUSALS_LAST_MS
from ..rules.keyed import unlist
from ..state import Allocation, Application, Partition, PendingAsk, Replacement, State
from .allocations import allocation_goes
from .asks import ask_comes
from .booking import (
    allocation_comes,
    book_allocated,
    book_arriving,
    book_devices,
    book_pending,
    count_coming,
    may_be_replaced,
    one_more_pending,
    prioritise,
)
from .preemption import preemption_over
from .questions import forget_if_served, replacement_question_over


def replacement_started(state: State, fact: facts.ReplacementStarted) -> PendingAsk:
    real = fact.allocation
    partition = state.partitions[real.partition]
    application, node = partition.applications[real.application_id], partition.nodes[real.node_id]
    placeholder, pending = partition.allocations[fact.placeholder], application.asks[real.allocation_key]
    state.next_allocation += 1
    replacement = Replacement(real, placeholder, pending, node)
    replacement_begins(application, replacement)
    group = application.task_groups[placeholder.fact.task_group]
    group.free.discard_placeholder(fact.placeholder)
    group.leaving += 1
    book_pending(application, real.resource, -1)
    pending.pending -= 1
    pending.free -= 1
    if not pending.pending:
        forget_if_served(state, partition, pending)
        prioritise(application, pending.ask.priority, -1)
    if pending.preemption is not None:
        preemption_over(state, partition, pending)
    if replacement.elsewhere:
        node.arriving[real.uuid] = replacement
        book_arriving(replacement, 1)
    return pending


def placeholder_replaced(state: State, fact: facts.PlaceholderReplaced) -> Allocation:
    """Book the allocation in the place of the placeholder. Returns the placeholder."""
    real = fact.allocation
    partition = state.partitions[real.partition]
    application = partition.applications[real.application_id]
    replacement = _replacement_ends(state, partition, application, real.uuid)
    pending = replacement.pending
    placeholder = allocation_goes(state, partition, fact.placeholder)
    group = application.task_groups[placeholder.fact.task_group]
    group.replaced += 1
    node = replacement.node
    allocation = Allocation(real, node, application, state.now_ms, pending.seq, pending.at_ms)
    allocation.replaced = fact.placeholder
    allocation_comes(partition, allocation)
    book_allocated(application, node, real.resource, 1, state.now_ms)
    book_devices(node, real, 1)
    if real.execution_timeout_ms > 0:
        state.timers.put(timeouts.of_allocation(allocation))
    return placeholder


def replacement_cancelled(state: State, fact: facts.ReplacementCancelled) -> Replacement:
    """Make one allocation pending again: of the ask that now has this key, or, if there is none, of the ask as it was
    when the replacement started."""
    partition = state.partitions[fact.partition]
    application = partition.applications[fact.application_id]
    replacement = _replacement_ends(state, partition, application, fact.uuid)
    was = replacement.pending
    there = application.asks.get(fact.allocation_key)
    if there is None:
        back = PendingAsk(was.ask, application, 1, 1, was.seq, was.at_ms)
        if was.refused and state.now_ms < was.refused_at_ms + REFUSALS_LAST_MS:
            back.refused, back.refusal, back.refused_at_ms = was.refused, was.refusal, was.refused_at_ms
            partition.refused[back] = None
            state.timers.put(timeouts.of_refusals(back))
        ask_comes(state, partition, application, back)
        return replacement
    one_more_pending(there)
    if there.ask.placeholder:  # the RM uses the key for another ask now
        group = application.task_groups[there.ask.task_group]
        count_coming(application, group, 1)
        group.count += 1
    return replacement


def replacement_begins(application: Application, replacement: Replacement) -> None:
    fact = replacement.fact
    replacement.placeholder.replacement = application.replacements[fact.uuid] = replacement
    application.replacements_by_key.setdefault(fact.allocation_key, {})[fact.uuid] = replacement


def _replacement_ends(state: State, partition: Partition, application: Application, uuid: str) -> Replacement:
    replacement = application.replacements.pop(uuid)
    unlist(application.replacements_by_key, replacement.fact.allocation_key, uuid)
    replacement.placeholder.replacement = None
    if replacement.elsewhere:
        del replacement.node.arriving[uuid]
        book_arriving(replacement, -1)
    group = application.task_groups[replacement.placeholder.fact.task_group]
    group.leaving -= 1
    if replacement.question:  # the RM was not asked to release the placeholder
        replacement_question_over(state, partition, replacement)
        if may_be_replaced(application, replacement.placeholder.releasing):
            group.free.add_placeholder(replacement.placeholder)
    return replacement
