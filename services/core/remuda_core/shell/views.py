"""Rows of answers: one function for each kind of object. Amounts are in base units, without zeros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest

from msgspec.structs import asdict

from ..decide.names import plain
from ..evolve.booking import sum_pending
from ..explain import Holders, Position
from ..facts import ActionRefused, ActionTaken, Constraint
from ..limits import DRAIN_REPORT_NAMES, REJECTED_SHOWN
from ..rules import lifecycle
from ..rules.acl import admin_acls
from ..rules.limits import GROUP
from ..rules.required_node import required_node
from ..rules.resource import raise_to
from ..settings import QueueSettings
from ..state import (
    Allocation,
    Application,
    Hold,
    Node,
    Partition,
    PendingAsk,
    Queue,
    RejectedAllocation,
    RejectedApplication,
    Replacement,
    Tracker,
    to_give_back,
)
from .usage import Usage

View = dict[str, object]


def partition(name: str, partition: Partition) -> View:
    return {
        "name": name,
        "status": "Draining" if partition.draining else "Active",
        "total": partition.total,
        "allocated": amounts(partition.root.allocated),
        "nodes": len(partition.nodes),
        "allocations": len(partition.allocations),
        "draining_since_ms": partition.root.draining_since_ms,
        "node_sort": partition.settings.node_sort,
        "resource_weights": partition.settings.resource_weights,
        "placement_rules": partition.settings.placement_rules,
    }


def action(outcome: ActionTaken | ActionRefused, at_ms: int) -> View:
    """`at_ms`: when it was decided; 0: not known."""
    described = {**asdict(outcome.action), "partition": plain(outcome.action.partition), "at_ms": at_ms}
    if isinstance(outcome, ActionTaken):
        return {**described, "outcome": "accepted", "overridden": outcome.overridden}
    return {**described, "outcome": "refused", "refusal": outcome.refusal, "soft": outcome.soft}


def queue(name: str, partition: Partition, queue: Queue, wait: Mapping[str, object]) -> View:
    """`wait`: its fields about asks that wait."""
    settings: QueueSettings = queue.settings
    return {
        "partition": name,
        "path": queue.path,
        "leaf": queue.leaf,
        "managed": queue.managed,
        "status": "Draining" if queue.draining else "Active",
        "draining_since_ms": queue.draining_since_ms,
        "draining": draining(queue) if queue.draining else None,
        "held": hold(queue.hold),
        "excess": excess(queue),
        "allocated": amounts(queue.allocated),
        "pending": amounts(queue.pending),
        "preempting": amounts(queue.preempting),
        "guaranteed": settings.guaranteed,
        "max": settings.max,
        "max_in_force": max_in_force(partition, queue),
        "applications": len(queue.applications),
        "max_applications": settings.max_applications,
        "running_applications": queue.running,
        "allocating_accepted_applications": sorted(
            a.id for a in queue.applications.values() if a.counts_as_running and a.state == lifecycle.ACCEPTED
        ),
        "limited": [tracker(tracked) for _, tracked in sorted(queue.trackers.items())],
        "priority": queue.priority,
        "asks_pending": bool(queue.priorities),
        **wait,
        "properties": settings.properties,
        "template": settings.child_template,
        "limits": settings.limits,
        "submit_acl": settings.submit_acl,
        "admin_acl": settings.admin_acl,
    }


def draining(queue: Queue) -> View:
    """The first applications that a draining queue still has, the administrators that may act, and when it is next
    reported that it drains."""
    applications = islice(queue.applications.values(), DRAIN_REPORT_NAMES)
    return {
        "applications": [
            {"id": one.id, "user": one.user, "state": one.state, "allocated": amounts(one.allocated)}
            for one in applications
        ],
        "admin_acls": admin_acls(queue),
        "report_ms": queue.drain_report_ms,
    }


def hold(hold: Hold | None) -> View | None:
    """The operator who holds a queue or drains a node, the reason, and since when in ms. None: no operator does."""
    return None if hold is None else {"operator": hold.operator, "reason": hold.reason, "since_ms": hold.at_ms}


def excess(queue: Queue) -> View | None:
    """The queue's usage above its maximum, since when, and when allocations are preempted for it, next or for the first
    time, in ms. None: it has nothing to give back."""
    over = to_give_back(queue)
    if queue.excess is None or not over:
        return None
    return {"above": over, "since_ms": queue.excess.since_ms, "preempt_at_ms": queue.excess.preempt_at_ms}


def tracker(tracker: Tracker) -> View:
    """The usage of a user or group in a queue with a limit for it."""
    return {
        tracker.kind: tracker.name,
        "used": amounts(tracker.used),
        "max": tracker.limit.max_resources,
        "running_applications": tracker.running,
        "max_applications": tracker.limit.max_applications,
    }


def usage(name: str, usage: Usage) -> View:
    return {
        "partition": name,
        usage.kind: usage.name,
        "queue": usage.queue,
        "used": amounts(usage.used),
        "applications": usage.applications,
        "running_applications": usage.running,
        "max": usage.limit.max_resources if usage.limit else {},
        "max_applications": usage.limit.max_applications if usage.limit else 0,
    }


def max_in_force(partition: Partition, queue: Queue) -> dict[str, int]:
    """For each resource the smallest maximum on the path to root, at most the total of the partition."""
    least = dict(partition.total)
    for above in queue.path_to_root:
        for name, maximum in above.settings.max.items():
            least[name] = min(maximum, least.get(name, maximum))
    return least


def description(node: Node) -> View:
    """Of a node, whatever is allocated there."""
    return {
        "id": node.id,
        "attributes": node.attributes,
        "capacity": node.capacity,
        "occupied": node.occupied,
        "status": "Draining" if node.draining else "Schedulable" if node.schedulable else "NotReady",
    }


def node(name: str, node: Node) -> View:
    return {
        "partition": name,
        **description(node),
        "allocated": amounts(node.allocated),
        "available": node.available(),
        "drained": hold(node.drained),
        "reserved_for": ask_of(node.reservation) if node.reservation is not None else None,
        "allocations": len(node.allocations),
        "rejected": [rejected(one) for one in islice(node.rejected.values(), REJECTED_SHOWN)],
        "rejected_count": len(node.rejected),
    }


def rejected(one: RejectedAllocation) -> View:
    """An allocation that runs on a node, as the RM has reported, and could not be booked."""
    fact = one.fact
    return {
        "application_id": fact.application_id,
        "allocation_key": fact.allocation_key,
        "uuid": fact.uuid,
        "resource": fact.resource,
        "reason": one.reason,
    }


def application(name: str, application: Application) -> View:
    pending = sum_pending(application)
    return {
        "partition": name,
        "id": application.id,
        "queue": application.queue.path,
        "user": application.user,
        "groups": application.groups,
        "tracked_group": next((tracker.name for tracker in application.trackers if tracker.kind == GROUP), ""),
        "tags": application.tags,
        "state": application.state,
        "since_ms": application.state_at_ms,
        "submitted_ms": application.at_ms,
        "states": [{"at_ms": at_ms, "state": state} for at_ms, state in application.log],
        "states_left_out": application.states_left_out,
        "ends_ms": ends_ms(application),
        "allocated": amounts(application.allocated),
        "allocated_placeholder": amounts(application.allocated_placeholder),
        "max_allocated": max_allocated(application),
        "pending": amounts(pending.amounts),
        "asks": pending.pieces,
        "allocations": len(application.allocations),
        "counts_as_running": application.counts_as_running,
        "reservations": [
            {"key": ask.ask.allocation_key, "nodes": list(ask.reservations)} for ask in application.reserving.values()
        ],
        "priority": application.priority,
        "execution_timeout_ms": application.execution_timeout_ms,
        "placeholder_ask": application.placeholder_ask,
        "gang_scheduling_style": application.gang_scheduling_style,
        "placeholders_until_ms": application.placeholders_until_ms,
        "task_groups": [
            {
                "name": group.name,
                "min_resource": group.min_resource,
                "count": group.count,
                "replaced": group.replaced,
                "timed_out": group.timed_out,
            }
            for group in application.task_groups.values()
        ],
    }


def max_allocated(application: Application) -> dict[str, int]:
    """The most that its real allocations, or its placeholders, ever had of each resource."""
    most = dict(application.peak or {})
    for held in (application.allocated, application.allocated_placeholder):
        raise_to(most, held)
    return most


def ask_of(ask: PendingAsk) -> View:
    return {"application": ask.application.id, "key": ask.ask.allocation_key}


def ends_ms(application: Application) -> int:
    """When all its allocations time out, in ms; 0: never, or not known yet."""
    if application.state != lifecycle.RUNNING or not application.execution_limit_ms:
        return 0
    return application.state_at_ms + application.execution_limit_ms


def rejection(name: str, rejected: RejectedApplication) -> View:
    fact = rejected.fact
    return {
        "partition": name,
        "id": fact.application_id,
        "queue": fact.queue,
        "user": fact.user,
        "groups": fact.groups,
        "state": lifecycle.REJECTED,
        "since_ms": rejected.at_ms,
        "reason": fact.reason,
    }


def allocation(name: str, allocation: Allocation) -> View:
    fact = allocation.fact
    return {
        "partition": name,
        "uuid": fact.uuid,
        "application": fact.application_id,
        "key": fact.allocation_key,
        "node": fact.node_id,
        "resource": fact.resource,
        "priority": fact.priority,
        "tags": fact.tags,
        "task_group": fact.task_group,
        "placeholder": fact.placeholder,
        "originator": fact.originator,
        "replaced": allocation.replaced,
        "replacement": replacement(allocation.replacement) if allocation.replacement is not None else None,
        "since_ms": allocation.at_ms,
        "requested_ms": allocation.asked_ms,
        "ends_ms": allocation.at_ms + fact.execution_timeout_ms if fact.execution_timeout_ms > 0 else 0,
        "releasing": allocation.releasing,
    }


def replacement(replacement: Replacement) -> View:
    """The allocation that replaces a placeholder, once the RM has released it: the ask of that is pending no more."""
    fact = replacement.fact
    return {"key": fact.allocation_key, "uuid": fact.uuid, "node": fact.node_id, "tags": fact.tags}


def ask(name: str, pending: PendingAsk) -> View:
    """`waits_for`: kind, place and resource of the first constraint that was reported of it; None: none was. Of equal
    asks of an application, only the first is reported."""
    ask = pending.ask
    return {
        "partition": name,
        "application": pending.application.id,
        "queue": pending.application.queue.path,
        "key": ask.allocation_key,
        "resource": ask.resource,
        "priority": ask.priority,
        "pending": pending.pending,
        "since_ms": pending.at_ms,
        "waits_for": next(iter(pending.waiting or ()), None),
        "tags": ask.tags,
        "required_node": required_node(ask.tags),
        "task_group": ask.task_group,
        "placeholder": ask.placeholder,
        "reserved_nodes": list(pending.reservations),
        "preempted_at_ms": pending.preempted_at_ms,
    }


def explained(
    name: str, ask: PendingAsk, constraints: Sequence[Constraint], position: Position, holders: Sequence[Holders]
) -> View:
    """`holders`: of each constraint; empty: they were not asked for."""
    since = ask.waiting or {}
    return {
        "partition": name,
        "application": ask.application.id,
        "queue": ask.application.queue.path,
        "key": ask.ask.allocation_key,
        "resource": ask.ask.resource,
        "priority": ask.ask.priority,
        "pending": ask.pending,
        "reserved_nodes": list(ask.reservations),
        "since_ms": ask.at_ms,
        "constraints": [
            {**constraint(c, since.get(c.key, 0)), **({} if held is None else {"holders": held})}
            for c, held in zip_longest(constraints, holders)
        ],
        "reason": constraints[0].reason if constraints else "nothing is in the way: it is not its turn yet",
        "position": position,
        "history": list(history(ask, constraints)),
    }


def constraint(c: Constraint, since_ms: int) -> View:
    """`since_ms`: 0: not explained yet."""
    return {
        "constraint": c.constraint,
        "where": c.where,
        "resource": c.resource,
        "need": c.need,
        "have": c.have,
        "reason": c.reason,
        "since_ms": since_ms,
    }


def history(ask: PendingAsk, constraints: Sequence[Constraint]) -> Iterator[View]:
    """Constraints that are over, the latest last. `ended_ms` is 0 if the end is not reported yet."""
    names = ("constraint", "where", "resource")
    for over in ask.past:
        yield {**dict(zip(names, over.key, strict=True)), "since_ms": over.since_ms, "ended_ms": over.ended_ms}
    now = {c.key for c in constraints}
    for key, since_ms in (ask.waiting or {}).items():
        if key not in now:
            yield {**dict(zip(names, key, strict=True)), "since_ms": since_ms, "ended_ms": 0}


def amounts(resource: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in resource.items() if amount}
