"""Change the index when queues come, go or get other settings. Only what a setting can affect is updated.

max, guaranteed            the headroom and the due share of the queue, and the due shares of all queues below
policies                   the asks of a leaf queue, or the ranks of a parent's children
limits, max_applications   the limits that apply to the applications below
kind (leaf or parent)      the order of the queue is made anew; a queue that changes its kind has no applications
"""

from __future__ import annotations

from collections.abc import Iterator

from ..limits import REORDERED_AT_ONCE, REORDERED_SHARE
from ..rules.limits import limits_others
from ..rules.properties import preemption_delay_ms, sort_policy, sorts_by_priority
from ..settings import PartitionSettings, QueueSettings
from ..state import Queue
from .admission import held_queue
from .build import empty, fill
from .gangs import enter, leave
from .leaf_order import LeafOrder
from .limit_changes import note_slots, wake_all_stalled, wake_at
from .partition import PartitionIndex
from .preemption_changes import add_preemptors_again
from .queue_order import ParentOrder, QueueOrder


def must_be_rebuilt(was: PartitionSettings, now: PartitionSettings) -> bool:
    """Whether the settings of a partition change the score of every node, or the turn of every ask that may preempt.
    Then building the index again costs less than changing it."""
    return (
        was.node_sort != now.node_sort
        or was.pack != now.pack
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
    """The queue was added, without applications."""
    above = index.orders.get(queue.parent) if queue.parent is not None else None
    assert isinstance(above, ParentOrder), "queues stand below parents"
    index.add_queue(queue, above)


def remove_queue(index: PartitionIndex, queue: Queue) -> None:
    """The queue was removed, after its last application."""
    order = index.orders.pop(queue, None)
    if order is None or order.above is None:
        return
    order.above.remove(order)
    for above in map(index.order_of, queue.path_to_root[1:]):
        if above is not None:
            above.parked.pop(order, None)


def queue_reordered(index: PartitionIndex, queue: Queue) -> None:
    """The queue has other settings. Its applications count in the trackers of the new settings already."""
    order, now = index.order_of(queue), queue.settings
    index.kept.limits_changed(queue)
    if order is None:
        return  # it is below a leaf, and has no part in scheduling
    was, order.settings = order.settings, now
    if isinstance(order, LeafOrder) != queue.leaf:
        order = _replace(index, queue, order)
    elif _is_sorted_otherwise(was, now):
        order = _sort_otherwise(index, queue, order)
    if was.max != now.max or was.guaranteed != now.guaranteed:
        _measure_otherwise(index, order, below=was.max != now.max)
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


# Amounts


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


# Policies and kinds


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
    """Remove the order from the rankings of its parents."""
    del index.orders[order.queue]
    if order.above is not None:
        order.above.remove(order)
        if order.serving is not None:
            order.above.gangs.leave(order.serving)
            order.serving = None
    for above in order.queue.path_to_root[1:]:
        if (over := index.order_of(above)) is not None:
            over.parked.pop(order, None)


# Holds


def hold_changed(index: PartitionIndex, queue: Queue) -> None:
    """The queue was held or resumed, and with it all queues below."""
    for leaf in _leaves(index, queue):
        held, leaf.held = leaf.held, held_queue(leaf.queue) is not None
        if held == leaf.held:
            continue
        for application in leaf.queue.applications.values():
            leaf.regroup(application)
            gang = index.gangs.get(application)
            if gang is not None and gang.ready:
                (leave if leaf.held else enter)(gang)
    wake_at(index, (queue,))


# Limits


def _regroup(index: PartitionIndex, queue: Queue) -> None:
    for leaf in _leaves(index, queue):
        for application in leaf.queue.applications.values():
            note_slots(index, application)
            leaf.regroup(application)
    wake_all_stalled(index)
