"""What changes in the index when asks come, change or go, or their applications change state."""

from __future__ import annotations

from ..state import Application, PendingAsk
from .ask_classes import ApplicationAsks
from .gangs import Awaiting
from .leaf_order import LeafOrder
from .limit_changes import settle_slots
from .partition import PartitionIndex
from .preemption_changes import add_preemptor, preemptor_over


def add_ask(index: PartitionIndex, ask: PendingAsk) -> None:
    """It stands in no line yet. Nothing if none of it is pending: the RM is asked about all of it."""
    if not ask.pending:
        return
    if ask.ask.task_group and index.gang_of(ask) is not None:
        _await_place(index, ask)
        return
    demand, leaf = index.demands.of(ask), index.leaf_of(ask.application)
    if ask.reservations:
        index.demand_of_reserved[ask] = demand
    if ask.free:
        leaf.add_ask(ask, demand, ask.pending * demand.weight)
    else:
        leaf.enter(ask.pending * demand.weight)
    if ask.ask.allow_preempt_other:
        add_preemptor(index, ask)


def _await_place(index: PartitionIndex, ask: PendingAsk) -> None:
    """For nodes that are reserved for repeats of it, it has a demand all the same."""
    if ask.reservations:
        index.demand_of_reserved[ask] = index.demands.of(ask)
    leaf = index.leaf_of(ask.application)
    leaf.enter(ask.pending * index.weight_of(ask))
    if len(ask.application.asks) == 1:
        leaf.application_asks(ask.application)
    if ask.free:
        line_up(index, ask)


def line_up(index: PartitionIndex, ask: PendingAsk) -> None:
    """Repeats of it are free: they wait for a node, or for the place of a placeholder."""
    gang = index.gang_of(ask)
    if gang is None:
        index.leaf_of(ask.application).add_ask(ask, index.demands.of(ask), 0)
    else:
        gang.add_ask(ask)
        gang.settle(ask.ask.task_group)


def leave_line(index: PartitionIndex, ask: PendingAsk, line: ApplicationAsks | Awaiting) -> None:
    del index.lines[ask]
    line.remove_ask(ask)


def remove_ask(index: PartitionIndex, ask: PendingAsk) -> None:
    """It is not asked any more, or not here. Its line finds out when it comes to the front; what its queue asks for has
    to be weighed."""
    line = index.lines.pop(ask, None)
    if line is not None:
        line.count_withdrawn()
    preemptor_over(index, ask)
    if isinstance(line, Awaiting):
        line.gang.settle(line.group.name)
    elif isinstance(line, ApplicationAsks):
        line.ask_class.leaf.taken(line)


def move_ask(index: PartitionIndex, ask: PendingAsk, before: int) -> None:
    """More of it is pending, or other nodes are refused. `before`: so many were pending."""
    was, line = index.find_demand(ask), index.lines.get(ask)
    if line is not None:
        leave_line(index, ask, line)
        if isinstance(line, Awaiting):
            line.gang.settle(line.group.name)
        else:
            line.ask_class.leaf.taken(line)
    if before:
        index.leaf_of(ask.application).changed(before * index.weight_of(ask))
    add_ask(index, ask)
    for node_id in ask.reservations:
        node = index.partition.nodes[node_id]
        if was is not None:
            was.reserved.pop(node, None)
        index.keep_for(index.demand_of(ask), node)
        index.reservations.wake((node,))
    if was is not None and was is not index.find_demand(ask):
        index.forget_if_unused(was)


# Applications


def priority_rose(index: PartitionIndex, ask: PendingAsk) -> None:
    """The ask came: its application may have a higher priority by it."""
    application, priority = ask.application, ask.ask.priority
    if application.foremost == 1 and application.priority == priority and (priority or application.lower):
        index.leaf_of(application).application_changed(application)


def priority_fell(index: PartitionIndex, ask: PendingAsk) -> None:
    """Nothing of the ask is pending any more: its application may have a lower priority without it."""
    if ask.ask.priority > ask.application.priority:
        index.leaf_of(ask.application).application_changed(ask.application)


def asks_less(index: PartitionIndex, application: Application) -> None:
    """One of its asks is over: others may have waited for the last one."""
    if application.asks:
        return
    leaf = index.leaf_of(application)
    if leaf.stateaware_turn is not None:
        leaf.stateaware_turn.stops(application)
        leaf.take_stateaware_turn(leaf.stateaware_turn)


def state_changed(index: PartitionIndex, application: Application) -> None:
    if application.application_limits or index.running_slots:
        settle_slots(index, application)
    leaf = index.orders.get(application.queue)
    if isinstance(leaf, LeafOrder) and leaf.stateaware_turn is not None:
        leaf.stateaware_turn.state_changed(application)
        leaf.regroup(application)
        leaf.take_stateaware_turn(leaf.stateaware_turn)
    if index.preemptors is not None and not application.asks:
        index.preemptors.wake_application(application)


def left_queue(index: PartitionIndex, application: Application) -> None:
    """It has ended: it asks for nothing, and holds nothing."""
    index.gangs.pop(application, None)
    index.running_slots.pop(application, None)
