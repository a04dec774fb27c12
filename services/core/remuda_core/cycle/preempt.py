"""Attempt preemption (semantics section 13): for asks that are bound to a node in their turn, for all other asks in the
last step of a pass."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from remuda_proto.guests import name_for

from .. import facts
from ..facts import Fact
from ..index.partition import PartitionIndex
from ..index.preemption import Preemptors, preempts_in_turn
from ..limits import (
    ALLOCATIONS_PER_MS_OF_REST,
    ANSWER_WITHIN_MS,
    PREEMPTION_PUT_OFF_MS,
    PREEMPTION_WORK_PER_PASS,
    PREEMPTIONS_PER_PASS,
)
from ..rules.required_node import required_node
from ..state import NEVER_MS, Node, Partition, PendingAsk, State
from .preemption_plan import Plan, SetAside, plan
from .release import release_requested
from .reserve import gives_way, reserved, unreserved, within_quotas


def preempt(
    state: State, partition: Partition, index: PartitionIndex, preemptors: Preemptors, budget: int, now_ms: int
) -> Iterator[Fact]:
    """Preempt for at most `budget` asks that are not bound to a node.

    An attempt costs O(allocations of the partition). So the more allocations there are, the fewer attempts a pass
    makes, and the longer it rests after a refused one. If the pass has used up its budget, one ask may still preempt
    that has been due for PREEMPTION_PUT_OFF_MS and that fits no node: full passes must not prevent preemption for
    ever."""
    rest_ms = len(partition.allocations) // ALLOCATIONS_PER_MS_OF_REST
    if now_ms < partition.preemption_refused_ms + rest_ms:
        return
    attempts = min(PREEMPTIONS_PER_PASS, max(1, PREEMPTION_WORK_PER_PASS // (len(partition.allocations) + 1)))
    interval_ms = interval_of(state, partition)
    used_up, budget = budget <= 0, max(1, budget)
    for _ in range(attempts):
        pending = preemptors.next_ask(interval_ms, now_ms) if budget > 0 else None
        if pending is None:
            return
        if used_up and not is_put_off_for_long(index, preemptors, pending, interval_ms, now_ms):
            preemptors.pass_over()
        elif (yield from attempt(state, partition, pending, now_ms)):
            budget -= 1


def is_put_off_for_long(
    index: PartitionIndex, preemptors: Preemptors, pending: PendingAsk, interval_ms: int, now_ms: int
) -> bool:
    due_ms = preemptors.due_since(interval_ms, pending)
    return now_ms >= due_ms + PREEMPTION_PUT_OFF_MS and index.best_node(pending) is None


def preempt_where_bound(state: State, partition: Partition, index: PartitionIndex, now_ms: int) -> Iterator[Fact]:
    """Preempt for asks that are bound to a node which is reserved for them. Needs no budget, as nothing is placed."""
    for pending in index.bound.preempting_where_reserved(interval_of(state, partition), now_ms):
        yield from attempt(state, partition, pending, now_ms)


def preempt_in_turn(
    state: State, partition: Partition, index: PartitionIndex, pending: PendingAsk, now_ms: int
) -> Iterator[Fact]:
    """Preempt for an ask whose turn it is, and that is bound to a node without room."""
    if preempts_in_turn(partition, index.bound, pending, interval_of(state, partition), now_ms):
        yield from attempt(state, partition, pending, now_ms)


def interval_of(state: State, partition: Partition) -> int:
    """Time between two attempts for an ask, or for asks of its group, in ms."""
    return partition.settings.preemption_interval_ms or state.timing.preemption_attempt_ms


def attempt(state: State, partition: Partition, pending: PendingAsk, now_ms: int) -> Generator[Fact, None, bool]:
    """Plan preemption for the ask, and carry the plan out, or ask the RM first where it declares preemption predicates.
    Returns whether there is a plan."""
    found = plan(state, partition, pending, now_ms)
    if not isinstance(found, Plan):
        yield refused(partition, pending, found)
        return False
    if state.preemption_predicates:
        yield ask_rm(state, found, now_ms)
    else:
        yield from carry_out(state, partition, found)
    return True


def ask_rm(state: State, found: Plan, now_ms: int) -> Fact:
    """Ask the RM whether the ask would fit with all victims gone. A plan has no more victims than it needs."""
    ask = found.pending.ask
    return facts.PreemptionAsked(
        ask.partition,
        ask.application_id,
        ask.allocation_key,
        found.node.id,
        found.uuids,
        tuple(victim.fact.allocation_key for victim in found.victims),
        state.next_question,
        now_ms + ANSWER_WITHIN_MS,
    )


def carry_out(state: State, partition: Partition, found: Plan) -> Iterator[Fact]:
    """Ask the RM to release the victims, and reserve the node for the ask. Victims count until the RM confirms their
    release (semantics section 15)."""
    ask, queue = found.pending.ask, found.pending.application.queue
    yield facts.PreemptionStarted(
        partition.name, ask.application_id, ask.allocation_key, found.node.id, queue.path, ask.resource, found.uuids
    )
    who = f"{ask.application_id}/{ask.allocation_key} in queue {queue.path}"
    for victim in found.victims:
        message = f"preempted for {name_for(victim.fact.application_id, ask.application_id, who)}"
        yield release_requested(victim, facts.PREEMPTED_BY_SCHEDULER, message)
    reserves = state.reservation_delay_ms < NEVER_MS or bool(required_node(ask.tags))
    if reserves and found.node.reservation is not found.pending:
        yield from keep(partition, found.pending, found.node)


def keep(partition: Partition, pending: PendingAsk, node: Node) -> Iterator[Fact]:
    """Reserve the node for the ask. An ask has at most one reservation for each pending repeat: if it has no free
    repeat, it gives up another reservation."""
    if node.reservation is not None:
        yield unreserved(partition, node.reservation, node, gives_way(node.reservation, pending))
    if not pending.free:
        yield unreserved(
            partition, pending, partition.nodes[next(iter(pending.reservations))], f"{node.id} is kept instead"
        )
    yield reserved(partition, pending, node, by_preemption=not within_quotas(partition, pending))


def refused(partition: Partition, pending: PendingAsk, reason: str) -> Fact:
    ask = pending.ask
    return facts.PreemptionRefused(
        partition.name,
        ask.application_id,
        ask.allocation_key,
        pending.application.queue.path,
        ask.resource,
        required_node(ask.tags),
        ask.priority,
        str(reason),
        isinstance(reason, SetAside),
    )
