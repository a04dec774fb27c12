"""Nodes that the RM has refused an ask, and for how long that is remembered."""

from __future__ import annotations

from .. import facts, timeouts
from ..state import (
    NO_NODES,
    Node,
    Partition,
    PendingAsk,
    State,
)


def refusals_forgotten(state: State, fact: facts.RefusalsForgotten) -> None:
    partition = state.partitions[fact.partition]
    pending = partition.applications[fact.application_id].asks[fact.allocation_key]
    refusals_over(state, partition, pending)
    pending.refused = NO_NODES


def node_refused(
    state: State, partition: Partition, pending: PendingAsk, fact: facts.PredicateRefused | facts.PreemptionAnswered
) -> None:
    state.timers.cancel(timeouts.of_refusals(pending))
    pending.refused |= {fact.node_id}
    pending.refusal = f"{fact.node_id}: {fact.reason}"
    pending.refused_at_ms = state.now_ms
    partition.refused[pending] = None
    state.timers.put(timeouts.of_refusals(pending))


def refusals_over(state: State, partition: Partition, pending: PendingAsk) -> None:
    """No refused node is remembered for it any more."""
    if pending in partition.refused:
        del partition.refused[pending]
        state.timers.cancel(timeouts.of_refusals(pending))


def refusals_lifted(state: State, partition: Partition, node: Node) -> tuple[PendingAsk, ...]:
    """The node is not the one any more that was refused. Returns asks that it was refused."""
    lifted = tuple(pending for pending in partition.refused if node.id in pending.refused)
    for pending in lifted:
        refused = pending.refused - {node.id}
        if not refused:
            refusals_over(state, partition, pending)
        pending.refused = refused
    return lifted


def forget_if_served(state: State, partition: Partition, pending: PendingAsk) -> None:
    """Nothing of it is pending or asked about any more."""
    if not pending.pending and not pending.asked:
        del pending.application.asks[pending.ask.allocation_key]
        refusals_over(state, partition, pending)
