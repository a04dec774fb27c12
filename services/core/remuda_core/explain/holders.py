"""The applications that hold what a constraint is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remuda_operations.queries.rows import Holder, Holders

from ..facts import Constraint
from ..limits import HOLDERS_LOOKED, HOLDERS_SHOWN
from ..rules import lifecycle
from ..state import Application, Partition, PendingAsk, Queue, Tracker
from .standing import first_to_start

NOBODY = Holders(0, [])


def holders_of(partition: Partition, ask: PendingAsk, constraint: Constraint) -> Holders:
    match constraint.constraint:
        case "queue" | "budget":
            queue = partition.queues[constraint.where]
            return _holding(_applications_below(queue), constraint.resource)
        case "user" | "group":
            kind, name, resource = constraint.constraint, constraint.where, constraint.resource
            full = [
                tracker
                for tracker in ask.application.trackers
                if (tracker.kind, tracker.name) == (kind, name) and resource in tracker.limit.max_resources
            ]
            top = full[-1] if full else None
            return NOBODY if top is None else _holding(_tracked(top), resource)
        case "maxapplications":
            limit = next(
                one
                for one in ask.application.application_limits
                if not one.has_running_slot() and constraint.where == (one.path if isinstance(one, Queue) else one.name)
            )
            among = _applications_below(limit) if isinstance(limit, Queue) else _tracked(limit)
            return _shown(
                [Holder(a.id, 0, len(a.allocations), a.state_at_ms) for a in among if a.counts_as_running],
                complete=True,
            )
        case "stateaware":
            first = first_to_start(ask.application.queue, None)
            since = 0 if first is None else first.state_at_ms if first.state == lifecycle.STARTING else first.at_ms
            return NOBODY if first is None else Holders(1, [Holder(first.id, 0, len(first.allocations), since)])
        case "node" | "device" | "full_node" if constraint.where:
            return _on_node(partition, constraint)
        case "reserved":
            node = partition.nodes[constraint.where]
            kept_for = node.reservation
            assert kept_for is not None, "the node is reserved"
            holder = Holder(kept_for.application.id, since_ms=kept_for.at_ms, key=kept_for.ask.allocation_key)
            return Holders(1, [holder])
    return NOBODY


def _applications_below(queue: Queue) -> Iterator[Application]:
    for below in queue.below():
        yield from below.applications.values()


def _tracked(tracker: Tracker) -> Iterator[Application]:
    return (a for a in _applications_below(tracker.queue) if tracker in a.trackers)


def _holding(applications: Iterable[Application], resource: str) -> Holders:
    found: list[Holder] = []
    complete = True
    for number, application in enumerate(applications):
        if number >= HOLDERS_LOOKED:
            complete = False
            break
        amount = application.allocated.get(resource, 0)
        amount += application.allocated_placeholder.get(resource, 0)
        if amount > 0:
            found.append(Holder(application.id, amount, len(application.allocations), _oldest(application)))
    return _shown(found, complete)


def _oldest(application: Application) -> int:
    """The time of its first allocation, in ms: allocations are kept in their order."""
    return next((allocation.at_ms for allocation in application.allocations.values()), 0)


def _on_node(partition: Partition, constraint: Constraint) -> Holders:
    node = partition.nodes[constraint.where]
    amounts: dict[str, tuple[int, int, int]] = {}
    for allocation in node.allocations.values():
        held = allocation.fact.resource.get(constraint.resource, 0)
        if constraint.resource and not held:
            continue
        amount, count, since = amounts.get(allocation.application.id, (0, 0, allocation.at_ms))
        amount += held
        amounts[allocation.application.id] = amount, count + 1, min(since, allocation.at_ms)
    return _shown([Holder(name, *sums) for name, sums in amounts.items()], complete=True)


def _shown(found: list[Holder], complete: bool) -> Holders:
    first = sorted(found, key=lambda one: (-one.amount, -one.allocations, one.application))[:HOLDERS_SHOWN]
    return Holders(len(found), first, complete)
