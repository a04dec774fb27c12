"""The facts that place an ask on a node or end an allocation, and the questions to the RM that come before (semantics
sections 7, 10 and 15).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import Allocated, Fact, PredicateAsked, PredicatesAsked, ReleaseRequested, Tags, VerdictsExpired
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..limits import ANSWER_WITHIN_MS
from ..rules import lifecycle
from ..rules.devices import NO_DEVICES
from ..state import Allocation, Node, Partition, PendingAsk, PredicateClass, State
from .devices import chosen
from .transitions import start

# `PredicateAsked.kind`: may the ask be placed on the node?
PLACE = "place"


def place(state: State, partition: Partition, pending: PendingAsk, node: Node, now_ms: int) -> Iterator[Fact]:
    """Place the ask: yield the question, where the RM declares predicates and has given no verdict; else the new state
    of the application if it has another one, then the allocation."""
    if state.predicates and not accepted(pending, node, now_ms):
        yield ask_before_placing(state, pending, node, now_ms)
        return
    if pending.application.state != lifecycle.RUNNING:
        yield from start(partition, pending.application, now_ms, pending.ask)
    yield allocate(state, pending, node, devices=choose_devices(partition, pending, node))


def ask_before_placing(state: State, pending: PendingAsk, node: Node, now_ms: int) -> PredicateAsked:
    """The question whether the ask may be placed. Its room on the node is taken until the answer, which makes the
    allocation or gives the room back."""
    ask = pending.ask
    return PredicateAsked(
        *ask.name,
        node.id,
        ask.resource,
        PLACE,
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
        class_of(pending),
        ask.tags if class_of(pending) else {},
        choose_devices(state.partitions[ask.partition], pending, node),
    )


def choose_devices(partition: Partition, pending: PendingAsk, node: Node) -> Tags:
    """The devices of the node that the ask would get."""
    return chosen(partition, node, pending.ask.resource, pending.ask.tags) if node.devices else NO_DEVICES


def allocate(state: State, pending: PendingAsk, node: Node, question: int = 0, devices: Tags = NO_DEVICES) -> Allocated:
    """The fact that allocates one repeat of the ask. `question`: the number of the question that the RM has answered; 0
    if it was not asked. `devices`: those that are held or chosen for it."""
    ask = pending.ask
    return Allocated(
        ask.partition,
        pending.application.id,  # this string, not the ask's own: thousands of allocations share it
        ask.allocation_key,
        state.next_uuid(),
        node.id,
        ask.resource,
        ask.priority,
        ask.tags,
        ask.task_group,
        ask.placeholder,
        ask.execution_timeout_ms,
        ask.originator,
        ask.allow_preempt_self,
        question,
        devices,
    )


def accepted(pending: PendingAsk, node: Node, now_ms: int) -> bool:
    """Whether a verdict in force allows the ask on the node."""
    found = pending.refused
    return isinstance(found, PredicateClass) and found.accepts(node.id, now_ms)


def class_of(pending: PendingAsk) -> str:
    """The name of the predicate class of the ask; empty if the RM does not answer in batches."""
    return pending.refused.name if isinstance(pending.refused, PredicateClass) else ""


def expired(partition: Partition, found: PredicateClass, now_ms: int) -> Fact:
    """The fact that forgets the verdicts of the class whose time is over."""
    verdicts = (*found.accepted.items(), *found.refused.items())
    return VerdictsExpired(partition.name, found.name, tuple(node_id for node_id, at_ms in verdicts if at_ms <= now_ms))


def ask_for_more(
    state: State, index: PartitionIndex, demand: Demand, pending: PendingAsk, now_ms: int
) -> Iterator[Fact]:
    """Ask the RM about more nodes, because no accepted node has room for the ask, unless it is asked already. While too
    many questions are open, the demand waits for its turn."""
    partition, found, ask = index.partition, demand.predicate_class, pending.ask
    if found is None or found.question:
        return
    node_ids = index.nodes.without_verdict(demand, partition.last_asked)
    if not node_ids:
        return
    if partition.questions_paused:
        index.demands.unasked[demand] = None
        return
    yield PredicatesAsked(
        ask.partition,
        found.name,
        ask.application_id,
        ask.allocation_key,
        ask.resource,
        ask.tags,
        node_ids,
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
    )


def release_requested(allocation: Allocation, termination_type: int, message: str) -> Fact:
    """The fact that asks the RM to release an allocation, which counts until the RM confirms (semantics section 15)."""
    fact = allocation.fact
    return ReleaseRequested(*fact.ask_name, fact.uuid, termination_type, message)
