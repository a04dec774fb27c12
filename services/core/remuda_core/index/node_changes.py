"""Change the index when nodes gain or lose room."""

from __future__ import annotations

from ..state import Application, Node
from . import gangs
from .fit_list import covers
from .kept_nodes import limits_of
from .limit_changes import wake_at
from .partition import PartitionIndex


def change_node(index: PartitionIndex, node: Node) -> None:
    """The capacity, available amounts or state of the node changed. Closed demands that fit it now open, and the ask it
    is reserved for may fit. O(log n) for each demand that fits."""
    unblock(index)
    group = index.nodes.place(node)
    if node.reservation is not None:
        index.reservations.node_changed(node)
        index.kept.node_changed(node)
    if group is None:
        if node.ready:
            _wake_bound(index, node)
        return
    for demand in index.closed_singly_that_fit(group.available):
        if node.id not in demand.refused:
            index.open(demand)
    index.freed_nodes.add_node(node, group.available)
    _wake_bound(index, node)
    index.reserving.node_gained_room(group.obtainable)


def size_node(index: PartitionIndex, node: Node) -> bool:
    """The capacity of the node changed, or what is occupied. Returns True if the index has to be built again."""
    known = index.knows(node.capacity) and index.knows(node.occupied)
    if not known and not index.learn(node.capacity, node.occupied):
        return True
    index.total_changed()
    change_node(index, node)
    return False


def _wake_bound(index: PartitionIndex, node: Node) -> None:
    """Asks that are bound to this node may be placed there now. Otherwise they may reserve it, even if it is reserved
    for an ask that may run elsewhere."""
    bound = index.demands.closed_bound.get(node.id)
    if not bound:
        return
    available = None if node.reservation is not None else index.nodes.available(node)
    for demand in list(bound):
        if available is not None and covers(available, demand.need):
            index.open(demand)
        else:
            index.reserving.start_reserving(demand)


def unblock(index: PartitionIndex) -> None:
    """Gangs that found no place may find one now."""
    if not index.blocked:
        return
    blocked, index.blocked = index.blocked, {}
    for gang in blocked:
        if gang.ready:
            gangs.enter(gang)


# Allocations on a node


def booked(index: PartitionIndex, node: Node, application: Application) -> None:
    """An allocation is on the node that was recovered, not made from an ask."""
    index.nodes.place(node)
    if node.reservation is not None:
        index.kept.node_changed(node)
    index.kept.used_more(application)
    shares_changed(index, application)


def released(index: PartitionIndex, node: Node, application: Application) -> None:
    """An allocation was released: the node, its queue, its limits and the partition have more room."""
    if node.reported:
        change_node(index, node)
    index.reserving.total_gained_room()
    shares_changed(index, application)
    if application.trackers:
        wake_at(index, application.trackers)
    index.leaf_of(application).released()
    if index.kept.waiting:
        index.kept.used_less(limits_of(application))


def shares_changed(index: PartitionIndex, application: Application) -> None:
    """The application and its queue use more or less than before."""
    leaf = index.leaf_of(application)
    leaf.changed()
    if leaf.fair:
        leaf.application_changed(application)
