"""Tick: handles due timers, removes old records, reports what is overdue, and has waiting asks explained (`waiting`).
The work of a tick is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from .. import facts
from ..commands import Tick
from ..cycle.reserve import ended, unreserved
from ..cycle.transitions import transition
from ..facts import Fact
from ..index.index import Index
from ..limits import (
    DRAIN_REPORT_NAMES,
    DRAIN_REPORTED_MOST_MS,
    RELEASE_OVERDUE_MS,
)
from ..rules import lifecycle
from ..rules.acl import admin_acls
from ..rules.budget import HOUR_MS, period_at
from ..rules.connection import RUNNING
from ..state import Allocation, Application, Budget, Node, Partition, Preemption, Queue, State
from ..timeouts import subject_of
from . import predicate
from .allocation import idle
from .ask import withdraw
from .gang import give_back, give_up_placeholders, placeholders_ended
from .loans import loan_due
from .node import node_leaves
from .quota import quota_due
from .waiting import explain
from .windows import window_due


def tick(state: State, index: Index, command: Tick, now_ms: int) -> Iterator[Fact]:
    any_due = False
    for timer in state.timers.due(now_ms):
        any_due = True
        subject = subject_of(state, timer)
        if subject is not None:
            yield from BY_TIMER_KIND[timer.kind](state, state.partitions.get(timer.partition), subject, now_ms)
    if any_due:  # else they would be due again after a restart
        yield facts.TimePassed(now_ms)
    for partition in list(state.partitions.values()):
        yield from forget_rejections(partition, now_ms - state.timing.ended_ms)
        found = index.find(partition)
        if found is not None and state.rm_state == RUNNING:
            yield from explain(state, partition, found, now_ms)


def state_ended(state: State, partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    """End a state of the application that has timed out."""
    if application.state == lifecycle.COMPLETING and application.placeholders:
        yield from give_up_placeholders(partition, application, "the application is completing")
        return  # with the last it is Completed
    yield from transition(partition, application, lifecycle.TIMEOUTS[application.state][1], now_ms)
    if application.state == lifecycle.EXPIRED:
        yield facts.ApplicationRemoved(partition.name, application.id, "")


def forget_rejections(partition: Partition, before_ms: int) -> Iterator[Fact]:
    """Remove records of applications that were rejected before `before_ms`."""
    while (oldest := next(iter(partition.rejected.values()), None)) is not None and oldest.at_ms <= before_ms:
        yield facts.RejectionForgotten(partition.name, oldest.fact.application_id)


def execution_ended(
    state: State, partition: Partition, running: Allocation | Application, now_ms: int
) -> Iterator[Fact]:
    """End an allocation, or a whole application, whose execution has timed out (semantics section 7): ask the RM to
    release it. Asks of the application are withdrawn, so that it does not start again."""
    if isinstance(running, Allocation):
        application, allocations, over_ms = running.application, [running], running.fact.execution_timeout_ms
    else:
        application, allocations, over_ms = running, list(running.allocations.values()), running.execution_limit_ms
        message = f"application {application.id} was running for {seconds(over_ms)}"
        for pending in list(application.asks.values()):
            yield from withdraw(partition, pending, facts.TIMEOUT, message)
    yield from give_back(allocations, f"its execution time of {seconds(over_ms)} is over")
    yield from idle(partition, application, now_ms)


def seconds(duration_ms: int) -> str:
    """A duration for people: "1.5 s"."""
    return f"{duration_ms / 1_000:.10g} s"


# Overdue releases, queues and reservations (semantics sections 13, 15 and 16)


def release_overdue(state: State, partition: Partition, allocation: Allocation, now_ms: int) -> Iterator[Fact]:
    """Report a release that the RM has not confirmed in RELEASE_OVERDUE_MS."""
    fact = allocation.fact
    yield facts.ReleaseOverdue(*fact.ask_name, fact.uuid, fact.node_id, allocation.releasing, allocation.releasing_ms)


def queue_drain_overdue(state: State, partition: Partition, queue: Queue, now_ms: int) -> Iterator[Fact]:
    """Report a queue that still drains (001, Configuration updates). The next report comes when it has been draining
    for twice as long, after a day at the latest."""
    since_ms, applications = queue.draining_since_ms, list(queue.applications.values())
    named = applications[:DRAIN_REPORT_NAMES]
    so_far_ms = now_ms - since_ms
    yield facts.QueueDrainOverdue(
        partition.name,
        queue.path,
        since_ms,
        len(applications),
        tuple(application.id for application in named),
        tuple(dict.fromkeys(application.user for application in named)),
        {name: amount for name, amount in queue.allocated.items() if amount},
        admin_acls(queue),
        since_ms + min(2 * so_far_ms, so_far_ms + DRAIN_REPORTED_MOST_MS),
    )


def budget_period_over(state: State, partition: Partition, budget: Budget, now_ms: int) -> Iterator[Fact]:
    """Begin the next period of a budget. After a long outage, that in which the time lies."""
    period = period_at(budget.settings, now_ms)
    used = {name: budget.used_of(name) // HOUR_MS for name in budget.amounts}
    yield facts.BudgetPeriodBegan(*budget.key, period.from_ms, period.until_ms, used)


def reservation_over(state: State, partition: Partition, node: Node, now_ms: int) -> Iterator[Fact]:
    """Give up a reservation that has lasted for `timing.reservation_timeout`: others get the node, and the ask another
    one."""
    lasted_ms = state.timing.reservation_timeout_ms
    yield from ended(node, f"it was reserved for {seconds(lasted_ms)}", timed_out=True)


def preemption_over(state: State, partition: Partition, preemption: Preemption, now_ms: int) -> Iterator[Fact]:
    """Give up a preemption whose ask was not allocated in RELEASE_OVERDUE_MS."""
    late = sum(1 for uuid in preemption.uuids if uuid in partition.allocations)
    what = f"{late} of {len(preemption.uuids)} releases have not come" if late else "the ask could not be allocated"
    yield facts.PreemptionEnded(*preemption.pending.ask.name, f"{what} in {RELEASE_OVERDUE_MS // 1_000} s")
    if preemption.node.reservation is preemption.pending:
        yield unreserved(preemption.node, "preemption has not helped")


# The function that handles a due timer, by its kind. It gets the partition, which may be gone if the timer ends a loan,
# and what the timer is about (`timeouts.subject_of`).
Expire = Callable[[State, Any, Any, int], Iterator[Fact]]
BY_TIMER_KIND: Final[dict[str, Expire]] = {
    "state": state_ended,
    "predicate": predicate.unanswered,
    "reservation": reservation_over,
    "refusals": predicate.refusals_old,
    "execution": execution_ended,
    "placeholder": placeholders_ended,
    "preemption": preemption_over,
    "release": release_overdue,
    "draining": queue_drain_overdue,
    "quota": quota_due,
    "class_question": predicate.class_unanswered,
    "verdicts": predicate.verdicts_over,
    "leaving": node_leaves,
    "budget": budget_period_over,
    "window": window_due,
    "loan": loan_due,
}
