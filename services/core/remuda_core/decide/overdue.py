"""Releases that the RM was asked for and has not confirmed in time, and queues that drain for long (semantics sections
13, 15 and 16)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..cycle.reserve import ended, unreserved
from ..facts import Fact
from ..limits import DRAIN_REPORT_NAMES, DRAIN_REPORTED_MOST_MS, RELEASE_OVERDUE_MS
from ..rules.acl import admin_acls
from ..state import Application, Partition, State, Timer
from ..timeouts import of_reservation


def release_overdue(
    state: State, partition: Partition, application: Application, timer: Timer, now_ms: int
) -> Iterator[Fact]:
    """Report a release that the RM has not confirmed in RELEASE_OVERDUE_MS."""
    allocation = partition.allocations.get(timer.key)
    if (
        allocation is not None
        and allocation.releasing
        and not allocation.overdue
        and allocation.releasing_ms + RELEASE_OVERDUE_MS == timer.at_ms
    ):
        fact = allocation.fact
        yield facts.ReleaseOverdue(
            fact.partition,
            fact.application_id,
            fact.allocation_key,
            fact.uuid,
            fact.node_id,
            allocation.releasing,
            allocation.releasing_ms,
        )


def queue_drain_overdue(state: State, partition: Partition, timer: Timer, now_ms: int) -> Iterator[Fact]:
    """Report a queue that still drains (001, Configuration updates). The next report comes when it has been draining
    for twice as long, after a day at the latest."""
    queue = partition.queues.get(timer.key)
    if queue is None or not queue.draining or queue.drain_report_ms != timer.at_ms:
        return
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


def reservation_over(
    state: State, partition: Partition, application: Application, timer: Timer, now_ms: int
) -> Iterator[Fact]:
    """Give up a reservation that has lasted for `timing.reservation_timeout`: others get the node, and the ask another
    one."""
    node = partition.nodes.get(timer.key)
    if node is not None and timer == of_reservation(partition.name, node, state.timing):
        lasted_ms = state.timing.reservation_timeout_ms
        yield from ended(partition, node, f"it was reserved for {lasted_ms / 1_000:.10g} s", timed_out=True)


def preemption_over(
    state: State, partition: Partition, application: Application, timer: Timer, now_ms: int
) -> Iterator[Fact]:
    """Give up a preemption whose ask was not allocated in RELEASE_OVERDUE_MS."""
    preemption = partition.preemptions.get((application.id, timer.key))
    if preemption is None or preemption.at_ms + RELEASE_OVERDUE_MS != timer.at_ms:
        return
    late = sum(1 for uuid in preemption.uuids if uuid in partition.allocations)
    what = f"{late} of {len(preemption.uuids)} releases have not come" if late else "the ask could not be allocated"
    node = preemption.node
    yield facts.PreemptionEnded(partition.name, application.id, timer.key, f"{what} in {RELEASE_OVERDUE_MS // 1_000} s")
    if node.reservation is preemption.pending:
        yield unreserved(partition, preemption.pending, node, "preemption has not helped")
