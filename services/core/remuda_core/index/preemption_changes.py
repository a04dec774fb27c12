"""Change the index when asks may preempt others, and when preemptions begin and end."""

from __future__ import annotations

from ..rules.required_node import required_node
from ..state import PendingAsk
from .leaf_order import LeafOrder
from .limit_changes import place_given_up
from .partition import PartitionIndex


def add_preemptor(index: PartitionIndex, ask: PendingAsk) -> None:
    """Does nothing if the ask may not preempt. Asks that are bound to a node preempt in their turn instead."""
    if index.preemptors is not None and ask.ask.allow_preempt_other and not required_node(ask.ask.tags):
        index.preemptors.add_ask(ask)


def preemptor_over(index: PartitionIndex, ask: PendingAsk) -> None:
    """A repeat of the ask is pending no more. If it was the last, a preemptor is finished."""
    if index.preemptors is not None and not ask.pending:
        index.preemptors.count_finished()


def add_preemptors_again(index: PartitionIndex, leaf: LeafOrder) -> None:
    """The settings of the queue changed: other asks may preempt, or at other times."""
    if index.preemptors is None:
        return
    index.preemptors.forget_queue(leaf.queue)
    for application in leaf.queue.applications.values():
        for ask in application.asks.values():
            if ask.pending and index.gang_of(ask) is None:
                add_preemptor(index, ask)


def may_preempt(index: PartitionIndex, ask: PendingAsk) -> None:
    """The ask may preempt again."""
    if required_node(ask.ask.tags):
        for node_id in ask.reservations:
            index.bound.node_changed(index.partition.nodes[node_id])
    elif index.preemptors is not None:
        index.preemptors.add_ask(ask)


def settle_preemption(index: PartitionIndex, ask: PendingAsk) -> None:
    """A preemption for the ask has begun or ended, or its place is held, or is not held any more."""
    was_held, now = index.preempting.get(ask), ask.preemption
    if now is not None:
        index.preempting[ask] = now.held
    elif was_held is not None:
        del index.preempting[ask]
    if was_held != (None if now is None else now.held):
        index.kept.recount(index.partition.nodes[node_id] for node_id in ask.reservations)
        index.kept.used_more(ask.application)
    if was_held and (now is None or not now.held):
        place_given_up(index, ask.application)
    if was_held is not None and now is None:
        node_not_set_aside(index)
        if ask.pending:
            may_preempt(index, ask)


def node_not_set_aside(index: PartitionIndex) -> None:
    """A node is no longer set aside for an ask: others may preempt there."""
    if index.preemptors is not None:
        index.preemptors.node_not_set_aside()
