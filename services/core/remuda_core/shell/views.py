"""Rows of answers, from the state: one function for each kind of object. Amounts are in base units, without zeros."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from remuda_operations.queries import rows
from remuda_proto.constants import FOREIGN_TAG

from ..decide.names import plain
from ..evolve.booking import sum_pending
from ..facts import ActionRefused, ActionTaken, Constraint
from ..limits import DRAIN_REPORT_NAMES, REJECTED_SHOWN
from ..rules import lifecycle
from ..rules.acl import admin_acls
from ..rules.limits import GROUP
from ..rules.required_node import required_node
from ..rules.resource import raise_to
from ..rules.topology import path_of
from ..rules.windows import is_maintenance, opens_ms
from ..settings import ChildTemplate, Limit, PlacementRule, QueueSettings, TopologyLevel, Window
from ..state import (
    NEVER_MS,
    Allocation,
    Application,
    Devices,
    Hold,
    Node,
    Partition,
    PendingAsk,
    Promise,
    Queue,
    RejectedAllocation,
    RejectedApplication,
    Replacement,
    Tracker,
    to_give_back,
)
from .budgets import use_of
from .usage import Usage

R = TypeVar("R", bound=msgspec.Struct)


def partition(name: str, partition: Partition) -> rows.Partition:
    settings = partition.settings
    return rows.Partition(
        name=name,
        status="Draining" if partition.draining else "Active",
        total=partition.total,
        allocated=amounts(partition.root.allocated),
        nodes=len(partition.nodes),
        allocations=len(partition.allocations),
        draining_since_ms=partition.root.draining_since_ms,
        node_sort=settings.node_sort,
        resource_weights=settings.resource_weights,
        placement_rules=[shown(rule, rows.PlacementRule) for rule in settings.placement_rules],
        preemption_enabled=settings.preemption_enabled,
        quota_preemption_enabled=settings.quota_preemption_enabled,
        yunikorn_1_4=partition.yunikorn_1_4,
    )


def shown(settings: ChildTemplate | Limit | PlacementRule, row: type[R]) -> R:
    """The settings as a row, which has the same fields."""
    return msgspec.convert(settings, row, from_attributes=True)


def action(outcome: ActionTaken | ActionRefused, at_ms: int) -> rows.Action:
    """`at_ms`: when it was decided; 0: not known."""
    described = {**asdict(outcome.action), "partition": plain(outcome.action.partition), "at_ms": at_ms}
    if isinstance(outcome, ActionTaken):
        return rows.Action(**described, outcome="accepted", overridden=outcome.overridden)
    return rows.Action(**described, outcome="refused", refusal=outcome.refusal, soft=outcome.soft)


def queue(
    name: str, partition: Partition, queue: Queue, waiting: int, waiting_since_ms: int, waiting_for: Mapping[str, int],
    fair_share: rows.FairShare | None = None,
) -> rows.Queue:  # fmt: skip
    settings: QueueSettings = queue.settings
    template = settings.child_template
    return rows.Queue(
        partition=name,
        path=queue.path,
        leaf=queue.leaf,
        managed=queue.managed,
        status="Draining" if queue.draining else "Active",
        draining_since_ms=queue.draining_since_ms,
        draining=draining(queue) if queue.draining else None,
        held=hold(queue.hold) if queue.hold is not None else None,
        excess=excess(queue),
        allocated=amounts(queue.allocated),
        pending=amounts(queue.pending),
        preempting=amounts(queue.preempting),
        guaranteed=settings.guaranteed,
        max=settings.max,
        max_in_force=max_in_force(partition, queue),
        applications=len(queue.applications),
        max_applications=settings.max_applications,
        running_applications=queue.running,
        allocating_accepted_applications=sorted(
            a.id for a in queue.applications.values() if a.counts_as_running and a.state == lifecycle.ACCEPTED
        ),
        limited=[tracker(tracked) for _, tracked in sorted(queue.trackers.items())],
        priority=queue.priority,
        asks_pending=bool(queue.priorities),
        waiting=waiting,
        waiting_since_ms=waiting_since_ms,
        waiting_for=waiting_for,
        properties=settings.properties,
        template=None if template is None else shown(template, rows.ChildTemplate),
        limits=[shown(limit, rows.Limit) for limit in settings.limits],
        submit_acl=settings.submit_acl,
        admin_acl=settings.admin_acl,
        fair_share=fair_share,
        budget=use_of(queue.budgets[0]) if settings.budget is not None and queue.budgets else None,
        loans=list(loans(partition, queue)) if partition.loans else (),
    )


def loans(partition: Partition, queue: Queue) -> Iterator[rows.QuotaLoan]:
    for key, one in partition.loans.items():
        if key.partition == partition.name and queue.path in (key.lender, key.borrower):
            lends = queue.path == key.lender
            yield rows.QuotaLoan(
                queue=key.borrower if lends else key.lender, lends=lends, amounts=one.amounts,
                guaranteed=one.guaranteed, until_ms=one.until_ms, operator=one.operator, reason=one.reason,
            )  # fmt: skip


def draining(queue: Queue) -> rows.Draining:
    applications = islice(queue.applications.values(), DRAIN_REPORT_NAMES)
    return rows.Draining(
        [rows.DrainingApplication(one.id, one.user, one.state, amounts(one.allocated)) for one in applications],
        admin_acls(queue),
        queue.drain_report_ms,
    )


def hold(hold: Hold) -> rows.Hold:
    return rows.Hold(hold.operator, hold.reason, hold.at_ms)


def excess(queue: Queue) -> rows.Excess | None:
    """None: the queue has nothing to give back."""
    over = to_give_back(queue)
    if queue.excess is None or not over:
        return None
    return rows.Excess(over, queue.excess.since_ms, queue.excess.preempt_at_ms)


def tracker(tracker: Tracker) -> rows.LimitUsage:
    return rows.LimitUsage(
        user=UNSET if tracker.kind == GROUP else tracker.name,
        group=tracker.name if tracker.kind == GROUP else UNSET,
        used=amounts(tracker.used),
        max=tracker.limit.max_resources,
        running_applications=tracker.running,
        max_applications=tracker.limit.max_applications,
    )


def usage(name: str, usage: Usage) -> rows.Usage:
    return rows.Usage(
        partition=name,
        user=UNSET if usage.kind == GROUP else usage.name,
        group=usage.name if usage.kind == GROUP else UNSET,
        queue=usage.queue,
        used=amounts(usage.used),
        applications=usage.applications,
        running_applications=usage.running,
        max=usage.limit.max_resources if usage.limit else {},
        max_applications=usage.limit.max_applications if usage.limit else 0,
        fair_share=usage.fair_share,
    )


def max_in_force(partition: Partition, queue: Queue) -> dict[str, int]:
    """The smallest maximum on the path to root of each resource, at most the total of the partition."""
    least = dict(partition.total)
    for above in queue.path_to_root:
        for name, maximum in above.settings.max.items():
            least[name] = min(maximum, least.get(name, maximum))
    return least


def status(node: Node) -> str:
    return "Draining" if node.draining else "Schedulable" if node.schedulable else "NotReady"


def node(name: str, node: Node, of: Partition | None = None) -> rows.Node:
    """`of`: its partition. None: without the domain and the windows that it has there."""
    levels: Sequence[TopologyLevel] = of.settings.topology if of is not None else ()
    kept_for = node.kept.pending if node.kept is not None else node.reservation
    return rows.Node(
        partition=name,
        id=node.id,
        attributes=node.attributes,
        capacity=node.capacity,
        occupied=node.occupied,
        status=status(node),
        allocated=amounts(node.allocated),
        available=node.available(),
        drained=hold(node.drained) if node.drained is not None and node.drained_by_operator else None,
        reserved_for=ask_of(kept_for) if kept_for is not None else None,
        allocations=len(node.allocations),
        rejected=[rejected(one) for one in islice(node.rejected.values(), REJECTED_SHOWN)],
        rejected_count=len(node.rejected),
        domain=path_of(levels, node.attributes),  # type: ignore[arg-type]  # no host, so no None
        devices=[devices_of(*one) for one in sorted(node.devices.items())] if node.devices else (),
        promise=promise(node.promise) if node.promise is not None else None,
        leaving=leaving(node, of),
        windows=[name for name in node.windows if of is not None and name in of.windows and of.windows[name].open],
    )


def leaving(node: Node, of: Partition | None) -> rows.NodeDeparture | None:
    at_ms, planned = node.leaves_ms, node.drained
    found = maintenance_of(of, node) if of is not None else None
    if found is not None and of is not None and of.windows[found.name].from_ms < at_ms:
        return rows.NodeDeparture(of.windows[found.name].from_ms, window=found.name)
    if at_ms >= NEVER_MS:
        return None
    if planned is None or planned.from_ms != at_ms:
        return rows.NodeDeparture(at_ms)
    return rows.NodeDeparture(at_ms, planned.operator, planned.reason, planned.at_ms)


def maintenance_of(partition: Partition, node: Node) -> Window | None:
    """The window of maintenance that drains the node next."""
    planned = [
        one
        for one in partition.settings.calendar
        if one.name in node.windows and is_maintenance(one) and one.name in partition.windows
    ]
    ahead = [one for one in planned if not partition.windows[one.name].open]
    return min(ahead, key=lambda one: (partition.windows[one.name].from_ms, one.name), default=None)


def nodes_of_windows(partition: Partition) -> dict[str, list[Node]]:
    """The nodes of each window, by its name. O(nodes)."""
    found: dict[str, list[Node]] = {}
    for node in partition.nodes.values() if partition.settings.calendar else ():
        for name in node.windows:
            found.setdefault(name, []).append(node)
    return found


def window(name: str, window: Window, partition: Partition, nodes: Sequence[Node]) -> rows.Window:
    """`nodes`: those of the window."""
    known = partition.windows.get(window.name)
    return rows.Window(
        partition=name,
        name=window.name,
        kind="settings" if window.queues else "kept" if window.queue else "maintenance",
        open=known is not None and known.open,
        opens_ms=opens_ms(window, known.from_ms) if known is not None else 0,
        from_ms=known.from_ms if known is not None else 0,
        until_ms=known.until_ms if known is not None else 0,
        weekly=bool(window.days),
        nodes=len(nodes),
        running=sum(len(node.allocations) for node in nodes),
        queue=window.queue,
        queues=[one.path for one in window.queues],
        unbounded=window.unbounded,
        release=window.release,
    )


def promise(one: Promise) -> rows.NodePromise:
    return rows.NodePromise(one.promised_ms, one.first_ms, one.changed_ms, one.cause)


def devices_of(resource: str, devices: Devices) -> rows.NodeDevices:
    names = list(devices.room)
    unfit = [name for name in names if name in devices.unfit] if devices.unfit else []
    return rows.NodeDevices(resource, devices.unit, names, devices.free(), unfit)


def rejected(one: RejectedAllocation) -> rows.RejectedAllocation:
    fact = one.fact
    return rows.RejectedAllocation(
        fact.application_id, fact.allocation_key, fact.uuid, fact.resource, one.reason,
        not fact.application_id and FOREIGN_TAG in fact.tags,
    )  # fmt: skip


def application(name: str, application: Application) -> rows.Application:
    pending = sum_pending(application)
    return rows.Application(
        partition=name,
        id=application.id,
        queue=application.queue.path,
        user=application.user,
        groups=application.groups,
        tracked_group=next((tracker.name for tracker in application.trackers if tracker.kind == GROUP), ""),
        tags=application.tags,
        state=application.state,
        since_ms=application.state_at_ms,
        submitted_ms=application.at_ms,
        states=[rows.StateTransition(at_ms, state) for at_ms, state in application.log],
        states_left_out=application.states_left_out,
        ends_ms=ends_ms(application),
        allocated=amounts(application.allocated),
        allocated_placeholder=amounts(application.allocated_placeholder),
        max_allocated=max_allocated(application),
        pending=amounts(pending.amounts),
        asks=pending.pieces,
        allocations=len(application.allocations),
        counts_as_running=application.counts_as_running,
        reservations=[
            rows.ReservedNodes(ask.ask.allocation_key, list(ask.reservations)) for ask in application.reserving.values()
        ],
        priority=application.priority,
        execution_timeout_ms=application.execution_timeout_ms,
        placeholder_ask=application.placeholder_ask,
        gang_scheduling_style=application.gang_scheduling_style,
        placeholders_until_ms=application.placeholders_until_ms,
        task_groups=[
            rows.TaskGroup(group.name, group.min_resource, group.count, group.replaced, group.timed_out)
            for group in application.task_groups.values()
        ],
    )


def max_allocated(application: Application) -> dict[str, int]:
    """The most that its real allocations, or its placeholders, ever had of each resource."""
    most = dict(application.peak or {})
    for held in (application.allocated, application.allocated_placeholder):
        raise_to(most, held)
    return most


def ask_of(ask: PendingAsk) -> rows.AskName:
    return rows.AskName(ask.application.id, ask.ask.allocation_key)


def ends_ms(application: Application) -> int:
    """When all its allocations time out, in ms; 0: never, or not known yet."""
    if application.state != lifecycle.RUNNING or not application.execution_limit_ms:
        return 0
    return application.state_at_ms + application.execution_limit_ms


def rejection(name: str, rejected: RejectedApplication) -> rows.Rejection:
    fact = rejected.fact
    return rows.Rejection(
        partition=name,
        id=fact.application_id,
        queue=fact.queue,
        user=fact.user,
        groups=fact.groups,
        state=lifecycle.REJECTED,
        since_ms=rejected.at_ms,
        reason=fact.reason,
    )


def allocation(name: str, allocation: Allocation) -> rows.Allocation:
    fact = allocation.fact
    return rows.Allocation(
        partition=name,
        uuid=fact.uuid,
        application=fact.application_id,
        key=fact.allocation_key,
        node=fact.node_id,
        resource=fact.resource,
        priority=fact.priority,
        tags=fact.tags,
        task_group=fact.task_group,
        placeholder=fact.placeholder,
        originator=fact.originator,
        replaced=allocation.replaced,
        replacement=replacement(allocation.replacement) if allocation.replacement is not None else None,
        since_ms=allocation.at_ms,
        requested_ms=allocation.asked_ms,
        ends_ms=allocation.at_ms + fact.execution_timeout_ms if fact.execution_timeout_ms > 0 else 0,
        releasing=allocation.releasing,
        devices=fact.devices,
    )


def replacement(replacement: Replacement) -> rows.Replacement:
    fact = replacement.fact
    return rows.Replacement(fact.allocation_key, fact.uuid, fact.node_id, fact.tags)


def ask(name: str, pending: PendingAsk) -> rows.Ask:
    ask = pending.ask
    return rows.Ask(
        partition=name,
        application=pending.application.id,
        queue=pending.application.queue.path,
        key=ask.allocation_key,
        resource=ask.resource,
        priority=ask.priority,
        pending=pending.pending,
        since_ms=pending.at_ms,
        waits_for=next(iter(pending.waiting or ()), None),
        tags=ask.tags,
        required_node=required_node(ask.tags),
        task_group=ask.task_group,
        placeholder=ask.placeholder,
        reserved_nodes=list(pending.reservations),
        preempted_at_ms=pending.preempted_at_ms,
    )


def explained(
    name: str, ask: PendingAsk, constraints: Sequence[Constraint], position: rows.Position,
    holders: Sequence[rows.Holders], forecast: rows.Forecast | None,
) -> rows.ExplainedAsk:  # fmt: skip
    """`holders`: of each constraint; empty: they were not asked for."""
    since = ask.waiting or {}
    held: Iterable[rows.Holders | UnsetType] = holders or repeat(UNSET)
    return rows.ExplainedAsk(
        partition=name,
        application=ask.application.id,
        queue=ask.application.queue.path,
        key=ask.ask.allocation_key,
        resource=ask.ask.resource,
        priority=ask.ask.priority,
        pending=ask.pending,
        reserved_nodes=list(ask.reservations),
        since_ms=ask.at_ms,
        constraints=[constraint(one, since.get(one.key, 0), by) for one, by in zip(constraints, held, strict=False)],
        reason=constraints[0].reason if constraints else "nothing is in the way: it is not its turn yet",
        position=position,
        history=list(history(ask, constraints)),
        forecast=forecast,
    )


def constraint(c: Constraint, since_ms: int, holders: rows.Holders | UnsetType = UNSET) -> rows.Constraint:
    """`since_ms`: 0: not explained yet."""
    return rows.Constraint(c.constraint, c.where, c.resource, c.need, c.have, c.reason, since_ms, holders)


def history(ask: PendingAsk, constraints: Sequence[Constraint]) -> Iterator[rows.EarlierConstraint]:
    """Constraints that are over, the latest last. `ended_ms` is 0 if the end is not reported yet."""
    for over in ask.past:
        yield rows.EarlierConstraint(*over.key, over.since_ms, over.ended_ms)
    now = {c.key for c in constraints}
    for key, since_ms in (ask.waiting or {}).items():
        if key not in now:
            yield rows.EarlierConstraint(*key, since_ms)


def amounts(resource: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in resource.items() if amount}
