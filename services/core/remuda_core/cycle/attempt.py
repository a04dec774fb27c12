"""The last step of a pass: asks that nothing else helps may preempt others (semantics section 13)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..facts import Fact
from ..limits import ALLOCATIONS_PER_MS_OF_REST, ANSWER_WITHIN_MS, PREEMPTION_WORK_PER_PASS, PREEMPTIONS_PER_PASS
from ..state import NEVER_MS, Node, Partition, PendingAsk, State
from .claimants import Claimants
from .preempt import Plan, plan
from .release import release_requested
from .required_node import required_node
from .reserve import reserved, unreserved, within_quotas


def preempt(state: State, partition: Partition, claimants: Claimants, budget: int, now_ms: int) -> Iterator[Fact]:
    """At most `budget` times. How much is tried, and how soon again after nothing was found, depends on how much there
    is to look at."""
    rest_ms = len(partition.allocations) // ALLOCATIONS_PER_MS_OF_REST
    if now_ms < partition.preemption_refused_ms + rest_ms:
        return
    attempts = min(PREEMPTIONS_PER_PASS, max(1, PREEMPTION_WORK_PER_PASS // (len(partition.allocations) + 1)))
    interval_ms = partition.settings.preemption_interval_ms or state.timing.preemption_attempt_ms
    for _ in range(attempts):
        pending = claimants.next(interval_ms, now_ms) if budget > 0 else None
        if pending is None:
            return
        found = plan(state, partition, pending, now_ms)
        if isinstance(found, Plan):
            budget -= 1
            if state.preemption_predicates:
                yield ask_rm(state, found, now_ms)
            else:
                yield from carry_out(state, partition, found)
        else:
            yield refused(partition, pending, found)


def ask_rm(state: State, found: Plan, now_ms: int) -> Fact:
    """A plan has no more victims than it needs, so the RM is asked about all of them going."""
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
    """Ask the RM to release the victims, and keep the node for the ask. They count until the RM confirms (semantics
    section 15)."""
    ask, queue = found.pending.ask, found.pending.application.queue
    yield facts.PreemptionStarted(
        partition.name, ask.application_id, ask.allocation_key, found.node.id, queue.path, ask.resource, found.uuids
    )
    message = f"preempted for {ask.application_id}/{ask.allocation_key} in queue {queue.path}"
    for victim in found.victims:
        yield release_requested(victim, facts.PREEMPTED_BY_SCHEDULER, message)
    reserves = state.reservation_delay_ms < NEVER_MS
    if reserves and found.node.reservation is not found.pending:
        yield from keep(partition, found.pending, found.node)


def keep(partition: Partition, pending: PendingAsk, node: Node) -> Iterator[Fact]:
    """An ask has a reservation per repeat: without a free one, the node it had is exchanged for this one."""
    if node.reservation is not None:
        reason = f"{pending.ask.allocation_key} has to be on this node"
        yield unreserved(partition, node.reservation, node, reason)
    if not pending.free:
        yield unreserved(partition, pending, partition.nodes[pending.reservations[0]], f"{node.id} is kept instead")
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
        reason,
    )
