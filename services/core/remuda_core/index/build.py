"""Make the scheduling index of a partition from its state, and fill and empty the places of leaf queues."""

from __future__ import annotations

from collections.abc import Iterable

from ..settings import Timing
from ..state import Application, Partition
from . import gangs
from .asks import add_ask, state_changed
from .gang_changes import gang_for
from .leaf_order import LeafOrder
from .limit_changes import note_slots
from .partition import PartitionIndex


def build(partition: Partition, timing: Timing) -> PartitionIndex:
    """O(nodes + queues + applications + asks)."""
    index = PartitionIndex(partition, timing)
    fill(index, (application for queue in partition.queues.values() for application in queue.applications.values()))
    for preemption in partition.preemptions.values():
        index.preempting[preemption.pending] = preemption.held
    for node in partition.nodes.values():
        if node.reservation is not None:
            index.demand_of(node.reservation).reserved[node] = None
            index.reservations.wake((node,))
    return index


def fill(index: PartitionIndex, applications: Iterable[Application]) -> None:
    """Add applications with what they ask for. It stands in no line, or in one that is gone."""
    in_order = sorted(applications, key=lambda a: a.seq)
    for application in in_order:
        state_changed(index, application)
    for application in in_order:
        index.gangs.pop(application, None)
        note_slots(index, application)
        for group in application.task_groups.values():
            if group.awaited:
                gang_for(index, application).waiting[group.name] = {}
        for ask in application.asks.values():
            index.lines.pop(ask, None)
            add_ask(index, ask)


def empty(index: PartitionIndex, leaf: LeafOrder) -> None:
    """Nothing stands in its ask classes any more; it is about to be replaced."""
    ask_classes, leaf.ask_classes = leaf.ask_classes, {}
    for lines in leaf.lines.values():
        for line in lines.values():
            index.unexplained.pop(line, None)
    for ask_class in ask_classes.values():
        ask_class.ranking.members.clear()  # one that grows old is not looked at any more
        ask_class.wait_no_more()
        index.ask_class_gone(leaf, ask_class)
    for application in leaf.queue.applications.values():
        if (gang := index.gangs.get(application)) is not None:
            index.blocked.pop(gang, None)
            gangs.leave(gang)
    index.leaves.pop(leaf, None)
    if index.preemptors is not None:
        index.preemptors.forget(leaf.queue)
