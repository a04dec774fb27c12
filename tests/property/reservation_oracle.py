"""Section 11 of the semantics, word for word and slowly: which reservations are justified, and who may take a node.

Looks at the state only, never at the index, and shares no code with the cycle.
"""

from __future__ import annotations

from collections.abc import Iterator

from remuda_core.state import Node, Partition, PendingAsk, Queue

from .node_oracle import bound_to, obtainable
from .oracle import below, limits_of, preempts_on, reserved_for, takes


def unjustified(partition: Partition) -> Iterator[str]:
    """What is wrong with the reservations there are."""
    kept = [(node, node.reservation) for node in partition.nodes.values() if node.reservation is not None]
    for node, ask in kept:
        if not takes(node, ask) or node.id in ask.refused or not obtainable(node, ask.ask.resource, ask.ask.tags):
            yield f"{node.id} is kept for {ask.ask.allocation_key}, which it does not take"
        if not preempts_on(node):
            yield from (f"{node.id} is kept, and {what} is exceeded with it" for what in exceeded(ask))
    shared = [ask for node, ask in kept if not bound_to(ask) and not preempts_on(node)]
    nodes, settings = len(partition.nodes), partition.settings
    if len(shared) > max(1, nodes * settings.reservation_share // 100):
        yield f"{len(shared)} of {nodes} nodes are kept"
    for queue in {ask.application.queue for ask in shared}:
        count = sum(ask.application.queue is queue for ask in shared)
        if count > max(1, nodes * settings.queue_reservation_share // 100):
            yield f"{count} of {nodes} nodes are kept for {queue.path}"


def exceeded(ask: PendingAsk) -> Iterator[str]:
    """The maxima and limits that are exceeded with all that is reserved under them."""
    for queue in ask.application.queue.path_to_root:
        reserved = list(below(queue))
        for name, most in queue.settings.max.items():
            if queue.allocated.get(name, 0) + sum(reserved_for(one, name) for one in reserved) > most:
                yield f"the maximum of {queue.path}"
    for limit, others in limits_of(ask.application):
        for name, most in limit.max_resources.items():
            used = sum(o.allocated.get(name, 0) + o.allocated_placeholder.get(name, 0) for o in others)
            if used + sum(reserved_for(one, name) for one in others) > most:
                yield "a limit"


def may_have(ask: PendingAsk, node: Node) -> bool:
    """The node is kept for nobody, or for an ask of less right."""
    other = node.reservation
    if other is None or other is ask:
        return True
    if bound_to(other):
        return False
    if is_guaranteed(ask) != is_guaranteed(other):
        return is_guaranteed(ask)
    return not preempts_on(node) and comes_before(ask, other)


def is_guaranteed(ask: PendingAsk) -> bool:
    """One more allocation is within what the nearest queue guarantees, of all that is guaranteed at all."""
    bounds = []
    for name, amount in ask.ask.resource.items():
        guaranteeing = [queue for queue in ask.application.queue.path_to_root if name in queue.settings.guaranteed]
        if guaranteeing and amount:
            queue = guaranteeing[0]
            going = sum(
                one.fact.resource.get(name, 0)
                for application in below(queue)
                for one in application.allocations.values()
                if one.preempting
            )
            bounds.append(queue.allocated.get(name, 0) - going + amount <= queue.settings.guaranteed[name])
    return bool(bounds) and all(bounds)


def comes_before(ask: PendingAsk, other: PendingAsk) -> bool:
    """Its priority is higher, as the queues next to each other see it."""
    own, others = ask.application.queue.path_to_root, other.application.queue.path_to_root
    shared = [queue for queue in own if queue in others]
    return seen(ask, own[: -len(shared)]) > seen(other, others[: -len(shared)])


def seen(ask: PendingAsk, queues: tuple[Queue, ...]) -> int:
    priority = ask.ask.priority
    for queue in queues:
        offset = int(queue.settings.properties.get("priority.offset", "0"))
        priority = offset if queue.settings.properties.get("priority.policy") == "fence" else priority + offset
    return priority
