"""Change the index when asks come, change or go, and when their applications change state.

An ask with free repeats waits in a line (`AsksByTurn`): in an ask class, or in a gang if it has to wait for a
placeholder.
"""

from __future__ import annotations

from ..state import Application, PendingAsk
from .ask_classes import ApplicationAsks
from .gangs import Awaiting
from .leaf_order import LeafOrder
from .limit_changes import settle_slots
from .partition import PartitionIndex
from .preemption_changes import add_preemptor, preemptor_over


def add_ask(index: PartitionIndex, ask: PendingAsk) -> None:
    """Add an ask that is in no line. Does nothing if no repeat is pending: then the RM is asked about all of them."""
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
    """The ask waits for a placeholder. It has a demand only if nodes are reserved for it."""
    if ask.reservations:
        index.demand_of_reserved[ask] = index.demands.of(ask)
    leaf = index.leaf_of(ask.application)
    leaf.enter(ask.pending * index.weight_of(ask))
    if len(ask.application.asks) == 1:
        leaf.application_asks(ask.application)
    if ask.free:
        line_up(index, ask)


def line_up(index: PartitionIndex, ask: PendingAsk) -> None:
    """Add an ask with free repeats to its line."""
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
    """The ask was withdrawn, or moves elsewhere. It stays in its line until it comes to the front. The caller updates
    the weight of its queue."""
    line = index.lines.pop(ask, None)
    if line is not None:
        line.count_withdrawn()
    preemptor_over(index, ask)
    if isinstance(line, Awaiting):
        line.gang.settle(line.group.name)
    elif isinstance(line, ApplicationAsks):
        line.ask_class.leaf.taken(line)


def move_ask(index: PartitionIndex, ask: PendingAsk, before: int) -> None:
    """More repeats are pending, or the RM refuses other nodes: move the ask to the line it belongs to. `before`: the
    number of repeats that were pending."""
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
    """The ask was added: its application may have a higher priority."""
    application, priority = ask.application, ask.ask.priority
    if application.foremost == 1 and application.priority == priority and (priority or application.lower):
        index.leaf_of(application).application_changed(application)


def priority_fell(index: PartitionIndex, ask: PendingAsk) -> None:
    """No repeat of the ask is pending any more: its application may have a lower priority."""
    if ask.ask.priority > ask.application.priority:
        index.leaf_of(ask.application).application_changed(ask.application)


def asks_less(index: PartitionIndex, application: Application) -> None:
    """An ask of the application is finished. After the last one it may be another application's turn to start."""
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
    """The application has ended or was removed."""
    index.gangs.pop(application, None)
    index.running_slots.pop(application, None)
