"""Tick: time has passed. Applications leave states that last only so long, and asks that wait are explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .. import facts
from ..commands import Tick
from ..cycle.explain import node_constraints, queue_constraints
from ..cycle.index import Index
from ..cycle.states import occasion
from ..facts import Fact
from ..limits import (
    EXPLAIN_AFTER_MS,
    EXPLAIN_AGAIN_MS,
    EXPLAIN_LINES_PER_TICK,
    EXPLAIN_NODES_PER_TICK,
)
from ..rules import lifecycle
from ..state import Alarm, Application, Partition, State
from . import predicate
from .allocation import idle, release_requested
from .ask import withdraw
from .overdue import preemption_over, release_overdue


def tick(state: State, command: Tick, now_ms: int) -> Iterator[Fact]:
    for alarm in state.timers.due(now_ms):
        partition = state.partitions.get(alarm.partition)
        application = partition.applications.get(alarm.application_id) if partition is not None else None
        if partition is not None and application is not None:
            yield from ALARMS[alarm.kind](state, partition, application, alarm, now_ms)
    for partition in list(state.partitions.values()):
        yield from forget_rejections(partition, now_ms - state.timing.ended_ms)
        if partition.index is not None:
            yield from explanations(partition, partition.index, now_ms)


def state_ended(
    state: State, partition: Partition, application: Application, alarm: Alarm, now_ms: int
) -> Iterator[Fact]:
    """The application has been in one state for as long as it may."""
    if application.state not in lifecycle.TIMEOUTS:
        return
    if application.state_at_ms + lifecycle.lasts_ms(application.state, state.timing) != alarm.at_ms:
        return  # it has come into this state again since, or states last differently now
    yield from occasion(partition, application, lifecycle.TIMEOUTS[application.state][1], now_ms)
    if application.state == lifecycle.EXPIRED:
        yield facts.ApplicationRemoved(partition.name, application.id, "")


def forget_rejections(partition: Partition, before_ms: int) -> Iterator[Fact]:
    """Records of rejected applications go like those of others that have ended."""
    while (oldest := next(iter(partition.rejected.values()), None)) is not None and oldest.at_ms <= before_ms:
        yield facts.RejectionForgotten(partition.name, oldest.fact.application_id)


def explanations(partition: Partition, index: Index, now_ms: int) -> Iterator[Fact]:
    """Why asks wait, for those of whom it was not told yet, or not for a while, or not for this reason (semantics
    section 17)."""
    looked_at_nodes = 0
    for _ in range(min(EXPLAIN_LINES_PER_TICK, len(index.unexplained))):
        line = index.unexplained.popleft()
        ask = line.head()
        if ask is None:
            continue
        index.unexplained.append(line)
        if now_ms - ask.at_ms < EXPLAIN_AFTER_MS or (line.explained and now_ms - line.explained_ms < EXPLAIN_AGAIN_MS):
            continue
        constraints = queue_constraints(ask)
        if not constraints and not line.lane.demand.open and looked_at_nodes < EXPLAIN_NODES_PER_TICK:
            looked_at_nodes += 1
            constraints = node_constraints(partition, ask)
        if constraints:
            first = constraints[0]
            line.explained, line.explained_ms = first.reason, now_ms
            yield facts.AskWaiting(
                partition.name,
                ask.application.id,
                ask.ask.allocation_key,
                first.constraint,
                first.reason,
                line.count(),
                ask.ask.resource,
            )


def execution_ended(
    state: State, partition: Partition, application: Application, alarm: Alarm, now_ms: int
) -> Iterator[Fact]:
    """An allocation, or the whole application, has run for as long as it may (semantics section 7). The RM is asked to
    end it; what the application still asks for is taken back, or it would begin anew."""
    if alarm.key:
        allocation = partition.allocations.get(alarm.key)
        if allocation is None or allocation.at_ms + allocation.fact.execution_timeout_ms != alarm.at_ms:
            return
        over_ms, allocations = allocation.fact.execution_timeout_ms, [allocation]
    elif (
        application.state == lifecycle.RUNNING
        and application.state_at_ms + application.execution_limit_ms == alarm.at_ms
    ):
        over_ms, allocations = application.execution_limit_ms, list(application.allocations.values())
        message = f"application {application.id} was running for {seconds(over_ms)}"
        for pending in list(application.asks.values()):
            yield from withdraw(partition, pending, facts.TIMEOUT, message)
    else:
        return
    for allocation in allocations:
        if not allocation.releasing:
            yield release_requested(allocation, facts.TIMEOUT, f"its execution time of {seconds(over_ms)} is over")
    yield from idle(partition, application, now_ms)


def seconds(duration_ms: int) -> str:
    """For people: 1.5 s."""
    return f"{duration_ms / 1_000:.10g} s"


Expire = Callable[[State, Partition, Application, Alarm, int], Iterator[Fact]]
# By the kind of alarm: what happens when it is due. Each looks first whether it still means anything.
ALARMS: Final[dict[str, Expire]] = {
    "state": state_ended,
    "predicate": predicate.unanswered,
    "refusals": predicate.refusals_old,
    "execution": execution_ended,
    "release": release_overdue,
    "preemption": preemption_over,
}
