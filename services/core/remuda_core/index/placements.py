"""Change the index when an ask is allocated, or the RM is asked whether it may be."""

from __future__ import annotations

from ..facts import Allocated, PredicateAsked
from ..rules.required_node import is_protected
from ..state import Node, PendingAsk
from .ask_classes import ApplicationAsks
from .asks import asks_less, priority_fell
from .gang_changes import change_task_group
from .gangs import Awaiting
from .limit_changes import settle_slots
from .node_changes import shares_changed
from .partition import PartitionIndex
from .preemption_changes import preemptor_over, settle_preemption


def place_ask(index: PartitionIndex, fact: Allocated | PredicateAsked, ask: PendingAsk) -> None:
    """A repeat of the ask was allocated, or the RM is asked about it. Either way its room on the node is taken. O(log
    n); called for every allocation."""
    if fact.question and isinstance(fact, Allocated):
        _confirm(index, fact, ask)
        return
    application = ask.application
    line = index.lines[ask] if ask.free else index.lines.pop(ask)
    if type(line) is ApplicationAsks:
        ask_class = line.ask_class
        leaf = ask_class.leaf
        index.nodes.book(fact.node_id, ask_class.demand)
        if not ask.free:
            line.remove_ask(ask)
            leaf.taken(line)
            preemptors = index.preemptors
            if preemptors is not None and preemptors.held:
                preemptor_over(index, ask)
        elif leaf.fair:
            leaf.taken(line)
        leaf.changed(ask_class.demand.weight)
    else:
        _place_aside(index, ask, line, index.partition.nodes[fact.node_id])
    if index.kept.under:
        index.kept.used_more(application)
    if not ask.pending and ask.ask.priority > application.priority:
        priority_fell(index, ask)
    if ask.ask.placeholder:
        change_task_group(index, application, application.task_groups[ask.ask.task_group])
    if application.application_limits:
        settle_slots(index, application)
    if index.preempting:
        settle_preemption(index, ask)
    if index.packs is not None and isinstance(fact, Allocated):
        index.packs.allocated(application, index.partition.nodes[fact.node_id])
    if not application.asks:
        asks_less(index, application)


def _place_aside(index: PartitionIndex, ask: PendingAsk, line: ApplicationAsks | Awaiting, node: Node) -> None:
    """The ask waits for a placeholder, and yet was allocated: a node was reserved for it before."""
    assert isinstance(line, Awaiting), "what is allocated was in a line"
    index.nodes.place(node)
    if not ask.free:
        line.remove_ask(ask)
        preemptor_over(index, ask)
    line.gang.settle(line.group.name)
    line.gang.leaf.changed(index.weight_of(ask))


def _confirm(index: PartitionIndex, fact: Allocated, ask: PendingAsk) -> None:
    """The RM was asked and has agreed. The room on the node was taken when it was asked."""
    application = ask.application
    if is_protected(fact.tags):
        node = index.partition.nodes[fact.node_id]
        index.nodes.place(node)
        if node.reservation is not None:
            index.kept.node_changed(node)
    if fact.placeholder:
        shares_changed(index, application)
        change_task_group(index, application, application.task_groups[fact.task_group])
    settle_slots(index, application)
    settle_preemption(index, ask)
    if index.packs is not None:
        index.packs.allocated(application, index.partition.nodes[fact.node_id])
    asks_less(index, application)
