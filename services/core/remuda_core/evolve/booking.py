"""Books allocated resources in nodes, applications, queues and trackers."""

from __future__ import annotations

from ..limits import NAMES_KEPT
from ..rules.resource import Resource, add, forget_zeros
from ..state import (
    Allocation,
    Application,
    Node,
    Partition,
    Replacement,
)
from .tracking import book


def allocation_comes(partition: Partition, allocation: Allocation) -> None:
    application, uuid = allocation.application, allocation.fact.uuid
    partition.allocations[uuid] = application.allocations[uuid] = allocation.node.allocations[uuid] = allocation
    if application.by_key is not None:
        application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def book_allocated(
    application: Application, node: Node, resource: Resource, times: int, placeholder: bool = False
) -> None:
    held = application.allocated_placeholder if placeholder else application.allocated
    on_node, ancestors_usage = node.allocated, application.queue.ancestors_usage
    for name, amount in resource.items():
        amount *= times
        held[name] += amount
        on_node[name] += amount
        for queue_allocated in ancestors_usage:
            queue_allocated[name] += amount
    if len(ancestors_usage[-1]) > NAMES_KEPT:
        for kept in (held, on_node, *ancestors_usage):
            forget_zeros(kept, resource)
    if application.trackers:
        book(application, resource, times)


def book_preempting(allocation: Allocation, times: int) -> None:
    for queue in allocation.application.queue.path_to_root:
        add(queue.preempting, allocation.fact.resource, times)


def book_arriving(replacement: Replacement, times: int) -> None:
    node = replacement.node
    node.most_allocations -= times
    for name, amount in replacement.fact.resource.items():
        node.allocated[name] += amount * times
