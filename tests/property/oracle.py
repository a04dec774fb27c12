"""Sections 9 and 10 of the semantics, word for word and slowly: who is next, and where is best.

Looks at the state only, never at the index, and shares no code with the cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from remuda_core.rules.resource import Resource
from remuda_core.rules.share import scales_of, weight
from remuda_core.state import Application, Node, Partition, PendingAsk, Queue

# Scores are means of floating-point numbers: so close together, they are the same.
CLOSE = 1e-9


def next_allocation(partition: Partition) -> tuple[PendingAsk, set[str]] | None:
    """The next ask that fits everywhere, and the nodes on any of which it may be placed; None if nothing fits."""
    for ask in in_order(partition, partition.root):
        if fits_maxima(ask) and (nodes := best_nodes(partition, ask)):
            return ask, nodes
    return None


# Who is next


def in_order(partition: Partition, queue: Queue) -> Iterator[PendingAsk]:
    if queue.leaf:
        for application in sorted(asking(queue), key=lambda a: application_rank(partition, queue, a)):
            yield from sorted(waiting(application), key=lambda a: (-a.ask.priority, a.seq))
        return
    children = [child for child in queue.children.values() if any(pending(child))]
    for child in sorted(children, key=lambda c: queue_rank(partition, queue, c)):
        yield from in_order(partition, child)


def pending(queue: Queue) -> Iterator[PendingAsk]:
    for application in asking(queue):
        yield from waiting(application)
    for child in queue.children.values():
        yield from pending(child)


def asking(queue: Queue) -> list[Application]:
    return [application for application in queue.applications.values() if waiting(application)]


def waiting(application: Application) -> list[PendingAsk]:
    """Not those about all of which the RM is asked."""
    return [ask for ask in application.asks.values() if ask.pending]


def by_priority(queue: Queue) -> bool:
    return queue.settings.properties.get("application.sort.priority", "enabled") == "enabled"


def priority_of(queue: Queue) -> int:
    offset = int(queue.settings.properties.get("priority.offset", "0"))
    if queue.settings.properties.get("priority.policy") == "fence":
        return offset
    below = [priority_of(child) for child in queue.children.values() if any(pending(child))]
    below += [a.ask.priority for application in asking(queue) for a in waiting(application)]
    return max(-(2**31), min(2**31 - 1, max(below) + offset))  # an int32, like the priority of an ask


def queue_rank(partition: Partition, parent: Queue, queue: Queue) -> tuple[Any, ...]:
    priority, share = -priority_of(queue), share_of(partition, queue)
    first = (priority, share) if by_priority(parent) else (share, priority)
    return (*first, -weight(queue.pending, scales_of(partition.total)), queue.path)


def share_of(partition: Partition, queue: Queue) -> Fraction | list[Fraction]:
    if partition.yunikorn_1_4:
        guaranteed = queue.settings.guaranteed
        return sorted(
            (Fraction(n, guaranteed.get(name) or 1) for name, n in queue.allocated.items() if n), reverse=True
        )
    shares = [Fraction(0)]
    for name, used in queue.allocated.items():
        limits = [queue.settings.guaranteed, *(q.settings.max for q in queue.lineage), partition.total]
        due = next((limit[name] for limit in limits if name in limit), 0)
        if used:
            shares.append(Fraction(used, due) if due else Fraction(1))
    return max(shares)


def application_rank(partition: Partition, queue: Queue, application: Application) -> tuple[Any, ...]:
    priority = -max(a.ask.priority for a in waiting(application))
    then: Any = application.seq
    if queue.settings.properties.get("application.sort.policy") == "fair":
        shares = [
            Fraction(used, partition.total[name]) if partition.total.get(name) else Fraction(1)
            for name, used in application.allocated.items()
            if used
        ]
        then = sorted(shares, reverse=True)
    return (priority, then, application.id) if by_priority(queue) else (then, priority, application.id)


def fits_maxima(ask: PendingAsk) -> bool:
    """What is left of a maximum may be negative: then nothing fits, whatever it needs."""
    for queue in ask.application.queue.lineage:
        for name, maximum in queue.settings.max.items():
            if ask.ask.resource.get(name, 0) > maximum - queue.allocated.get(name, 0):
                return False
    return True


# Where is best


def best_nodes(partition: Partition, ask: PendingAsk) -> set[str]:
    """IDs of the nodes with the best score; of nodes that are the same only the one with the smallest ID."""
    bound_to = ask.ask.tags.get("si/requiredNode") or ask.ask.tags.get("yunikorn.apache.org/requiredNode", "")
    alike: dict[object, tuple[float, str]] = {}
    for node in sorted(partition.nodes.values(), key=lambda n: n.id):
        wanted = bound_to in ("", node.id) and node.id not in ask.refused
        if wanted and node.schedulable and has_room(node, ask.ask.resource):
            shape = (sorted(node.capacity.items()), sorted((n, a) for n, a in node.available().items() if a))
            alike.setdefault(repr(shape), (score(partition, node), node.id))
    best = min((score for score, _ in alike.values()), default=0.0)
    return {node_id for score, node_id in alike.values() if score <= best + CLOSE}


def has_room(node: Node, need: Resource) -> bool:
    available = node.available()
    return all(need.get(name, 0) <= available.get(name, 0) for name in {*need, *available})


def score(partition: Partition, node: Node) -> float:
    """Weighted mean of the used shares, best is least."""
    used = total = 0.0
    available = node.available()
    for name, how_much in partition.settings.resource_weights.items():
        capacity = node.capacity.get(name, 0)
        if capacity:
            used += how_much * (capacity - available[name]) / capacity
            total += how_much
    mean = used / total if total else 0.0
    return -mean if partition.settings.node_sort == "binpacking" else mean
