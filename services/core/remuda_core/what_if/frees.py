"""Whether an application holds what an ask waits for: a quick look, before it is tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from ..facts import Constraint
from ..rules.resource import add
from ..state import Application, Node, Partition, PendingAsk


def frees(partition: Partition, ask: PendingAsk, application_id: str, constraints: Sequence[Constraint]) -> bool:
    """The end of the application would remove each of these constraints, as far as one can tell without trying."""
    application = partition.applications[application_id]
    return all(_frees(partition, ask, application, constraint) for constraint in constraints)


def helps(partition: Partition, ask: PendingAsk, application_id: str, constraints: Sequence[Constraint]) -> bool:
    """The end of the application would take something from one of these constraints."""
    application = partition.applications[application_id]
    any_amount = [replace(one, need=1, have=0) for one in constraints]
    return any(
        bool(application.allocations) if one.constraint == "node" else _frees(partition, ask, application, one)
        for one in any_amount
    )


def _frees(partition: Partition, ask: PendingAsk, application: Application, constraint: Constraint) -> bool:
    short = constraint.need - constraint.have
    match constraint.constraint:
        case "queue":
            queue = partition.queues[constraint.where]
            return queue in application.queue.path_to_root and _held(application, constraint.resource) >= short
        case "user" | "group":
            counted = {(one.kind, one.name) for one in application.trackers}
            named = (constraint.constraint, constraint.where) in counted
            return named and _held(application, constraint.resource) >= short
        case "node":
            return _makes_room(ask, application)
        case "maxapplications":
            return application.counts_as_running
        case "stateaware":
            return application.queue is ask.application.queue
    return True


def _held(application: Application, resource: str) -> int:
    return application.allocated.get(resource, 0) + application.allocated_placeholder.get(resource, 0)


def _makes_room(ask: PendingAsk, application: Application) -> bool:
    """On one of its nodes the ask would fit without it."""
    freed: dict[Node, dict[str, int]] = defaultdict(dict)
    for allocation in application.allocations.values():
        add(freed[allocation.node], allocation.fact.resource)
    need = {name: amount for name, amount in ask.ask.resource.items() if amount > 0}
    for node, amounts in freed.items():
        available = node.available()
        if all(amount <= available.get(name, 0) + amounts.get(name, 0) for name, amount in need.items()):
            return True
    return False
