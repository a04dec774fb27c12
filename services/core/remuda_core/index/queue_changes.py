"""What a change of a queue's settings changes in the index: only what the change can affect is ranked or opened anew.

max, guaranteed     its headroom and what it is due, and what the queues below are due; who gave up under it looks again
policies            a leaf queue is filled anew; children of a parent are ranked anew
limits, gates       the applications below stand behind other limits
kind                what becomes a leaf or a parent has no applications: its place is made anew
"""

from __future__ import annotations

from collections.abc import Iterator

from ..rules.limits import limits_others
from ..rules.properties import preemption_delay_ms, sort_policy, sorts_by_priority
from ..settings import PartitionSettings, QueueSettings
from ..state import Queue
from .build import empty, fill
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
        or was.resource_weights != now.resource_weights
        or was.preemption_enabled != now.preemption_enabled
        or was.preemption_interval_ms != now.preemption_interval_ms
    )


def add_queue(index: PartitionIndex, queue: Queue) -> None:
    above = index.orders.get(queue.parent) if queue.parent is not None else None
    assert isinstance(above, ParentOrder), "queues stand below parents"
    index.add_queue(queue, above)


def remove_queue(index: PartitionIndex, queue: Queue) -> None:
    order = index.orders.pop(queue, None)
    if order is None or order.above is None:
        return
    order.above.ranking.leave(order)
    for above in map(index.order_of, queue.path_to_root[1:]):
        if above is not None:
            above.parked.pop(order, None)


def queue_reordered(index: PartitionIndex, queue: Queue) -> None:
    """Its applications count in the trackers of the new settings already."""
    order, now = index.order_of(queue), queue.settings
    if order is None:
        return  # it stands below a leaf
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
    order.changed()  # alone in a ranking it is not ranked, but those above may not be alone


def _is_sorted_otherwise(was: QueueSettings, now: QueueSettings) -> bool:
    before, after = was.properties, now.properties
    return sort_policy(before) != sort_policy(after) or sorts_by_priority(before) != sorts_by_priority(after)


def _claims_otherwise(was: QueueSettings, now: QueueSettings) -> bool:
    """Other asks may preempt, at other times, or are like others."""
    return (
        bool(was.guaranteed) != bool(now.guaranteed)
        or preemption_delay_ms(was.properties) != preemption_delay_ms(now.properties)
        or limits_others(was, now)
    )


def _orders(index: PartitionIndex, queue: Queue) -> Iterator[ParentOrder | LeafOrder]:
    """Of the queue and those below it."""
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
    order.ranking.rank_anew()
    order.gangs.rank_anew()
    return order


def _replace(index: PartitionIndex, queue: Queue, old: ParentOrder | LeafOrder) -> ParentOrder | LeafOrder:
    """Another place for the queue, and for all below it; everything in it is added anew."""
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
    """Nothing above knows it any more."""
    del index.orders[order.queue]
    if order.above is not None:
        order.above.ranking.leave(order)
        if order.serving is not None:
            order.above.gangs.leave(order.serving)
            order.serving = None
    for above in order.queue.path_to_root[1:]:
        if (over := index.order_of(above)) is not None:
            over.parked.pop(order, None)


# Limits


def _regroup(index: PartitionIndex, queue: Queue) -> None:
    for leaf in _leaves(index, queue):
        for application in leaf.queue.applications.values():
            note_slots(index, application)
            leaf.regroup(application)
    wake_all_stalled(index)
