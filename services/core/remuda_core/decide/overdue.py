"""Releases that the RM was asked for and has not confirmed in time (semantics sections 13 and 15)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..cycle.reserve import unreserved
from ..facts import Fact
from ..limits import RELEASE_OVERDUE_MS
from ..state import Application, Partition, State, Timer


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
