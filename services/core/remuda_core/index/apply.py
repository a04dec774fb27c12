"""How each kind of fact changes the index of a partition, after the fact was written into the state.

The table BY_FACT, at the end, is the contents of this module. Each function gets the fact, and what `evolve` returned
for it: objects that the fact removed from the state, or changed without naming them. It returns True if nearly all of
the index would change: then the index is dropped, and built again when it is next needed. Facts that are not in the
table change nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .. import facts
from ..evolve.administration import Moved
from ..evolve.asks import AskGone
from ..evolve.nodes import NodeGone
from ..rules import lifecycle
from ..state import Allocation, Application, Budget, Node, PendingAsk, PredicateClass, Question, Queue, Replacement
from .asks import ApplicationAsks
from .build import (
    add_queue,
    hold_changed,
    is_reordered_later,
    move_application,
    must_be_rebuilt,
    queue_reordered,
    remove_queue,
)
from .partition import PartitionIndex
from .updates import (
    add_ask,
    asks_less,
    booked,
    budget_gained,
    change_node,
    change_task_group,
    left_queue,
    move_ask,
    place_ask,
    priority_fell,
    priority_rose,
    released,
    remove_ask,
    reserve_node,
    settle_preemption,
    settle_slots,
    size_node,
    start_replacement,
    state_changed,
    state_node,
    unblock,
    unreserve_node,
)

# Queues


def partition_changed(index: PartitionIndex, fact: facts.PartitionChanged, _: None) -> bool:
    root = index.partition.root
    if must_be_rebuilt(index.settings, fact.config) or is_reordered_later(index, root):
        return True
    index.settings = fact.config
    index.reserved_nodes.nodes_changed()
    queue_reordered(index, root)
    return False


def queue_added(index: PartitionIndex, fact: facts.QueueAdded, _: None) -> None:
    add_queue(index, index.partition.queues[fact.queue])


def queue_changed(index: PartitionIndex, fact: facts.QueueChanged, _: None) -> bool:
    queue = index.partition.queues[fact.queue]
    if is_reordered_later(index, queue):
        return True
    queue_reordered(index, queue)
    return False


def budget_period_began(index: PartitionIndex, fact: facts.BudgetPeriodBegan, budget: Budget | None) -> None:
    if budget is not None:
        budget_gained(index, budget)


def queue_removed(index: PartitionIndex, fact: facts.QueueRemoved, queue: Queue) -> None:
    remove_queue(index, queue)


def queue_held(index: PartitionIndex, fact: facts.QueueHeld, _: None) -> None:
    hold_changed(index, index.partition.queues[fact.queue])


def queue_resumed(index: PartitionIndex, fact: facts.QueueResumed, queue: Queue | None) -> None:
    if queue is not None:
        hold_changed(index, queue)


# Nodes


def node_added(index: PartitionIndex, fact: facts.NodeAdded, _: None) -> bool:
    node = index.partition.nodes[fact.node_id]
    if node.allocations and not index.knows(node.allocated) and not index.learn(node.allocated):  # of guests
        return True
    index.reserved_nodes.nodes_changed()
    if index.groups is not None:
        index.groups.node_changed(node)
    return size_node(index, node)


def node_changed(index: PartitionIndex, fact: facts.NodeChanged, asks: tuple[PendingAsk, ...]) -> bool:
    _refused_no_more(index, asks)
    if index.groups is not None:
        node, questions = index.partition.nodes[fact.node_id], index.partition.questions
        index.groups.node_changed(node, (number for number, one in questions.items() if one.node is node))
    return size_node(index, index.partition.nodes[fact.node_id])


def _refused_no_more(index: PartitionIndex, asks: Iterable[PendingAsk]) -> None:
    for ask in asks:
        if ask.pending:
            move_ask(index, ask, ask.pending)


def occupied_changed(index: PartitionIndex, _: facts.Fact, node: Node) -> bool:
    return size_node(index, node)


def node_closed(index: PartitionIndex, fact: facts.NodeDraining | facts.NodeLeaving, _: None) -> bool:
    return state_node(index, index.partition.nodes[fact.node_id])


def node_opened(index: PartitionIndex, fact: facts.NodeSchedulable, node: Node | None) -> bool:
    return node is not None and state_node(index, node)


def windows_changed(
    index: PartitionIndex, fact: facts.WindowPlanned | facts.WindowOpened | facts.WindowClosed, nodes: tuple[Node, ...]
) -> bool:
    return any(state_node(index, node) for node in nodes)


def node_removed(index: PartitionIndex, fact: facts.NodeRemoved, gone: NodeGone) -> bool:
    _refused_no_more(index, gone.asks)
    if index.groups is not None:
        index.groups.node_removed(gone.node)
    index.nodes.remove(gone.node)
    index.reserved_nodes.nodes_changed()
    index.total_changed()
    return not index.has_lasting


def node_reserved(index: PartitionIndex, fact: facts.NodeReserved, _: None) -> None:
    ask = _ask(index, fact)
    settle_preemption(index, ask)
    reserve_node(index, ask, index.partition.nodes[fact.node_id])
    settle_slots(index, ask.application)


def node_unreserved(index: PartitionIndex, fact: facts.NodeUnreserved, _: None) -> None:
    ask = _ask(index, fact)
    unreserve_node(index, ask, index.partition.nodes[fact.node_id])
    settle_preemption(index, ask)
    settle_slots(index, ask.application)


def domain_avoided(index: PartitionIndex, fact: facts.DomainAvoided | facts.DomainAvoidanceEnded, _: None) -> None:
    if index.groups is not None:
        index.groups.avoidance.follow()


# Applications


def application_state_changed(index: PartitionIndex, fact: facts.ApplicationStateChanged, _: None) -> None:
    application = index.partition.applications[fact.application_id]
    state_changed(index, application)
    if fact.state == lifecycle.FAILING:  # of a gang that was resuming, placeholders cannot be replaced any more
        for group in application.task_groups.values():
            change_task_group(index, application, group)
    if fact.state in lifecycle.TERMINAL:
        left_queue(index, application)


def application_removed(index: PartitionIndex, fact: facts.ApplicationRemoved, application: Application) -> None:
    settle_slots(index, application)
    left_queue(index, application)


def application_moved(index: PartitionIndex, fact: facts.ApplicationMoved, moved: Moved) -> None:
    move_application(index, moved)


def _task_group(index: PartitionIndex, application: Application, name: str) -> None:
    """Follow placeholders of the task group, if it is still there."""
    group = application.task_groups.get(name)
    if group is not None:
        change_task_group(index, application, group)


# Asks


def _ask(index: PartitionIndex, fact: Any) -> PendingAsk:
    """The ask that the fact names."""
    return index.partition.applications[fact.application_id].asks[fact.allocation_key]


def ask_accepted(index: PartitionIndex, fact: facts.AskAccepted | facts.AskChanged, ask: PendingAsk) -> None:
    add_ask(index, ask)
    if ask.application.foremost == 1:
        priority_rose(index, ask)
    if fact.ask.placeholder:
        _task_group(index, ask.application, fact.ask.task_group)


def ask_changed(index: PartitionIndex, fact: facts.AskChanged, gone: AskGone) -> None:
    _ask_gone(index, gone)
    ask_accepted(index, fact, index.partition.applications[fact.ask.application_id].asks[fact.ask.allocation_key])
    index.leaf_of(gone.ask.application).weigh()


def ask_released(index: PartitionIndex, fact: facts.AskReleased, gone: AskGone | None) -> None:
    if gone is not None:
        _ask_gone(index, gone)
        index.leaf_of(gone.ask.application).weigh()
        asks_less(index, gone.ask.application)


def _ask_gone(index: PartitionIndex, gone: AskGone) -> None:
    ask, application = gone.ask, gone.ask.application
    for question in gone.questions:
        if index.groups is not None:
            index.groups.give_back(question.fact.question)
        released(index, question.node, application)
    remove_ask(index, ask)
    index.first_bound_ask_gone(ask)
    priority_fell(index, ask)
    if ask.ask.placeholder:
        _task_group(index, application, ask.ask.task_group)
    settle_preemption(index, ask)
    settle_slots(index, application)


def ask_waiting(index: PartitionIndex, fact: facts.AskWaiting, now_ms: int) -> None:
    line = index.lines.get(_ask(index, fact))
    if isinstance(line, ApplicationAsks) and fact.constraints:
        line.was_reported(fact.constraints[0].key, now_ms)


def ask_outstanding(index: PartitionIndex, fact: facts.AskOutstanding, _: None) -> None:
    ask = _ask(index, fact)
    line = index.lines.get(ask)
    if isinstance(line, ApplicationAsks):
        line.was_announced(ask)


# Allocations


def allocation_recovered(index: PartitionIndex, fact: facts.AllocationRecovered, _: None) -> bool:
    allocation, partition = fact.allocation, index.partition
    if not index.knows(allocation.resource) and not index.learn(allocation.resource):
        return True
    application = partition.applications[allocation.application_id]
    if index.groups is not None:
        index.groups.hold(allocation.uuid, partition.nodes[allocation.node_id], application, allocation)
    booked(index, partition.nodes[allocation.node_id], application)
    if index.packing is not None:
        index.packing.allocated(application, partition.nodes[allocation.node_id])
    settle_slots(index, application)
    if allocation.placeholder:
        _task_group(index, application, allocation.task_group)
    return False


def devices_assigned(index: PartitionIndex, fact: facts.DevicesAssigned, allocation: Allocation) -> None:
    if allocation.node.reported:
        change_node(index, allocation.node)


def work_measured(index: PartitionIndex, fact: facts.WorkMeasured, changed: bool) -> bool:
    return changed


def allocation_released(index: PartitionIndex, fact: facts.AllocationReleased, allocation: Allocation) -> None:
    if allocation.fact.placeholder:
        _task_group(index, allocation.application, allocation.fact.task_group)
    if index.packing is not None:
        index.packing.released(allocation.application, allocation.node)
    if index.groups is not None:
        index.groups.give_back(fact.uuid)
    released(index, allocation.node, allocation.application)


def release_requested(index: PartitionIndex, fact: facts.ReleaseRequested, _: None) -> None:
    allocation = index.partition.allocations[fact.uuid]
    if allocation.fact.placeholder:
        _task_group(index, allocation.application, allocation.fact.task_group)


# Preemption


def preemption_changed(
    index: PartitionIndex, fact: facts.PreemptionStarted | facts.PreemptionAsked | facts.PreemptionEnded, _: None
) -> None:
    settle_preemption(index, _ask(index, fact))


def preemption_answered(index: PartitionIndex, fact: facts.PreemptionAnswered, _: None) -> None:
    ask = _ask(index, fact)
    index.reserved_nodes.doubt(ask.reservations)
    if not fact.success and ask.pending:
        move_ask(index, ask, ask.pending)
    settle_preemption(index, ask)


# Gangs


def replacement_started(index: PartitionIndex, fact: facts.ReplacementStarted, ask: PendingAsk) -> None:
    application, partition = ask.application, index.partition
    replacement = application.replacements[fact.allocation.uuid]
    if replacement.elsewhere:
        change_node(index, replacement.node)
    group = partition.allocations[fact.placeholder].fact.task_group
    start_replacement(index, ask, application.task_groups[group])
    if not ask.pending:
        priority_fell(index, ask)
    settle_preemption(index, ask)
    if not application.asks:
        asks_less(index, application)


def placeholder_replaced(index: PartitionIndex, fact: facts.PlaceholderReplaced, placeholder: Allocation) -> None:
    if index.packing is not None:
        index.packing.released(placeholder.application, placeholder.node)
        index.packing.allocated(placeholder.application, index.partition.nodes[fact.allocation.node_id])
    if index.groups is not None:
        index.groups.give_back(placeholder.fact.uuid)
        node = index.partition.nodes[fact.allocation.node_id]
        index.groups.hold(fact.allocation.uuid, node, placeholder.application, fact.allocation)
    released(index, placeholder.node, placeholder.application)
    change_node(index, index.partition.nodes[fact.allocation.node_id])
    _task_group(index, placeholder.application, placeholder.fact.task_group)


def replacement_cancelled(index: PartitionIndex, fact: facts.ReplacementCancelled, replacement: Replacement) -> None:
    if replacement.elsewhere:
        change_node(index, replacement.node)
    application = replacement.placeholder.application
    _task_group(index, application, replacement.placeholder.fact.task_group)
    ask = application.asks[fact.allocation_key]
    _pending_again(index, ask)
    if ask.ask.placeholder:
        _task_group(index, application, ask.ask.task_group)


def _pending_again(index: PartitionIndex, ask: PendingAsk) -> None:
    """Return one more repeat of the ask to its line."""
    move_ask(index, ask, ask.pending - 1)
    priority_rose(index, ask)


# Questions to the RM


def predicate_refused(index: PartitionIndex, fact: facts.PredicateRefused, question: Question | None) -> None:
    ask = _ask(index, fact)
    index.reserved_nodes.doubt(ask.reservations)
    if question is not None:
        _answered(index, ask, question)
    elif ask.pending:
        move_ask(index, ask, ask.pending)


def predicate_withdrawn(index: PartitionIndex, fact: facts.PredicateWithdrawn, question: Question) -> None:
    _answered(index, _ask(index, fact), question)


def _answered(index: PartitionIndex, ask: PendingAsk, question: Question) -> None:
    """Give up the room that was taken for the question."""
    if index.groups is not None:
        index.groups.give_back(question.fact.question)
    released(index, question.node, question.application)
    settle_slots(index, question.application)
    _pending_again(index, ask)


def refusals_forgotten(index: PartitionIndex, fact: facts.RefusalsForgotten, _: None) -> None:
    _refused_no_more(index, (_ask(index, fact),))


def predicates_asked(index: PartitionIndex, fact: facts.PredicatesAsked, asked: PredicateClass) -> None:
    """Let asks of the class reserve no node before the answer."""
    for demand in index.demands.by_class.get(asked, ()):
        index.demands.end_reserving(demand)


def predicates_answered(
    index: PartitionIndex, fact: facts.PredicatesAnswered, classes: tuple[PredicateClass, ...]
) -> None:
    index.reserved_nodes.doubt(fact.node_ids)
    for one in classes:
        index.nodes.answered(one, fact.node_ids)
        for demand in index.demands.by_class.get(one, ()):
            if demand.possible and not demand.open:
                index.open(demand)
    unblock(index)


def verdicts_expired(index: PartitionIndex, fact: facts.VerdictsExpired, _: None) -> None:
    for node_id in fact.node_ids:
        change_node(index, index.partition.nodes[node_id])


BY_FACT: Final[dict[type[facts.Fact], Callable[[PartitionIndex, Any, Any], bool | None]]] = {
    facts.PartitionChanged: partition_changed,
    facts.QueueAdded: queue_added,
    facts.QueueChanged: queue_changed,
    facts.QueueRemoved: queue_removed,
    facts.BudgetPeriodBegan: budget_period_began,
    facts.QueueHeld: queue_held,
    facts.QueueResumed: queue_resumed,
    facts.NodeAdded: node_added,
    facts.NodeChanged: node_changed,
    facts.NodeDraining: node_closed,
    facts.NodeLeaving: node_closed,
    facts.NodeSchedulable: node_opened,
    facts.NodeRemoved: node_removed,
    facts.WindowPlanned: windows_changed,
    facts.WindowOpened: windows_changed,
    facts.WindowClosed: windows_changed,
    facts.NodeReserved: node_reserved,
    facts.NodeUnreserved: node_unreserved,
    facts.DomainAvoided: domain_avoided,
    facts.DomainAvoidanceEnded: domain_avoided,
    facts.ApplicationStateChanged: application_state_changed,
    facts.ApplicationRemoved: application_removed,
    facts.ApplicationMoved: application_moved,
    facts.AskAccepted: ask_accepted,
    facts.AskChanged: ask_changed,
    facts.AskReleased: ask_released,
    facts.AskWaiting: ask_waiting,
    facts.AskOutstanding: ask_outstanding,
    facts.Allocated: place_ask,
    facts.AllocationRecovered: allocation_recovered,
    facts.DevicesAssigned: devices_assigned,
    facts.WorkMeasured: work_measured,
    facts.GuestKept: lambda *_: True,  # the partition is new, and has no index yet
    facts.ExistingAllocationRejected: occupied_changed,
    facts.RejectedAllocationForgotten: occupied_changed,
    facts.AllocationReleased: allocation_released,
    facts.ReleaseRequested: release_requested,
    facts.PreemptionStarted: preemption_changed,
    facts.PreemptionAsked: preemption_changed,
    facts.PreemptionAnswered: preemption_answered,
    facts.PreemptionEnded: preemption_changed,
    facts.ReplacementStarted: replacement_started,
    facts.PlaceholderReplaced: placeholder_replaced,
    facts.ReplacementCancelled: replacement_cancelled,
    facts.PredicateAsked: place_ask,
    facts.PredicateRefused: predicate_refused,
    facts.PredicateWithdrawn: predicate_withdrawn,
    facts.RefusalsForgotten: refusals_forgotten,
    facts.PredicatesAsked: predicates_asked,
    facts.PredicatesAnswered: predicates_answered,
    facts.VerdictsExpired: verdicts_expired,
}
