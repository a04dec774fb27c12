"""What changes in the index when asks may preempt others, and when preemptions begin and end."""

from __future__ import annotations

from ..rules.required_node import required_node
from ..state import PendingAsk
from .leaf_order import LeafOrder
from .limit_changes import place_given_up
from .partition import PartitionIndex


def add_preemptor(index: PartitionIndex, ask: PendingAsk) -> None:
    """Nothing if it may not preempt, or is bound to a node: such asks preempt in their turn."""
    if index.preemptors is not None and ask.ask.allow_preempt_other and not required_node(ask.ask.tags):
        index.preemptors.add_ask(ask)


def preemptor_over(index: PartitionIndex, ask: PendingAsk) -> None:
    """It may have been the last repeat of an ask that may preempt."""
    if index.preemptors is not None and not ask.pending:
        index.preemptors.count_finished()


def add_preemptors_again(index: PartitionIndex, leaf: LeafOrder) -> None:
    """Other asks of the queue may preempt than before, or at other times."""
    if index.preemptors is None:
        return
    index.preemptors.forget_queue(leaf.queue)
    for application in leaf.queue.applications.values():
        for ask in application.asks.values():
            if ask.pending and index.gang_of(ask) is None:
                add_preemptor(index, ask)


def may_preempt(index: PartitionIndex, ask: PendingAsk) -> None:
    """It may again."""
    if required_node(ask.ask.tags):
        for node_id in ask.reservations:
            index.bound.node_changed(index.partition.nodes[node_id])
    elif index.preemptors is not None:
        index.preemptors.add_ask(ask)


def settle_preemption(index: PartitionIndex, ask: PendingAsk) -> None:
    """A preemption for it has begun, or is over, or its place is kept, or not any more."""
    was_held, now = index.preempting.get(ask), ask.preemption
    if now is not None:
        index.preempting[ask] = now.held
    elif was_held is not None:
        del index.preempting[ask]
    if was_held and (now is None or not now.held):
        place_given_up(index, ask.application)
    if was_held is not None and now is None and ask.pending and not ask.preempted_at_ms:
        may_preempt(index, ask)
