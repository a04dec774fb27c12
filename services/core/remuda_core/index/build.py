"""Make the scheduling index of a partition from its state, or a part of it anew.

build              the whole index, item by item, so that the host can serve others meanwhile; the state has to stand
                   still until it is complete
queue_reordered    what the changed settings of a queue affect:
                     max, guaranteed            its headroom and due share, and the due shares of all queues below
                     policies                   the asks of a leaf queue, or the ranks of the children of a parent
                     limits, max_applications   the limits that apply to the applications below
                     kind (leaf or parent)      its order; a queue that changes its kind has no applications
move_application   the asks of an application that moves to another queue
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from operator import attrgetter

from ..evolve.administration import Moved
from ..limits import INDEXED_PER_STEP, REORDERED_AT_ONCE, REORDERED_SHARE
from ..rules.devices import place_name
from ..rules.limits import limits_others
from ..rules.properties import memory_properties, preemption_delay_ms, sort_policy, sorts_by_priority
from ..rules.runtime import DEFAULT
from ..settings import PartitionSettings, QueueSettings, Timing
from ..state import Application, Partition, Queue
from . import gangs
from .devices import places_of
from .leaves import LeafOrder
from .limits import held_queue
from .partition import PartitionIndex
from .queues import ParentOrder, QueueOrder
from .updates import (
    add_ask,
    add_preemptors_again,
    budget_gained,
    demand_changed,
    gang_for,
    note_slots,
    state_changed,
    wake_all_stalled,
    wake_at,
    wake_reservations,
)

# The whole index


def build(partition: Partition, timing: Timing, spare: int = 0, now_ms: int = 0) -> PartitionIndex:
    """The whole index at once. O(nodes + queues + applications + asks). `spare`: places for names of resources that no
    node has yet. `now_ms`: when shares are measured, until the next pass."""
    items = _build(partition, timing, spare, now_ms)
    while True:
        try:
            next(items)
        except StopIteration as complete:
            index: PartitionIndex = complete.value
            return index


def build_in_steps(
    partition: Partition, timing: Timing, spare: int = 0, now_ms: int = 0
) -> Generator[None, None, PartitionIndex]:
    """The whole index, with a pause after every INDEXED_PER_STEP items. The rest as `build`."""
    items, count = _build(partition, timing, spare, now_ms), 0
    while True:
        try:
            next(items)
        except StopIteration as complete:
            index: PartitionIndex = complete.value
            return index
        count += 1
        if not count % INDEXED_PER_STEP:
            yield


def _build(partition: Partition, timing: Timing, spare: int, now_ms: int) -> Generator[None, None, PartitionIndex]:
    """Yields after each item: a node, a queue, an application or an ask."""
    settings = partition.settings
    names = {*settings.resource_weights, *(place_name(resource, 0) for resource in settings.devices)}
    for node in partition.nodes.values():
        names.update(node.capacity, node.occupied, node.allocated, places_of(node))
        yield
    for node in partition.unreported.values():
        names.update(node.allocated)
        yield
    names.update(partition.audiences)
    index = PartitionIndex(partition, timing, sorted(names), spare, now_ms)
    in_order = sorted(partition.nodes.values(), key=attrgetter("id"))
    yield from index.nodes.fill(in_order)
    if index.nodes.falls is not None:
        for node_id in partition.leaving:
            index.nodes.falls.follow(partition.nodes[node_id])
    if index.groups is not None:
        for node in in_order:
            index.groups.node_changed(node)
            yield
        index.groups.count_all(partition.allocations.values(), partition.questions.values())
    yield from _queues(index)
    yield from _fill(
        index, (application for queue in partition.queues.values() for application in queue.applications.values())
    )
    for preemption in partition.preemptions.values():
        index.preempting[preemption.pending] = preemption.held
        index.preempting_together.update(dict.fromkeys(preemption.members, preemption))
        yield
    for node in partition.nodes.values():
        if node.reservation is not None:
            demand = index.demand_of(node.reservation)
            demand.reserved[node] = None
            index.reserved_nodes.add_node(node.reservation, node, demand)
            index.reservations.wake((node,))
            yield
    return index


def _queues(index: PartitionIndex) -> Iterator[None]:
    for queue in index.partition.root.below():
        above = index.order_of(queue.parent) if queue.parent is not None else None
        if isinstance(above, ParentOrder):  # what stands below a leaf is draining and has no part in scheduling
            index.add_one_queue(queue, above)
            yield


def fill(index: PartitionIndex, applications: Iterable[Application]) -> None:
    """Add applications with their asks, which are in no line, or in one that was dropped."""
    deque(_fill(index, applications), maxlen=0)


def _fill(index: PartitionIndex, applications: Iterable[Application]) -> Iterator[None]:
    """Yields after each application and each ask."""
    in_order = sorted(applications, key=attrgetter("seq"))
    for application in in_order:
        state_changed(index, application)
        yield
    for application in in_order:
        index.gangs.pop(application, None)
        note_slots(index, application)
        for group in application.task_groups.values():
            if group.awaited:
                gang_for(index, application).waiting[group.name] = {}
        yield
        for ask in application.asks.values():
            index.lines.pop(ask, None)
            add_ask(index, ask)
            yield


def empty(index: PartitionIndex, leaf: LeafOrder) -> None:
    """Remove all asks of a leaf queue whose order is about to be replaced."""
    ask_classes, leaf.ask_classes = leaf.ask_classes, {}
    for lines in leaf.lines.values():
        for line in lines.values():
            index.unexplained.pop(line, None)
    for ask_class in ask_classes.values():
        ask_class.ranking.members.clear()  # one that grows old is not looked at any more
        index.ask_class_gone(ask_class)
    for application in leaf.queue.applications.values():
        if (gang := index.gangs.get(application)) is not None:
            index.blocked_gangs.pop(gang, None)
            gangs.leave(gang)
    if index.preemptors is not None:
        index.preemptors.forget_queue(leaf.queue)


# Queues


def must_be_rebuilt(was: PartitionSettings, now: PartitionSettings) -> bool:
    """Whether the settings of a partition change the score of every node, or the turn of every ask that may preempt.
    Then building the index again costs less than changing it."""
    return (
        was.node_sort != now.node_sort
        or was.pack != now.pack
        or was.devices != now.devices
        or was.calendar != now.calendar
        or was.topology != now.topology
        or was.backfill != now.backfill
        or was.backfill_order != now.backfill_order
        or was.resource_weights != now.resource_weights
        or was.preemption_enabled != now.preemption_enabled
        or was.preemption_interval_ms != now.preemption_interval_ms
    )


def is_reordered_later(index: PartitionIndex, queue: Queue) -> bool:
    """Whether the changed settings move so much that building the whole index, which takes hardly longer and pauses for
    others, is better than changing it at once: all asks of a leaf with another order; with other limits, the asks of
    each application and size in and below the queue."""
    order = index.order_of(queue)
    if order is None:
        return False
    if memory_properties(order.settings.properties) != memory_properties(queue.settings.properties):
        return True  # other ranks in and below the queue
    if (order.settings.budget is None) != (queue.settings.budget is None):
        return True  # other demands in and below the queue
    if order.settings.properties.get(DEFAULT) != queue.settings.properties.get(DEFAULT) and any(
        below.budgets for below in queue.below()
    ):
        return True  # other bounds of placeholders under budgets
    was, now, moved = order.settings, queue.settings, 0
    if isinstance(order, LeafOrder) and (not queue.leaf or _is_sorted_otherwise(was, now)):
        moved = sum(len(application.asks) for application in queue.applications.values())
    elif limits_others(was, now):
        moved = sum(len(lines) for leaf in _leaves(index, queue) for lines in leaf.lines.values())
    if moved <= REORDERED_AT_ONCE:
        return False
    every = sum(len(application.asks) for application in index.partition.applications.values())
    return moved * REORDERED_SHARE >= every


def add_queue(index: PartitionIndex, queue: Queue) -> None:
    """Add a queue, which has no applications."""
    above = index.orders.get(queue.parent) if queue.parent is not None else None
    assert isinstance(above, ParentOrder), "queues stand below parents"
    index.add_queue(queue, above)


def remove_queue(index: PartitionIndex, queue: Queue) -> None:
    """Remove a queue that has no applications. Does nothing if it has no part in scheduling."""
    order = index.order_of(queue)
    if order is not None:
        _leave(index, order)


def queue_reordered(index: PartitionIndex, queue: Queue) -> None:
    """Follow other settings of the queue. Its applications count in the trackers of the new settings already."""
    order, now = index.order_of(queue), queue.settings
    index.reserved_nodes.limits_changed(queue)
    if order is None:
        return  # it is below a leaf, and has no part in scheduling
    was, order.settings = order.settings, now
    if isinstance(order, LeafOrder) != queue.leaf:
        order = _replace(index, queue, order)
    elif _is_sorted_otherwise(was, now):
        order = _sort_otherwise(index, queue, order)
    if was.max != now.max or was.guaranteed != now.guaranteed:
        _measure_otherwise(index, order, below=was.max != now.max)
    if was.budget != now.budget:
        budget_gained(index, queue.budgets[0])
    if limits_others(was, now):
        _regroup(index, queue)
    elif was.max_applications != now.max_applications:
        wake_at(index, (queue,))
    if _claims_otherwise(was, now):
        for leaf in _leaves(index, queue):
            add_preemptors_again(index, leaf)
    order.enter()
    order.changed()  # an only child has no rank, but its parents may have siblings


def _is_sorted_otherwise(was: QueueSettings, now: QueueSettings) -> bool:
    before, after = was.properties, now.properties
    return sort_policy(before) != sort_policy(after) or sorts_by_priority(before) != sorts_by_priority(after)


def _claims_otherwise(was: QueueSettings, now: QueueSettings) -> bool:
    """Whether other asks may preempt, or at other times, or form other groups."""
    return (
        bool(was.guaranteed) != bool(now.guaranteed)
        or preemption_delay_ms(was.properties) != preemption_delay_ms(now.properties)
        or limits_others(was, now)
    )


def _orders(index: PartitionIndex, queue: Queue) -> Iterator[ParentOrder | LeafOrder]:
    """The orders of the queue and of all queues below it."""
    for below in queue.below():
        if (order := index.order_of(below)) is not None:
            yield order


def _leaves(index: PartitionIndex, queue: Queue) -> Iterator[LeafOrder]:
    for order in _orders(index, queue):
        if isinstance(order, LeafOrder):
            yield order


def _measure_otherwise(index: PartitionIndex, order: QueueOrder, *, below: bool) -> None:
    order.read_maxima()
    if below:
        for each in _orders(index, order.queue):
            if each.due_changed():
                each.changed()
    elif order.due_changed():
        order.changed()
    leaf = order
    if isinstance(leaf, LeafOrder) and leaf.fair and index.raw_shares:  # its applications have other shares
        leaf.rank_applications()
    order.look_again()


def _sort_otherwise(index: PartitionIndex, queue: Queue, order: ParentOrder | LeafOrder) -> ParentOrder | LeafOrder:
    if isinstance(order, LeafOrder):
        return _replace(index, queue, order)
    order.by_priority = sorts_by_priority(queue.settings.properties)
    for child in queue.children.values():
        if (below := index.order_of(child)) is not None:
            below.by_parents_priority = order.by_priority
    order.rank_anew()
    return order


def _replace(index: PartitionIndex, queue: Queue, old: ParentOrder | LeafOrder) -> ParentOrder | LeafOrder:
    """Make the orders of the queue and of all queues below it anew, with all asks. O(applications + asks)."""
    above = old.above
    assert above is not None, "root is always a parent, and is not replaced"
    stalled = list(old.stalled)
    if isinstance(old, LeafOrder):
        empty(index, old)
    old.changed(old.weight)
    for below in list(_orders(index, queue)):
        _leave(index, below)
    placed = index.add_queue(queue, above)
    if queue.leaf:
        fill(index, queue.applications.values())
    index.reservations.wake(stalled)
    return placed


def _leave(index: PartitionIndex, order: ParentOrder | LeafOrder) -> None:
    """Remove the order from the index, and from what its parents have of it."""
    del index.orders[order.queue]
    if order.above is not None:
        order.above.remove(order)
        if order.serving is not None:
            order.above.gangs.leave(order.serving)
            order.serving = None
    for above in order.queue.path_to_root[1:]:
        if (over := index.order_of(above)) is not None:
            over.parked.pop(order, None)


def hold_changed(index: PartitionIndex, queue: Queue) -> None:
    """Follow a hold of the queue that was placed or lifted, and with it on all queues below."""
    for leaf in _leaves(index, queue):
        held, leaf.held = leaf.held, held_queue(leaf.queue) is not None
        if held == leaf.held:
            continue
        for application in leaf.queue.applications.values():
            leaf.regroup(application)
            gang = index.gangs.get(application)
            if gang is not None and gang.ready:
                (gangs.leave if leaf.held else gangs.enter)(gang)
    wake_at(index, (queue,))


def _regroup(index: PartitionIndex, queue: Queue) -> None:
    """Move the asks below to the ask classes of their changed limits."""
    for leaf in _leaves(index, queue):
        for application in leaf.queue.applications.values():
            note_slots(index, application)
            leaf.regroup(application)
    wake_all_stalled(index)


def move_application(index: PartitionIndex, moved: Moved) -> None:
    """Move an application to another leaf queue (semantics section 19): its asks leave the ask classes, the gang and
    the preemptors of the one queue, and enter those of the other. O(asks of the application * log n)."""
    application, old = moved.application, index.orders[moved.queue]
    assert isinstance(old, LeafOrder), "applications are in leaf queues"
    slots = index.running_slots.pop(application, ())
    demands = {ask: index.demand_of(ask) for ask in application.reserving.values()}
    _leave_queue(index, old, application)
    old.weigh()
    old.released()
    wake_at(index, (*slots, *moved.trackers, *moved.queue.budgets))
    fill(index, (application,))
    for ask, demand in demands.items():  # what an ask would use of budgets is part of its demand
        demand_changed(index, ask, demand)
    index.leaf_of(application).changed()
    for leaf in (old, index.leaf_of(application)):
        if leaf.by_user:  # the user has other applications there
            leaf.user_changed(application.user)
    nodes = index.partition.nodes
    kept = [nodes[node_id] for ask in application.reserving.values() for node_id in ask.reservations]
    wake_reservations(index, kept)
    index.reserved_nodes.recount(kept)
    index.reserved_nodes.used_less((*moved.queue.path_to_root, *moved.trackers, *moved.queue.budgets))
    index.reserved_nodes.used_more(application)


def _leave_queue(index: PartitionIndex, leaf: LeafOrder, application: Application) -> None:
    keys = set(application.asks)
    for ask in application.asks.values():
        index.lines.pop(ask, None)
    for line in list(leaf.lines.get(application, {}).values()):
        line.remove_keys(keys)
        leaf.taken(line)
    gang = index.gangs.pop(application, None)
    if gang is not None:
        index.blocked_gangs.pop(gang, None)
        gangs.leave(gang)
    if leaf.stateaware_turn is not None:
        leaf.stateaware_turn.leave(application)
        leaf.take_stateaware_turn(leaf.stateaware_turn)
    if index.preemptors is not None:
        index.preemptors.forget_application(leaf.queue, application)
