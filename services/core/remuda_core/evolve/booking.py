"""Books allocated resources in nodes, applications, queues and trackers."""

from __future__ import annotations

from ..limits import NAMES_KEPT
from ..rules.required_node import is_protected
from ..rules.resource import Resource, add, forget_zeros, raise_to
from ..state import (
    Allocation,
    Application,
    Node,
    Partition,
    Replacement,
)
from .pending import book_pending_sum
from .tracking import book


def allocation_comes(partition: Partition, allocation: Allocation) -> None:
    application, node, uuid = allocation.application, allocation.node, allocation.fact.uuid
    partition.allocations[uuid] = application.allocations[uuid] = node.allocations[uuid] = allocation
    node.allocations_left -= 1
    book_bound(allocation, 1)
    if application.by_key is not None:
        application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def book_bound(allocation: Allocation, times: int) -> None:
    """Count the allocation among those that stay on their node, if it is one of them."""
    if is_protected(allocation.fact.tags):
        add(allocation.node.bound, allocation.fact.resource, times)


def book_pending_as_allocated(partition: Partition, allocation: Allocation) -> None:
    """Book an allocation of an ask that was pending: `allocation_comes`, `book_pending` by -1 and `book_allocated` by 1
    in one loop over the amounts. Every allocation passes here, and the three calls take 3 % more instructions
    (cachegrind, bench/core.py "500 nodes")."""
    fact, application, node = allocation.fact, allocation.application, allocation.node
    uuid, resource, queue = fact.uuid, fact.resource, application.queue
    partition.allocations[uuid] = application.allocations[uuid] = node.allocations[uuid] = allocation
    node.allocations_left -= 1
    if fact.tags:
        book_bound(allocation, 1)
    if application.by_key is not None:
        application.by_key.setdefault(fact.allocation_key, {})[uuid] = allocation
    held = application.allocated_placeholder if fact.placeholder else application.allocated
    asked, on_node, ancestors_usage = queue.asked, node.allocated, queue.ancestors_usage
    for name, amount in resource.items():
        asked[name] -= amount
        held[name] += amount
        on_node[name] += amount
        for queue_allocated in ancestors_usage:
            queue_allocated[name] += amount
    if len(asked) > NAMES_KEPT:
        forget_zeros(asked, resource)
    if application.pending_sum is not None:
        book_pending_sum(application.pending_sum, resource, -1)
    if application.trackers:
        book(application, resource, 1)


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


def keep_peak(application: Application, placeholder: bool) -> None:
    """Before an allocation goes. What an application holds falls only then, so the peak is this or what it holds."""
    held = application.allocated_placeholder if placeholder else application.allocated
    if application.peak is None:
        application.peak = {}
    raise_to(application.peak, held)
    if len(application.peak) > NAMES_KEPT:
        application.peak = {name: amount for name, amount in application.peak.items() if held.get(name)}


def book_preempting(allocation: Allocation, times: int) -> None:
    for queue in allocation.application.queue.path_to_root:
        add(queue.preempting, allocation.fact.resource, times)


def book_arriving(replacement: Replacement, times: int) -> None:
    node = replacement.node
    node.allocations_left -= times
    for name, amount in replacement.fact.resource.items():
        node.allocated[name] += amount * times
