"""The scheduling index of a partition, compared with what follows from its state.

The checks are slow and plain on purpose: they compute the required content of the index by another way than the index.
Reading the index settles work that it has put off, which changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...index.leaves import LeafOrder
from ...index.partition import PartitionIndex
from ...index.queues import ParentOrder
from ...state import Partition, Queue
from .asks import check_leaf
from .demands import check_demands, check_preemptors
from .entries import check_entries, check_nodes
from .gangs import check_gangs, check_serving
from .kept_nodes import check_kept_nodes
from .packs import check_packs
from .ranking import check_leaf_ranks, check_members, check_ranking, check_wake_ups


def check_index(partition: Partition, index: PartitionIndex) -> None:
    """Raises AssertionError with the difference."""
    assert index.partition is partition, f"{partition.name}: the index is another partition's"
    check_nodes(partition, index)
    leaves = dict(checked_leaves(partition.root, index))
    for queue, leaf in leaves.items():
        check_leaf(queue, leaf, index)
        check_gangs(queue, leaf, index)
        check_serving(leaf)
    ask_classes = [ask_class for leaf in leaves.values() for ask_class in leaf.ask_classes.values()]
    check_demands(partition, index, ask_classes)
    check_preemptors(partition, index)
    check_entries(partition, index)
    check_packs(partition, index)
    check_kept_nodes(partition, index)
    assert index.parked.limits().keys() <= set(ask_classes), f"{partition.name}: ask classes are parked that are gone"
    if not index.shares_are_stale:
        for queue, leaf in leaves.items():
            check_leaf_ranks(queue, leaf)
            check_ranking(leaf.gangs, f"gangs of queue {queue.path}")
        for queue in parents_below(partition.root):
            order = index.orders[queue]
            assert isinstance(order, ParentOrder)
            check_members(queue, order)
            check_ranking(order.ranking, f"queue {queue.path}")
            check_ranking(order.gangs, f"gangs below queue {queue.path}")
            check_serving(order)
    for queue, leaf in leaves.items():
        check_wake_ups(queue, leaf, index)


def checked_leaves(queue: Queue, index: PartitionIndex) -> Iterator[tuple[Queue, LeafOrder]]:
    """Check the orders of queues; yield the leaves. Queues below a leaf are draining and are not scheduled."""
    order = index.order_of(queue)
    assert order is not None and order.index is index and order.queue is queue, (
        f"queue {queue.path} has no place in the index"
    )
    if queue.leaf:
        assert isinstance(order, LeafOrder), f"queue {queue.path} is a leaf, the index has it as a parent"
        _check_settings(order, LeafOrder(queue, order.above, index), index)
        yield queue, order
        return
    assert isinstance(order, ParentOrder), f"queue {queue.path} is a parent, the index has it as a leaf"
    _check_settings(order, ParentOrder(queue, order.above, index), index)
    for child in queue.children.values():
        below = index.order_of(child)
        assert below is not None and below.above is order, f"queue {child.path} is not below {queue.path} in the index"
        yield from checked_leaves(child, index)


def _check_settings(order: LeafOrder | ParentOrder, anew: LeafOrder | ParentOrder, index: PartitionIndex) -> None:
    """The order has the settings that a new one would read from its queue."""
    names = ["by_parents_priority", "by_priority", "limited", "maxima"]
    names += [] if index.shares_are_stale else ["due"]
    names += ["fair", "held"] if isinstance(order, LeafOrder) else []
    for name in names:
        kept, read = getattr(order, name), getattr(anew, name)
        assert kept == read, f"queue {order.queue.path}: {name} is {kept}, its settings say {read}"
    if isinstance(order, LeafOrder) and isinstance(anew, LeafOrder):
        assert (order.stateaware_turn is None) == (anew.stateaware_turn is None), (
            f"queue {order.queue.path}: takes turns or not"
        )


def parents_below(queue: Queue) -> Iterator[Queue]:
    if not queue.leaf:
        yield queue
        for child in queue.children.values():
            yield from parents_below(child)
