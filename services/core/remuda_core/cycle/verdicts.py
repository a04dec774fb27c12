"""Verdicts of an RM that answers in batches (semantics section 10): whether one is known, and the question for more."""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import Fact, PredicatesAsked, VerdictsExpired
from ..index.node_groups import Demand
from ..index.partition import PartitionIndex
from ..limits import ANSWER_WITHIN_MS
from ..state import Node, Partition, PendingAsk, PredicateClass, State


def accepted(pending: PendingAsk, node: Node, now_ms: int) -> bool:
    """A verdict in force allows the ask on the node."""
    found = pending.refused
    return isinstance(found, PredicateClass) and found.accepts(node.id, now_ms)


def class_of(pending: PendingAsk) -> str:
    """The name of the ask's predicate class; "" if the RM does not answer in batches."""
    return pending.refused.name if isinstance(pending.refused, PredicateClass) else ""


def expired(partition: Partition, found: PredicateClass, now_ms: int) -> Fact:
    """Verdicts of the class whose time is over."""
    verdicts = (*found.accepted.items(), *found.refused.items())
    return VerdictsExpired(partition.name, found.name, tuple(node_id for node_id, at_ms in verdicts if at_ms <= now_ms))


def ask_for_more(
    state: State, index: PartitionIndex, demand: Demand, pending: PendingAsk, now_ms: int
) -> Iterator[Fact]:
    """No accepted node has room for the ask: ask the RM about others, unless it is asked already. While too many
    questions are open, the demand waits for its turn."""
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
