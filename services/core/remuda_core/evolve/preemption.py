"""Facts of preemption, and the resources that are held for the ask meanwhile."""

from __future__ import annotations

from .. import facts, timeouts
from ..costs import cost_of_preemption, cost_together
from ..limits import REFUSAL_KEPT_MS, REFUSALS_KEPT, SPARED_MS
from ..rules.resource import items_of
from ..state import Allocation, Partition, PendingAsk, Preemption, State
from .booking import book_held
from .budgets import hold
from .questions import node_refused


def preemption_started(state: State, fact: facts.PreemptionStarted) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    _preemption_begins(state, partition, pending, fact)


def preemption_asked(state: State, fact: facts.PreemptionAsked) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    state.next_question = fact.question + 1
    _preemption_begins(state, partition, pending, fact, fact.question)


def preemption_answered(state: State, fact: facts.PreemptionAnswered) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    asked = pending.preemption
    assert asked is not None, "it is under way"
    preemption_over(state, partition, pending)
    if fact.spared:
        for ask in asked.members or (pending,):
            kept = {uuid: until_ms for uuid, until_ms in ask.spared.items() if until_ms > state.now_ms}
            ask.spared = kept | dict.fromkeys(fact.spared, state.now_ms + SPARED_MS)
    elif not fact.success:
        node_refused(state, partition, pending, fact)


def _preemption_begins(
    state: State,
    partition: Partition,
    pending: PendingAsk,
    fact: facts.PreemptionStarted | facts.PreemptionAsked,
    question: int = 0,
) -> None:
    preemption = Preemption(pending, partition.nodes[fact.node_id], fact.uuids, state.now_ms, question)
    asks, counts = pending.application.asks, zip(fact.members, fact.counts, strict=True)
    preemption.members = {asks[key]: count for key, count in counts}
    if isinstance(fact, facts.PreemptionStarted):
        preemption.nodes, preemption.domain = tuple(partition.nodes[node_id] for node_id in fact.nodes), fact.domain
    for ask in preemption.members or (pending,):
        ask.preempted_at_ms = state.now_ms
    state.timers.put(timeouts.of_preemption(preemption))
    under_way(partition, preemption)


def under_way(partition: Partition, preemption: Preemption) -> None:
    """Let the partition, the asks and the nodes know of the preemption."""
    pending = preemption.pending
    partition.preemptions[pending.ask.application_id, pending.ask.allocation_key] = preemption
    for ask in preemption.members or (pending,):
        ask.preemption = preemption
    for node in preemption.nodes:
        node.kept = preemption
    keep_place(preemption)


def keep_place(preemption: Preemption) -> None:
    """While the node is reserved for the ask, or nodes are kept for a group, hold their resources under maxima and
    limits, so that no other ask takes what the victims free."""
    pending = preemption.pending
    if (preemption.nodes or preemption.node.reservation is pending) and not preemption.held:
        preemption.held = True
        book_held(pending.application, preemption.resource, 1)
        hold(pending.application, cost_of_preemption(preemption), 1)


def give_up_place(preemption: Preemption) -> None:
    if preemption.held:
        preemption.held = False
        book_held(preemption.pending.application, preemption.resource, -1)
        hold(preemption.pending.application, cost_of_preemption(preemption), -1)


def preemption_ended(state: State, fact: facts.PreemptionEnded) -> None:
    partition = state.partitions[fact.partition]
    preemption_over(state, partition, partition.preemptions[fact.application_id, fact.allocation_key].pending)


def preemption_refused(state: State, fact: facts.PreemptionRefused) -> None:
    """Remember the refusal. Expired ones are removed, and the oldest if there are too many. The map is in the order of
    time."""
    partition = state.partitions[fact.partition]
    refusals = partition.queues[fact.queue].refusals
    like = (items_of(fact.resource), fact.required_node or fact.group, fact.priority)
    refusals.pop(like, None)
    while refusals:
        oldest = next(iter(refusals))
        if len(refusals) < REFUSALS_KEPT and state.now_ms - refusals[oldest] <= REFUSAL_KEPT_MS:
            break
        del refusals[oldest]
        partition.set_aside.pop((fact.queue, oldest), None)
    refusals[like] = state.now_ms
    partition.set_aside.pop((fact.queue, like), None)
    if fact.set_aside:
        partition.set_aside[fact.queue, like] = None
    partition.preemption_refused_ms = state.now_ms


def allocated_by_preemption(state: State, partition: Partition, pending: PendingAsk, allocation: Allocation) -> None:
    """The preemption has served its ask, unless the RM is still being asked about the plan. That for a group is over
    with the last of its members, or with the ask that it is known by."""
    preemption = pending.preemption
    assert preemption is not None, "it is under way"
    allocation.by_preemption = not preemption.question
    if preemption.nodes:
        book_held(pending.application, pending.ask.resource, -1)
        hold(pending.application, cost_together({pending: 1}), -1)
        preemption.members[pending] -= 1
        if preemption.members[pending]:
            return
        if pending is not preemption.pending:
            del preemption.members[pending]
            pending.preemption = None
            return
    preemption_over(state, partition, pending)


def preemption_over(state: State, partition: Partition, pending: PendingAsk) -> None:
    preemption = pending.preemption
    assert preemption is not None, "it is under way"
    state.timers.cancel(timeouts.of_preemption(preemption))
    known_by = preemption.pending.ask
    del partition.preemptions[known_by.application_id, known_by.allocation_key]
    give_up_place(preemption)
    for ask in preemption.members or (pending,):
        ask.preemption = None
    for node in preemption.nodes:
        node.kept = None
    try_refused_again(partition)


def try_refused_again(partition: Partition) -> None:
    """A node is no longer set aside: forget the refusals that were for want of one. O(1) for each such refusal."""
    for path, like in partition.set_aside:
        queue = partition.queues.get(path)
        if queue is not None:
            queue.refusals.pop(like, None)
    partition.set_aside.clear()
