"""Why an ask waits, apart from nodes: holds, turns, slots, limits, maxima and budgets are in its way."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_proto.guests import name_for

from ..costs import cost_of_ask, cost_together
from ..facts import Constraint
from ..index.leaves import LeafOrder
from ..index.limits import NOTHING_HELD
from ..index.partition import PartitionIndex
from ..limits import ALLOCATIONS_PER_RM
from ..rules import lifecycle
from ..rules.budget import HOUR_MS, NO_COST, Cost, hours, utc
from ..rules.properties import is_state_aware
from ..rules.resource import Resource, total_of
from ..state import Application, Budget, Hold, PendingAsk, Queue, State, Tracker, asked_together, to_give_back


def standing_constraints(state: State, pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """All constraints except nodes, in the order in which a pass checks them. Costs little, whatever the size of the
    state."""
    return [
        *_room_constraints(state),
        *hold_constraints(pending.application.queue),
        *_turn_constraints(pending, index),
        *_slot_constraints(pending),
        *_limit_constraints(pending, wanted := _wanted(pending, index)),
        *_queue_constraints(pending, wanted),
        *_budget_constraints(pending, index),
    ]


def hold_constraints(queue: Queue) -> list[Constraint]:
    """Operators hold these queues: nothing starts in them and below."""
    return [
        Constraint("held", above.path, f"queue {above.path} is held by {above.hold.operator}{_because(above.hold)}")
        for above in queue.path_to_root
        if above.hold is not None
    ]


def _because(hold: Hold) -> str:
    return f": {hold.reason}" if hold.reason else ""


def _room_constraints(state: State) -> list[Constraint]:
    """The RM has reached ALLOCATIONS_PER_RM."""
    if state.room > 0:
        return []
    reason = f"the resource manager has {state.allocations} allocations, at most {ALLOCATIONS_PER_RM}"
    return [Constraint("allocations", "", reason)]


def place_constraints(pending: PendingAsk) -> list[Constraint]:
    """A real ask of a gang waits for a placeholder, and for nothing else."""
    ask, application = pending.ask, pending.application
    group = application.task_groups.get(ask.task_group)
    if ask.placeholder or group is None or not group.awaited:
        return []
    reason = (
        f"it is to take the place of a placeholder of task group {group.name}: "
        f"{len(group.free)} can be taken, {group.leaving} are being taken, {group.coming} are not there yet"
    )
    return [Constraint("placeholder", application.id, reason)]


def _turn_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """In a stateaware leaf queue applications start one after the other."""
    application = pending.application
    queue = application.queue
    if application.state != lifecycle.ACCEPTED or not is_state_aware(queue.settings.properties):
        return []
    first = first_to_start(queue, index)
    if first is None or first is application:
        return []
    who = name_for(application.id, first.id, first.id)
    reason = f"queue {queue.path} starts one application after the other: {who} is {first.state}"
    return [Constraint("stateaware", queue.path, reason)]


def first_to_start(queue: Queue, index: PartitionIndex | None) -> Application | None:
    """The application whose turn it is in a stateaware leaf queue. Taken from the index if there is one."""
    leaf = index.order_of(queue) if index is not None else None
    if isinstance(leaf, LeafOrder) and leaf.stateaware_turn is not None:
        return leaf.stateaware_turn.first()
    starting = [a for a in queue.applications.values() if a.state == lifecycle.STARTING]
    accepted = [a for a in queue.applications.values() if a.state == lifecycle.ACCEPTED and a.asks]
    return min(starting or accepted, key=lambda a: a.seq, default=None)


def _slot_constraints(pending: PendingAsk) -> list[Constraint]:
    application = pending.application
    if application.counts_as_running:
        return []
    full = [limit for limit in application.application_limits if not limit.has_running_slot()]
    found = []
    for limit in full:
        reason = f"{limit} is at its maximum of running applications: {limit.running} of {limit.most_running}"
        found.append(Constraint("maxapplications", limit.path if isinstance(limit, Queue) else limit.name, reason))
    return found


def _limit_constraints(pending: PendingAsk, wanted: Resource) -> list[Constraint]:
    found = []
    for tracker in pending.application.trackers:
        what = f"{tracker.kind} {tracker.name} is at the limit in queue {tracker.queue.path}"
        found += _short(tracker, tracker.kind, tracker.name, what, pending, wanted)
    return found


def _queue_constraints(pending: PendingAsk, wanted: Resource) -> list[Constraint]:
    found = []
    for queue in pending.application.queue.path_to_root:
        what = f"queue {queue.path} is at its maximum"
        if to_give_back(queue):
            what = f"queue {queue.path} is above its maximum, and will be preempted"
        found += _short(queue, "queue", queue.path, what, pending, wanted)
    return found


def _budget_constraints(pending: PendingAsk, index: PartitionIndex | None) -> list[Constraint]:
    """In base units * hours: what is needed is rounded up, what is left rounded down."""
    budgets = pending.application.queue.budgets
    if not budgets:
        return []
    together = _together(pending, index)
    cost = cost_of_ask(pending) if together is None else cost_together(together)
    return [found for budget in budgets for found in _over_budget(budget, pending, cost)]


def _over_budget(budget: Budget, pending: PendingAsk, cost: Cost) -> Iterator[Constraint]:
    held = NOTHING_HELD if _holds_a_place(pending) else budget.held
    for name in sorted(cost.keys() & budget.amounts.keys()):
        need, whole, left = cost[name], budget.amounts[name], budget.left_of(name, held)
        if need <= left:
            continue
        needed, have = -(-need // HOUR_MS), max(0, left) // HOUR_MS
        used, committed = hours(budget.used_of(name)), hours(budget.committed_of(name))
        what = f"{name} needs {hours(need)} h"
        if need > whole:
            what += f", which is more than the {hours(whole)} h of a period"
        else:
            what += f", {hours(max(0, left))} h of {hours(whole)} h are left until {utc(budget.until_ms)} "
            what += f"({used} h are used, and running work may use {committed} h)"
        yield Constraint("budget", budget.path, f"queue {budget.path} is at its budget: {what}", name, needed, have)


def _short(
    quota: Queue | Tracker, kind: str, where: str, what: str, pending: PendingAsk, wanted: Resource
) -> list[Constraint]:
    """A constraint for each resource that is short."""
    found = []
    held = NOTHING_HELD if _holds_a_place(pending) else quota.held
    for name, maximum in sorted(quota.most.items()):
        kept = held.get(name, 0)
        need, have = wanted.get(name, 0), maximum - quota.used.get(name, 0) - kept
        if need > have:
            reason = f"{what}: {name} needs {need}, {max(have, 0)} of {maximum} are left"
            if kept:
                reason += f", {kept} are kept for asks for which others are preempted"
            found.append(Constraint(kind, where, reason, name, need, have))
    return found


def _wanted(pending: PendingAsk, index: PartitionIndex | None) -> Resource:
    """The amounts that are placed at once: of the ask, or of all members of its group that start together."""
    together = _together(pending, index)
    return pending.ask.resource if together is None else asked_together(together)


def _together(pending: PendingAsk, index: PartitionIndex | None) -> dict[PendingAsk, int] | None:
    """The repeats of each ask that start together with the ask; None: it starts by itself."""
    groups = index.groups if index is not None else None
    return groups.placed_with(pending) if groups is not None else None


def _holds_a_place(pending: PendingAsk) -> bool:
    """Whether a preemption for the ask, or for its group, holds a place under maxima and limits."""
    return pending.preemption is not None and pending.preemption.held


def pieces_allowed(pending: PendingAsk) -> int | None:
    """The number of allocations of the ask that fit under maxima, limits and budgets; None: unlimited."""
    limits = [(one.most, total_of((one.used, one.held))) for one in pending.application.quotas]
    need = {name: amount for name, amount in pending.ask.resource.items() if amount > 0}
    pieces = [
        (most[name] - used.get(name, 0)) // need[name] for most, used in limits for name in need.keys() & most.keys()
    ]
    budgets = pending.application.queue.budgets
    cost = cost_of_ask(pending) if budgets else NO_COST
    pieces += [
        budget.left_of(name, budget.held) // needed
        for budget in budgets
        for name, needed in cost.items()
        if name in budget.amounts
    ]
    return max(0, min(pieces)) if pieces else None
