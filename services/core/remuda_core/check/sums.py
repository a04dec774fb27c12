"""Sums of resources and counts of priorities, compared with those computed from their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..evolve.pending import mapped_priority
from ..limits import ALLOCATIONS_PER_NODE
from ..rules.required_node import is_protected
from ..rules.resource import Resource, items_of, show, total_of
from ..state import Application, Partition, Queue
from .questions import held_by_questions


def check_sums(partition: Partition) -> None:
    check_sum(partition.total, total_of(node.capacity for node in partition.nodes.values()), f"{partition.name}: total")
    occupied = total_of(node.occupied for node in partition.nodes.values())
    check_sum(partition.occupied, occupied, f"{partition.name}: occupied")
    for node in (*partition.nodes.values(), *partition.unreported.values()):
        held = [a.fact.resource for a in node.allocations.values()]
        held += [arriving.fact.resource for arriving in node.arriving.values()]
        held += held_by_questions(partition, node)
        check_sum(node.allocated, total_of(held), f"node {node.id}: allocated")
        stay = [a.fact.resource for a in node.allocations.values() if is_protected(a.fact.tags)]
        check_sum(node.bound, total_of(stay), f"node {node.id}: bound to it")
        assert node.allocations_left == ALLOCATIONS_PER_NODE - len(held), (
            f"node {node.id}: may have {node.allocations_left} allocations more, and has {len(held)}"
        )
    for application in partition.applications.values():
        real = [a.fact.resource for a in application.allocations.values() if not a.fact.placeholder]
        held = [*real, *held_by_questions(partition, application)]
        check_sum(application.allocated, total_of(held), f"application {application.id}: allocated")
        placeholders = [a.fact.resource for a in application.allocations.values() if a.fact.placeholder]
        check_sum(
            application.allocated_placeholder, total_of(placeholders), f"application {application.id}: placeholders"
        )
        assert application.placeholders == len(placeholders), (
            f"application {application.id}: {application.placeholders} placeholders, counted anew {len(placeholders)}"
        )
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        allocated = [m.allocated for m in members] + [a.allocated_placeholder for a in queue.applications.values()]
        check_sum(queue.allocated, total_of(allocated), f"queue {queue.path}: allocated")
        check_sum(queue.asked, total_of(a.pending for a in queue.applications.values()), f"queue {queue.path}: asked")


def check_sum(kept: Resource, counted: Resource, what: str) -> None:
    assert items_of(kept) == items_of(counted), f"{what} {show(kept)}, counted anew {show(counted)}"


def check_priorities(partition: Partition) -> None:
    for application in partition.applications.values():
        counted = Counter(pending.ask.priority for pending in application.asks.values() if pending.pending)
        _counts(
            application.priorities,
            counted,
            application.priority,
            max(counted, default=0),
            f"application {application.id}",
        )
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        counted = Counter(member.priority for member in members if member.priorities)
        _counts(queue.priorities, counted, queue.priority, mapped_priority(queue), f"queue {queue.path}")


def _counts(kept: Mapping[int, int], counted: Mapping[int, int], priority: int, expected: int, what: str) -> None:
    assert kept == counted, f"{what}: priorities {dict(kept)}, counted anew {dict(counted)}"
    assert priority == expected, f"{what}: priority {priority}, counted anew {expected}"
