"""Tick: handles due timers, removes old records, and explains waiting asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .. import facts
from ..commands import Tick
from ..cycle.transitions import transition
from ..facts import Fact
from ..index.index import Index
from ..rules import lifecycle
from ..rules.connection import RUNNING
from ..state import Application, Partition, State, Timer, after
from . import predicate, predicate_classes
from .allocation import idle
from .ask import withdraw
from .explain import explanations
from .gang import give_back, give_up_placeholders, placeholders_ended
from .overdue import preemption_over, queue_drain_overdue, release_overdue, reservation_over
from .quota import quota_due


def tick(state: State, index: Index, command: Tick, now_ms: int) -> Iterator[Fact]:
    any_due = False
    for timer in state.timers.due(now_ms):
        any_due = True
        partition = state.partitions.get(timer.partition)
        if timer.kind in OF_PARTITION:
            if partition is not None:
                yield from OF_PARTITION[timer.kind](state, partition, timer, now_ms)
            continue
        application = partition.applications.get(timer.application_id) if partition is not None else None
        if partition is not None and application is not None:
            yield from BY_TIMER_KIND[timer.kind](state, partition, application, timer, now_ms)
    if any_due:  # else they would be due again after a restart
        yield facts.TimePassed(now_ms)
    for partition in list(state.partitions.values()):
        yield from forget_rejections(partition, now_ms - state.timing.ended_ms)
        found = index.find(partition)
        if found is not None and state.rm_state == RUNNING:
            yield from explanations(state, partition, found, now_ms)


def state_ended(
    state: State, partition: Partition, application: Application, timer: Timer, now_ms: int
) -> Iterator[Fact]:
    """The state of the application has timed out."""
    if application.state not in lifecycle.TIMEOUTS:
        return
    if after(application.state_at_ms, lifecycle.lasts_ms(application.state, state.timing)) != timer.at_ms:
        return  # it has entered the state again since, or the configured duration has changed
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
    state: State, partition: Partition, application: Application, timer: Timer, now_ms: int
) -> Iterator[Fact]:
    """The execution of an allocation, or of the whole application, has timed out (semantics section 7). The RM is asked
    to release it. Asks of the application are withdrawn, so that it does not start again."""
    if timer.key:
        allocation = partition.allocations.get(timer.key)
        if allocation is None or after(allocation.at_ms, allocation.fact.execution_timeout_ms) != timer.at_ms:
            return
        over_ms, allocations = allocation.fact.execution_timeout_ms, [allocation]
    elif (
        application.state == lifecycle.RUNNING
        and after(application.state_at_ms, application.execution_limit_ms) == timer.at_ms
    ):
        over_ms, allocations = application.execution_limit_ms, list(application.allocations.values())
        message = f"application {application.id} was running for {seconds(over_ms)}"
        for pending in list(application.asks.values()):
            yield from withdraw(partition, pending, facts.TIMEOUT, message)
    else:
        return
    yield from give_back(allocations, f"its execution time of {seconds(over_ms)} is over")
    yield from idle(partition, application, now_ms)


def seconds(duration_ms: int) -> str:
    """A duration for people: "1.5 s"."""
    return f"{duration_ms / 1_000:.10g} s"


# The same for timers that are not about an application.
OF_PARTITION: Final[dict[str, Callable[[State, Partition, Timer, int], Iterator[Fact]]]] = {
    "draining": queue_drain_overdue,
    "quota": quota_due,
    "class_question": predicate_classes.unanswered,
    "verdicts": predicate_classes.verdicts_over,
}
Expire = Callable[[State, Partition, Application, Timer, int], Iterator[Fact]]
# The function that handles a due timer, by its kind. Each checks first whether the timer still applies.
BY_TIMER_KIND: Final[dict[str, Expire]] = {
    "state": state_ended,
    "predicate": predicate.unanswered,
    "reservation": reservation_over,
    "refusals": predicate.refusals_old,
    "execution": execution_ended,
    "placeholder": placeholders_ended,
    "preemption": preemption_over,
    "release": release_overdue,
}
