"""Nodes that the RM's predicates have refused for an ask, until the refusals expire."""

from __future__ import annotations

from .. import facts, timeouts
from ..limits import REFUSALS_LAST_MS
from ..state import (
    NO_NODES,
    Node,
    Partition,
    PendingAsk,
    PredicateClass,
    State,
)
from .predicate_classes import leave_class, refuse, verdicts_lifted


def refusals_forgotten(state: State, fact: facts.RefusalsForgotten) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    refusals_over(state, partition, pending)
    pending.refused = NO_NODES


def node_refused(
    state: State, partition: Partition, pending: PendingAsk, fact: facts.PredicateRefused | facts.PreemptionAnswered
) -> None:
    if isinstance(pending.refused, PredicateClass):
        refuse(state, partition, pending.refused, fact.node_id, state.now_ms + REFUSALS_LAST_MS, fact.reason)
        return
    state.timers.cancel(timeouts.of_refusals(pending))
    pending.refused |= {fact.node_id}
    pending.refusal = f"{fact.node_id}: {fact.reason}"
    pending.refused_at_ms = state.now_ms
    partition.refused[pending] = None
    state.timers.put(timeouts.of_refusals(pending))


def refusals_over(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Forget the refused nodes of an ask."""
    if pending in partition.refused:
        del partition.refused[pending]
        state.timers.cancel(timeouts.of_refusals(pending))


def refusals_lifted(state: State, partition: Partition, node: Node) -> tuple[PendingAsk, ...]:
    """The node has changed, so refusals of it no longer hold. Returns the asks for which it was refused."""
    verdicts_lifted(partition, node.id)
    lifted = tuple(pending for pending in partition.refused if node.id in pending.refused)
    for pending in lifted:
        assert isinstance(pending.refused, frozenset), "classes are not listed by ask"
        refused = pending.refused - {node.id}
        if not refused:
            refusals_over(state, partition, pending)
        pending.refused = refused
    return lifted


def forget_if_served(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Forget the refused nodes of an ask of which nothing is pending or in question."""
    if not pending.pending and not pending.asked:
        del pending.application.asks[pending.ask.allocation_key]
        refusals_over(state, partition, pending)
        leave_class(state, partition, pending)
