"""Changes of the index that several facts have in common: asks, reservations, gangs, nodes, preemption, limits.

`apply` maps facts to these, and `build` uses them to make an index. The state has changed already when they are called.

An ask with free repeats is in a line (`PriorityFifo`): in an ask class, or in a gang if it has to wait for a
placeholder.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import Allocated, PredicateAsked
from ..rules.required_node import is_protected, required_node
from ..state import Application, Budget, Node, PendingAsk, TaskGroup
from . import gangs
from .asks import ApplicationAsks
from .demands import fitting
from .devices import places_of
from .gangs import AwaitingAsks, Gang
from .groups import Groups
from .leaves import LeafOrder
from .limits import Limit, limits_of
from .node_groups import Demand
from .ordered import covers
from .partition import PartitionIndex


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
    if index.groups is not None:
        index.groups.add_ask(ask, demand)
    if ask.free:
        leaf.add_ask(ask, demand, ask.pending * demand.weight)
    else:
        leaf.enter(ask.pending * demand.weight)
    if ask.ask.allow_preempt_other:
        add_preemptor(index, ask)


def _await_place(index: PartitionIndex, ask: PendingAsk) -> None:
    """Add an ask that waits for a placeholder. It has a demand only if nodes are reserved for it."""
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


def leave_line(index: PartitionIndex, ask: PendingAsk, line: ApplicationAsks | AwaitingAsks) -> None:
    """Remove the ask from its line at once. The caller settles what has the line."""
    del index.lines[ask]
    line.remove_ask(ask)
    if index.groups is not None and isinstance(line, ApplicationAsks):
        index.groups.remove_ask(ask, line.ask_class.demand)


def remove_ask(index: PartitionIndex, ask: PendingAsk) -> None:
    """Remove an ask that was withdrawn, or moves elsewhere. It stays in its line until it comes to the front. The
    caller updates the weight of its queue."""
    line = index.lines.pop(ask, None)
    if line is not None:
        line.count_withdrawn()
    preemptor_over(index, ask)
    if isinstance(line, AwaitingAsks):
        line.gang.settle(line.group.name)
    elif isinstance(line, ApplicationAsks):
        if index.groups is not None:
            index.groups.remove_ask(ask, line.ask_class.demand)
        line.ask_class.leaf.taken(line)


def move_ask(index: PartitionIndex, ask: PendingAsk, before: int) -> None:
    """Move the ask to the line it belongs to: more repeats are pending, or the RM refuses other nodes. `before`: the
    number of repeats that were pending."""
    was, line = index.find_demand(ask), index.lines.get(ask)
    if line is not None:
        leave_line(index, ask, line)
        if isinstance(line, AwaitingAsks):
            line.gang.settle(line.group.name)
        else:
            line.ask_class.leaf.taken(line)
    if before:
        index.leaf_of(ask.application).changed(before * index.weight_of(ask))
    add_ask(index, ask)
    demand_changed(index, ask, was)


def demand_changed(index: PartitionIndex, ask: PendingAsk, was: Demand | None) -> None:
    """Keep the nodes that are reserved for the ask for its demand of now, in place of the one it had."""
    for node_id in ask.reservations:
        node = index.partition.nodes[node_id]
        if was is not None:
            was.reserved.pop(node, None)
        index.keep_for(index.demand_of(ask), node)
        index.reservations.wake((node,))
    if was is not None and was is not index.find_demand(ask):
        index.forget_if_unused(was)


def priority_rose(index: PartitionIndex, ask: PendingAsk) -> None:
    """Rank the application of an ask again that was added: its priority may be higher."""
    application, priority = ask.application, ask.ask.priority
    if application.foremost == 1 and application.priority == priority and (priority or application.lower):
        index.leaf_of(application).application_changed(application)


def priority_fell(index: PartitionIndex, ask: PendingAsk) -> None:
    """Rank the application of an ask again of which nothing is pending any more: its priority may be lower."""
    if ask.ask.priority > ask.application.priority:
        index.leaf_of(ask.application).application_changed(ask.application)


def asks_less(index: PartitionIndex, application: Application) -> None:
    """Follow the end of an ask. After the last ask of the application another one may start in a stateaware queue."""
    if application.asks:
        return
    leaf = index.leaf_of(application)
    if leaf.stateaware_turn is not None:
        leaf.stateaware_turn.stops(application)
        leaf.take_stateaware_turn(leaf.stateaware_turn)


def state_changed(index: PartitionIndex, application: Application) -> None:
    """Follow another state of the application: it may hold other running slots, and take or give its turn."""
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
    """Forget an application that has ended or was removed."""
    index.gangs.pop(application, None)
    index.running_slots.pop(application, None)
    if index.packing is not None:
        index.packing.forget(application)


# Placements and reservations


def place_ask(index: PartitionIndex, fact: Allocated | PredicateAsked, ask: PendingAsk) -> None:
    """Follow an allocation of a repeat of the ask, or a question to the RM about it. Either way its room on the node is
    taken. O(log n); called for every allocation."""
    if index.groups is not None:
        _count_member(index.groups, index, fact, ask)
    if fact.question and isinstance(fact, Allocated):
        _confirm(index, fact, ask)
        return
    application = ask.application
    line = index.lines[ask] if ask.free else index.lines.pop(ask)
    if type(line) is ApplicationAsks:
        ask_class = line.ask_class
        leaf, demand = ask_class.leaf, ask_class.demand
        index.nodes.book(fact.node_id, demand)
        if index.is_special:
            _follow_placement(index, fact, ask, demand)
        if not ask.free:
            line.remove_ask(ask)
            leaf.taken(line)
            preemptors = index.preemptors
            if preemptors is not None and preemptors.held:
                preemptor_over(index, ask)
        elif leaf.fair:
            leaf.taken(line)
        leaf.changed(demand.weight)
    else:
        _place_aside(index, ask, line, index.partition.nodes[fact.node_id])
    if index.reserved_nodes.under:
        index.reserved_nodes.used_more(application)
    if not ask.pending and ask.ask.priority > application.priority:
        priority_fell(index, ask)
    if ask.ask.placeholder:
        change_task_group(index, application, application.task_groups[ask.ask.task_group])
    if application.application_limits:
        settle_slots(index, application)
    if index.preempting:
        settle_preemption(index, ask)
    if index.packing is not None and isinstance(fact, Allocated):
        index.packing.allocated(application, index.partition.nodes[fact.node_id])
    if application.task_groups and application.queue.budgets:
        gang_changed(index, application)
    if not application.asks:
        asks_less(index, application)


def _follow_placement(index: PartitionIndex, fact: Allocated | PredicateAsked, ask: PendingAsk, demand: Demand) -> None:
    """Follow a placement in a partition with backfill, or with a topology."""
    if index.candidates is not None and (node := index.partition.nodes[fact.node_id]).reservation is not None:
        index.reserved_nodes.node_changed(node)
    if index.groups is not None and demand.group_of_asks is not None:
        index.groups.placed(ask, demand)


def _count_member(groups: Groups, index: PartitionIndex, fact: Allocated | PredicateAsked, ask: PendingAsk) -> None:
    node = index.partition.nodes[fact.node_id]
    if isinstance(fact, PredicateAsked):
        groups.hold(fact.question, node, ask.application, ask.ask)
        return
    if fact.question:
        groups.give_back(fact.question)
    groups.hold(fact.uuid, node, ask.application, fact)


def _place_aside(index: PartitionIndex, ask: PendingAsk, line: ApplicationAsks | AwaitingAsks, node: Node) -> None:
    """Follow an allocation of an ask that waits for a placeholder: a node was reserved for it before."""
    assert isinstance(line, AwaitingAsks), "what is allocated was in a line"
    index.nodes.place(node)
    if not ask.free:
        line.remove_ask(ask)
        preemptor_over(index, ask)
    line.gang.settle(line.group.name)
    line.gang.leaf.changed(index.weight_of(ask))


def _confirm(index: PartitionIndex, fact: Allocated, ask: PendingAsk) -> None:
    """Follow the RM's consent. The room on the node was taken when the RM was asked."""
    application = ask.application
    if is_protected(fact.tags):
        node = index.partition.nodes[fact.node_id]
        index.nodes.place(node)
        if node.reservation is not None:
            index.reserved_nodes.node_changed(node)
    if fact.placeholder:
        shares_changed(index, application)
        change_task_group(index, application, application.task_groups[fact.task_group])
    if application.queue.budgets:  # it ends earlier than if the RM had taken its time
        wake_at(index, application.queue.budgets)
    settle_slots(index, application)
    settle_preemption(index, ask)
    if index.packing is not None:
        index.packing.allocated(application, index.partition.nodes[fact.node_id])
    asks_less(index, application)


def reserve_node(index: PartitionIndex, ask: PendingAsk, node: Node) -> None:
    """Reserve the node for one repeat of the ask, which leaves its line if no other repeat is free."""
    demand = index.demand_of_reserved[ask] = index.demand_of(ask)
    index.keep_for(demand, node)
    index.nodes.withdraw(node)
    index.reserved_nodes.add_node(ask, node, demand)
    # The ask may fit already: preemption also reserves nodes for asks that a maximum holds back.
    index.reservations.node_changed(node)
    if demand.open:
        index.reservations.demand_opened(demand)
    line = index.lines.get(ask)
    if not ask.free and isinstance(line, ApplicationAsks):
        leave_line(index, ask, line)
        line.ask_class.leaf.taken(line)


def unreserve_node(index: PartitionIndex, ask: PendingAsk, node: Node) -> None:
    """End the reservation of the node; the repeat of the ask is free."""
    demand = index.demand_of_reserved[ask]
    demand.reserved.pop(node, None)
    index.reservations.changed.pop(node, None)
    index.bound.changed.pop(node, None)
    index.stalled.unblock(node)
    index.reserved_nodes.remove_node(node)
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


# Gangs (semantics section 12)


def gang_for(index: PartitionIndex, application: Application) -> Gang:
    """The gang of the application. Made if there is none."""
    found = index.gangs.get(application)
    if found is None:
        found = index.gangs[application] = Gang(application, index.leaf_of(application))
    return found


def change_task_group(index: PartitionIndex, application: Application, group: TaskGroup) -> None:
    """Follow placeholders of the task group that were asked for, allocated, replaced or released. If there are any, its
    real asks wait for them; otherwise they are in ask classes like all other asks."""
    gang = index.gangs.get(application)
    waits = gang is not None and group.name in gang.waiting
    if waits != group.awaited:
        if group.awaited:
            moving = _leave_ask_classes(index, application, group)
            gang_for(index, application).waiting[group.name] = {}
        else:
            moving = _wait_no_longer(index, gang_for(index, application), group)
        for ask in moving:
            add_ask(index, ask)
        if not group.awaited:
            _may_preempt_again(index, application, group)
    if (gang := index.gangs.get(application)) is not None:
        gang.settle(group.name)
    if application.queue.budgets:
        gang_changed(index, application)


def _may_preempt_again(index: PartitionIndex, application: Application, group: TaskGroup) -> None:
    """Add asks without free repeats as preemptors. They are in no line, so they were not added with the others."""
    for ask in application.asks.values() if index.preemptors is not None else ():
        if ask.ask.allow_preempt_other and ask.ask.task_group == group.name and ask.pending and not ask.free:
            may_preempt(index, ask)


def _leave_ask_classes(index: PartitionIndex, application: Application, group: TaskGroup) -> list[PendingAsk]:
    by_line: dict[ApplicationAsks, list[PendingAsk]] = {}
    for ask in application.asks.values():
        line = index.lines.get(ask)
        if ask.ask.task_group == group.name and not ask.ask.placeholder and isinstance(line, ApplicationAsks):
            by_line.setdefault(line, []).append(ask)
    for line, asks in by_line.items():
        leaf, demand = line.ask_class.leaf, line.ask_class.demand
        line.remove_keys({ask.ask.allocation_key for ask in asks})
        for ask in asks:
            del index.lines[ask]
            if index.groups is not None:
                index.groups.remove_ask(ask, demand)
        leaf.taken(line)
        leaf.changed(sum(ask.pending for ask in asks) * demand.weight)
    return [ask for asks in by_line.values() for ask in asks]


def _wait_no_longer(index: PartitionIndex, gang: Gang, group: TaskGroup) -> list[PendingAsk]:
    lines = gang.waiting.pop(group.name)
    moving = [
        ask
        for line in lines.values()
        for _, asks in line.by_priority()
        for ask in asks
        if ask.free and index.lines.get(ask) is line
    ]
    for ask in moving:
        remove_ask(index, ask)
        gang.leaf.changed(ask.pending * index.weight_of(ask))
    gang.settle(group.name)
    return moving


def start_replacement(index: PartitionIndex, ask: PendingAsk, group: TaskGroup) -> None:
    """Take a repeat of the ask, which replaces a placeholder of the group once the RM confirms."""
    line = index.lines[ask]
    assert isinstance(line, AwaitingAsks), "what takes a place waited for it"
    if not ask.free:
        leave_line(index, ask, line)
        preemptor_over(index, ask)
    line.gang.settle(group.name)
    line.gang.leaf.changed(index.weight_of(ask))


# Nodes


def change_node(index: PartitionIndex, node: Node) -> None:
    """Follow a change of the available amounts or the state of the node. Closed demands that fit it now open, and the
    ask it is reserved for may fit. O(log n) for each demand that fits."""
    unblock(index)
    group = index.nodes.place(node)
    if index.groups is not None:
        index.groups.gained = True
    if node.reservation is not None:
        index.reservations.node_changed(node)
        index.reserved_nodes.node_changed(node)
    if group is None:
        if node.ready:
            _wake_bound(index, node)
        return
    for demand in fitting(index.demands.closed_singly, group.available):
        if node.id not in demand.refused:
            index.open(demand)
    index.freed_nodes.add_node(node, group.available)
    _wake_bound(index, node)
    index.reserving.node_gained_room(group.obtainable)


def size_node(index: PartitionIndex, node: Node) -> bool:
    """Follow a change of the capacity of the node, of its attributes, or of what is occupied. Returns True if the index
    has to be built again."""
    if not index.has_lasting:
        return True
    places = dict.fromkeys(places_of(node), 0) if node.devices else {}
    known = index.knows(node.capacity) and index.knows(node.occupied) and index.knows(places)
    if not known and not index.learn(node.capacity, node.occupied, places):
        return True
    index.total_changed()
    return state_node(index, node)


def state_node(index: PartitionIndex, node: Node) -> bool:
    """Follow that the node takes asks or takes none, or leaves at another time. Returns True if the index has to be
    built again."""
    if not index.has_lasting:
        return True
    if index.nodes.falls is not None:
        index.nodes.falls.follow(node)
    change_node(index, node)
    return False


def _wake_bound(index: PartitionIndex, node: Node) -> None:
    """Let asks that are bound to the node be placed there, or else reserve it, even if it is reserved for an ask that
    may run elsewhere."""
    bound = index.demands.closed_bound.get(node.id)
    if not bound:
        return
    available = None if node.reservation is not None or node.kept is not None else index.nodes.available(node)
    for demand in list(bound):
        if available is not None and covers(available, demand.need):
            index.open(demand)
        else:
            index.reserving.reserve_again(demand)


def unblock(index: PartitionIndex) -> None:
    """Let gangs that found no place look again."""
    if not index.blocked_gangs:
        return
    blocked, index.blocked_gangs = index.blocked_gangs, {}
    for gang in blocked:
        if gang.ready:
            gangs.enter(gang)


def booked(index: PartitionIndex, node: Node, application: Application) -> None:
    """Follow an allocation on the node that was recovered, not made from an ask."""
    index.nodes.place(node)
    if node.reservation is not None:
        index.reserved_nodes.node_changed(node)
    index.reserved_nodes.used_more(application)
    shares_changed(index, application)
    if application.task_groups and application.queue.budgets:
        gang_changed(index, application)


def released(index: PartitionIndex, node: Node, application: Application) -> None:
    """Follow the release of an allocation: the node, its queue, its limits and the partition have more room."""
    if node.reported:
        change_node(index, node)
    index.reserving.total_gained_room()
    shares_changed(index, application)
    used_less(index, application)


def shares_changed(index: PartitionIndex, application: Application) -> None:
    """Rank the application and its queue again, which use more or less than before."""
    leaf = index.leaf_of(application)
    leaf.changed()
    if leaf.fair:
        leaf.share_changed(application)


# Preemption


def add_preemptor(index: PartitionIndex, ask: PendingAsk) -> None:
    """Add the ask to those that may preempt on any node. Does nothing if it may not, or is bound to a node."""
    if index.preemptors is not None and ask.ask.allow_preempt_other and not required_node(ask.ask.tags):
        index.preemptors.add_ask(ask)


def preemptor_over(index: PartitionIndex, ask: PendingAsk) -> None:
    """Count a preemptor as finished, if no repeat of the ask is pending any more."""
    if index.preemptors is not None and not ask.pending:
        index.preemptors.count_finished()


def add_preemptors_again(index: PartitionIndex, leaf: LeafOrder) -> None:
    """Add the preemptors of the queue anew: by its changed settings other asks may preempt, or at other times."""
    if index.preemptors is None:
        return
    index.preemptors.forget_queue(leaf.queue)
    for application in leaf.queue.applications.values():
        for ask in application.asks.values():
            if ask.pending and index.gang_of(ask) is None:
                add_preemptor(index, ask)


def may_preempt(index: PartitionIndex, ask: PendingAsk) -> None:
    """Let the ask preempt again."""
    if required_node(ask.ask.tags):
        for node_id in ask.reservations:
            index.bound.node_changed(index.partition.nodes[node_id])
    elif index.preemptors is not None:
        index.preemptors.add_ask(ask)


def settle_preemption(index: PartitionIndex, ask: PendingAsk) -> None:
    """Follow a preemption for the ask that has begun or ended, or whose place under quotas is held or given up."""
    if index.groups is not None:
        _settle_together(index, ask)
    was_held, now = index.preempting.get(ask), ask.preemption
    if now is not None and now.pending is not ask:
        return  # the group is known by another of its members
    if now is not None:
        index.preempting[ask] = now.held
    elif was_held is not None:
        del index.preempting[ask]
    if was_held != (None if now is None else now.held):
        index.reserved_nodes.recount(index.partition.nodes[node_id] for node_id in ask.reservations)
        index.reserved_nodes.used_more(ask.application)
    if was_held and (now is None or not now.held):
        used_less(index, ask.application)
    if was_held is not None and now is None:
        node_not_set_aside(index)
        if ask.pending:
            may_preempt(index, ask)


def _settle_together(index: PartitionIndex, ask: PendingAsk) -> None:
    """Follow a preemption for the group of the ask: keep its nodes for it, or offer them to all asks again. While the
    RM is asked, there are none."""
    known, now = index.preempting_together.get(ask), ask.preemption
    if known is None and now is not None and now.members:
        index.preempting_together.update(dict.fromkeys(now.members, now))
        for node in now.nodes:
            index.nodes.withdraw(node)
    elif known is not None and now is None:
        del index.preempting_together[ask]
        if known.nodes and known.nodes[0].kept is known:
            return  # other members are yet to come
        others = [one for one, preemption in index.preempting_together.items() if preemption is known]
        for one in others:
            del index.preempting_together[one]
        for node in known.nodes:
            change_node(index, node)
        for one in others:
            settle_preemption(index, one)
            if one is not known.pending and one.pending and index.preemptors is not None:
                index.preemptors.add_ask(one)
        if ask is not known.pending and ask.pending and index.preemptors is not None:
            index.preemptors.add_ask(ask)


def node_not_set_aside(index: PartitionIndex) -> None:
    """Let other asks preempt on a node that is no longer set aside for an ask."""
    if index.preemptors is not None:
        index.preemptors.node_not_set_aside()


# Limits (semantics sections 5 and 9)


def note_slots(index: PartitionIndex, application: Application) -> None:
    """Note the limits in which the application counts as running now."""
    if application.counts_as_running and application.application_limits:
        index.running_slots[application] = application.application_limits
    else:
        index.running_slots.pop(application, None)


def settle_slots(index: PartitionIndex, application: Application) -> None:
    """Follow whether the application counts as running."""
    slots = index.running_slots.get(application)
    if slots is None:
        if application.counts_as_running and application.application_limits:
            note_slots(index, application)
            _began_running(index, application)
    elif not application.counts_as_running:
        del index.running_slots[application]
        index.leaf_of(application).regroup(application)
        wake_at(index, slots)


def _began_running(index: PartitionIndex, application: Application) -> None:
    """Move the asks of an application that has its running slots, and waits for none any more."""
    index.leaf_of(application).regroup(application)
    stalled = [
        node
        for node in index.stalled.limits()
        if node.reservation is not None and node.reservation.application is application
    ]
    wake_reservations(index, stalled)


def wake_at(index: PartitionIndex, limits: Iterable[Limit]) -> None:
    """Wake the ask classes, reservations and preemptors that these limits block: they have room or a slot again."""
    for limit in limits:
        for ask_class in index.parked.blocked_at(limit):
            if ask_class.in_the_way() is not limit:
                index.parked.unblock(ask_class)
                ask_class.show()
        wake_reservations(index, index.stalled.blocked_at(limit))
        if index.preemptors is not None:
            index.preemptors.wake_at(limit)


def wake_all_stalled(index: PartitionIndex) -> None:
    """Look at all stalled reservations again: their limits may not apply any more."""
    wake_reservations(index, list(index.stalled.limits()))


def wake_reservations(index: PartitionIndex, nodes: list[Node]) -> None:
    """Look at the reservations of these nodes again: other limits and maxima apply to them, or have room."""
    for node in nodes:
        index.stalled.unblock(node)
    index.reservations.wake(nodes)


def used_less(index: PartitionIndex, application: Application) -> None:
    """Wake what the limits and maxima of the application held back: it uses less, or no place is held for its ask any
    more."""
    if application.trackers or application.queue.budgets:
        wake_at(index, (*application.trackers, *application.queue.budgets))
    index.leaf_of(application).released()
    if index.reserved_nodes.waiting:
        index.reserved_nodes.used_less(limits_of(application))


def budget_gained(index: PartitionIndex, budget: Budget) -> None:
    """Wake what the budget held back: a period began, or it is another one."""
    wake_at(index, (budget,))
    index.reserved_nodes.used_less((budget,))


def gang_changed(index: PartitionIndex, application: Application) -> None:
    """Look again at the placeholders of a gang that a budget held back: fewer are to be allocated together."""
    if index.preemptors is not None:
        index.preemptors.wake_application(application)
    for line in list(index.leaf_of(application).lines.get(application, {}).values()):
        ask_class = line.ask_class
        if ask_class.demand.of_placeholders and ask_class in index.parked and ask_class.in_the_way() is None:
            index.parked.unblock(ask_class)
            ask_class.show()
