"""Make the scheduling index of a partition from its state, and fill and empty the places of leaf queues.

An index is built item by item, so that the host can serve others meanwhile. The state has to stand still until it is
complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from operator import attrgetter

from ..limits import INDEXED_PER_STEP
from ..settings import Timing
from ..state import Application, Partition
from . import gangs
from .asks import add_ask, state_changed
from .gang_changes import gang_for
from .leaf_order import LeafOrder
from .limit_changes import note_slots
from .partition import PartitionIndex
from .queue_order import ParentOrder


def build(partition: Partition, timing: Timing, spare: int = 0) -> PartitionIndex:
    """The whole index at once. O(nodes + queues + applications + asks). `spare`: places for names of resources that no
    node has yet."""
    items = _build(partition, timing, spare)
    while True:
        try:
            next(items)
        except StopIteration as complete:
            index: PartitionIndex = complete.value
            return index


def build_in_steps(partition: Partition, timing: Timing, spare: int = 0) -> Generator[None, None, PartitionIndex]:
    """The same, with a pause after every INDEXED_PER_STEP items."""
    items, count = _build(partition, timing, spare), 0
    while True:
        try:
            next(items)
        except StopIteration as complete:
            index: PartitionIndex = complete.value
            return index
        count += 1
        if not count % INDEXED_PER_STEP:
            yield


def _build(partition: Partition, timing: Timing, spare: int) -> Generator[None, None, PartitionIndex]:
    """Yields after each item: a node, a queue, an application or an ask."""
    names = set(partition.settings.resource_weights)
    for node in partition.nodes.values():
        names.update(node.capacity, node.occupied, node.allocated)
        yield
    for node in partition.unreported.values():
        names.update(node.allocated)
        yield
    index = PartitionIndex(partition, timing, sorted(names), spare)
    yield from index.nodes.fill(sorted(partition.nodes.values(), key=attrgetter("id")))
    yield from _queues(index)
    yield from _fill(
        index, (application for queue in partition.queues.values() for application in queue.applications.values())
    )
    for preemption in partition.preemptions.values():
        index.preempting[preemption.pending] = preemption.held
        yield
    for node in partition.nodes.values():
        if node.reservation is not None:
            demand = index.demand_of(node.reservation)
            demand.reserved[node] = None
            index.kept.keep(node.reservation, node, demand)
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
            index.blocked.pop(gang, None)
            gangs.leave(gang)
    if index.preemptors is not None:
        index.preemptors.forget_queue(leaf.queue)
