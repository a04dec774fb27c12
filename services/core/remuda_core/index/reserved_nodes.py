"""Change the index when reservations come and go (semantics section 11)."""

from __future__ import annotations

from ..state import Node, PendingAsk
from .ask_classes import ApplicationAsks
from .asks import leave_line, line_up
from .node_changes import change_node
from .partition import PartitionIndex
from .preemption_changes import node_not_set_aside


def reserve_node(index: PartitionIndex, ask: PendingAsk, node: Node) -> None:
    """The node is reserved for one repeat of the ask, which leaves its line if no other repeat is free."""
    demand = index.demand_of_reserved[ask] = index.demand_of(ask)
    index.keep_for(demand, node)
    index.nodes.withdraw(node)
    index.kept.keep(ask, node, demand)
    # The ask may fit already: preemption also reserves nodes for asks that a maximum holds back.
    index.reservations.node_changed(node)
    if demand.open:
        index.reservations.demand_opened(demand)
    line = index.lines.get(ask)
    if not ask.free and isinstance(line, ApplicationAsks):
        leave_line(index, ask, line)
        line.ask_class.leaf.taken(line)


def unreserve_node(index: PartitionIndex, ask: PendingAsk, node: Node) -> None:
    """The node is not reserved any more; the repeat of the ask is free."""
    demand = index.demand_of_reserved[ask]
    demand.reserved.pop(node, None)
    index.reservations.changed.pop(node, None)
    index.bound.changed.pop(node, None)
    index.stalled.unblock(node)
    index.kept.release(node)
    for order in map(index.order_of, ask.application.queue.path_to_root):
        if order is not None:
            order.stalled.pop(node, None)
    change_node(index, node)
    node_not_set_aside(index)
    if ask.free == 1:  # no repeat was free before, so it is in no line
        line_up(index, ask)
    if not ask.reservations:
        del index.demand_of_reserved[ask]
        index.forget_if_unused(demand)
