"""Tick: time has passed. Applications leave states that last only so long, and asks that wait are explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .. import facts
from ..commands import Tick
from ..cycle.explain import OF_NODES, node_constraints, pieces_allowed, standing_constraints
from ..cycle.index import Index
from ..cycle.nodes import Demand
from ..cycle.order import Line
from ..cycle.release import release_requested
from ..cycle.states import occasion
from ..facts import Constraint, Fact
from ..limits import (
    EXPLAIN_AFTER_MS,
    EXPLAIN_AGAIN_MS,
    EXPLAIN_LINES_PER_TICK,
    EXPLAIN_NODES_PER_TICK,
    OUTSTANDING_LOOKS,
    OUTSTANDING_PER_TICK,
)
from ..rules import lifecycle
from ..state import Alarm, Application, Partition, PendingAsk, State
from . import predicate
from .allocation import idle
from .ask import withdraw
from .gang import give_up_placeholders, placeholders_ended
from .overdue import preemption_over, release_overdue


def tick(state: State, command: Tick, now_ms: int) -> Iterator[Fact]:
    any_due = False
    for alarm in state.timers.due(now_ms):
        any_due = True
        partition = state.partitions.get(alarm.partition)
        application = partition.applications.get(alarm.application_id) if partition is not None else None
        if partition is not None and application is not None:
            yield from ALARMS[alarm.kind](state, partition, application, alarm, now_ms)
    if any_due:  # or they would be due again after a restart
        yield facts.TimePassed(now_ms)
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
    if application.state == lifecycle.COMPLETING and application.placeholders:
        yield from give_up_placeholders(
            partition, application, "the application is completing"
        )  # with the last it is Completed
        return
    yield from occasion(partition, application, lifecycle.TIMEOUTS[application.state][1], now_ms)
    if application.state == lifecycle.EXPIRED:
        yield facts.ApplicationRemoved(partition.name, application.id, "")


def forget_rejections(partition: Partition, before_ms: int) -> Iterator[Fact]:
    """Records of rejected applications go like those of others that have ended."""
    while (oldest := next(iter(partition.rejected.values()), None)) is not None and oldest.at_ms <= before_ms:
        yield facts.RejectionForgotten(partition.name, oldest.fact.application_id)


def explanations(partition: Partition, index: Index, now_ms: int) -> Iterator[Fact]:
    """Why asks wait: when that is another reason than they were told, and not the same one again within a minute
    (semantics section 17). One ask stands for all of its application that are like it."""
    untold = OUTSTANDING_PER_TICK
    # What the nodes say: the same for all asks of a demand, but for those for which nodes are kept.
    looked: dict[Demand | PendingAsk, list[Constraint]] = {}
    for _ in range(min(EXPLAIN_LINES_PER_TICK, len(index.unexplained))):
        line = index.unexplained.popleft()
        ask = line.head()
        if ask is None:
            continue
        index.unexplained.append(line)
        if now_ms - ask.at_ms < EXPLAIN_AFTER_MS:
            continue
        demand, known = line.lane.demand, set(ask.waiting or ())
        constraints = standing_constraints(ask)
        if not demand.open and not constraints and (known or line.told) and untold > 0:
            for found in outstanding(partition, line, ask, untold):
                untold -= 1
                yield found
        of_nodes = {key for key in known if key[0] in OF_NODES}
        if (
            not demand.required_node
            and demand.open == (not of_nodes)
            and {c.key for c in constraints} | of_nodes == known
        ):
            continue  # as it was
        if not demand.open:
            like = ask if ask.reservations else demand
            of_nodes_now = looked.get(like)
            if of_nodes_now is None:
                if len(looked) >= EXPLAIN_NODES_PER_TICK and not demand.required_node:
                    continue  # in another tick
                of_nodes_now = node_constraints(partition, ask)
                if not demand.required_node:
                    looked[like] = of_nodes_now
            constraints += of_nodes_now
        if not constraints or {c.key for c in constraints} == known:
            continue
        first = constraints[0]
        if now_ms - line.told.get(first.key, now_ms - EXPLAIN_AGAIN_MS) < EXPLAIN_AGAIN_MS:
            continue
        line.told[first.key] = now_ms
        yield facts.AskWaiting(
            partition.name, ask.application.id, ask.ask.allocation_key, first.constraint, first.reason, line.count(),
            ask.ask.resource, tuple(constraints),
        )  # fmt: skip


def outstanding(partition: Partition, line: Line, head: PendingAsk, most: int) -> Iterator[Fact]:
    """Asks like the head, of which it was told that no node has room: as many as quotas allow. So whoever adds nodes
    knows how many are wanted."""
    allowed = pieces_allowed(head)
    looks = OUTSTANDING_LOOKS if allowed is None else min(allowed, OUTSTANDING_LOOKS)
    there_is = (max(asks[-1].seq for asks in line.by_priority.values() if asks), looks)
    if line.looked_at == there_is:
        return
    found = line.unannounced(looks)
    if len(found) <= most:
        line.looked_at = there_is
    for ask in found[:most]:
        line.announced[ask.ask.priority] = ask.seq
        if not ask.waiting:
            yield facts.AskOutstanding(
                partition.name, ask.application.id, ask.ask.allocation_key, "no node has room for it"
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
    "placeholder": placeholders_ended,
    "preemption": preemption_over,
    "release": release_overdue,
}
