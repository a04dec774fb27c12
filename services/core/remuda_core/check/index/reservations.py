"""Reserved nodes: a change that lets their asks be placed, or preempt, finds each of them."""

from __future__ import annotations

from ...index.limits import NOTHING_HELD, exceeds, limit_of
from ...index.node_groups import Demand
from ...index.ordered import covers
from ...index.partition import PartitionIndex
from ...state import Node, PendingAsk


def _check_bound(ask: PendingAsk, node: Node, fits: bool, stalled: bool, index: PartitionIndex) -> None:
    """An ask whose required node is reserved for it may preempt there, or is checked again when it may."""
    if fits or node.full or not node.ready or node.id in ask.refused or not ask.pending or ask.preemption is not None:
        return
    known = stalled or node in index.bound.changed or ask in index.bound.retries
    assert known, f"{ask.application.id}/{ask.ask.allocation_key}: will never preempt others on {node.id}"


def check_reservation(node: Node, demand: Demand, index: PartitionIndex) -> None:
    """A reserved node that fits is checked in the next pass, or when a full limit or maximum has room."""
    ask = node.reservation
    assert ask is not None, f"node {node.id} is not reserved"
    full = [
        queue
        for queue in ask.application.queue.path_to_root
        if exceeds(demand.resource, queue.settings.max, queue.allocated, NOTHING_HELD if ask.has_place else queue.held)
    ]
    stalled = any(order is not None and node in order.stalled for order in map(index.order_of, full))
    stalled |= node in index.stalled and limit_of(ask) is not None
    fits = (
        node.takes(demand.required_node)
        and not node.full
        and node.id not in demand.refused
        and covers(index.nodes.vector(node.available()), demand.need)
    )
    if demand.required_node == node.id:
        _check_bound(ask, node, fits, stalled, index)
    assert not fits or stalled or node in index.reservations.changed, f"node {node.id}: its reservation is forgotten"
    assert not demand.open or demand in index.reservations.opened or stalled, (
        f"demand {demand.items}: open, and its reservation of {node.id} is forgotten"
    )
