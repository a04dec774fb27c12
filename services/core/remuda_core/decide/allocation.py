"""What several commands decide about applications and their allocations: recovery, release, and the states that
follow."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..cycle.states import occasion, start
from ..facts import Allocated, Fact
from ..rules import lifecycle
from ..rules.resource import items_of, problem_of
from ..state import Allocation, Application, Partition
from . import names


def recovered(partition: Partition, allocation: Allocated, now_ms: int) -> Iterator[Fact]:
    """Booked as it is. Its application goes on as if it had asked for it and been given it."""
    application = partition.applications[allocation.application_id]
    if application.state in (lifecycle.NEW, lifecycle.COMPLETING):
        yield from occasion(partition, application, lifecycle.RUN, now_ms)
    if application.state != lifecycle.RUNNING:
        yield from start(partition, application, now_ms)
    yield facts.AllocationRecovered(allocation)


def released(partition: Partition, allocation: Allocation, termination_type: int, message: str, now_ms: int, *,
             told: bool, node_removed: bool = False) -> Iterator[Fact]:  # fmt: skip
    """The allocation is free, and its application may have nothing left to do."""
    fact, application = allocation.fact, allocation.application
    yield facts.AllocationReleased(
        fact.partition,
        fact.application_id,
        fact.allocation_key,
        fact.uuid,
        fact.node_id,
        fact.resource,
        termination_type,
        message,
        told,
        node_removed,
    )
    yield from idle(partition, application, now_ms)


def release_requested(allocation: Allocation, termination_type: int, message: str) -> Fact:
    """The core wants it gone and asks the RM to end it; it counts until the RM confirms (semantics section 15)."""
    fact = allocation.fact
    return facts.ReleaseRequested(
        fact.partition, fact.application_id, fact.allocation_key, fact.uuid, termination_type, message
    )


def idle(partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    """No asks and no allocations left: it is completing (semantics section 7)."""
    if (
        not application.asks
        and not application.allocations
        and application.state not in (lifecycle.NEW, lifecycle.COMPLETING)
    ):
        yield from occasion(partition, application, lifecycle.COMPLETE, now_ms)


def problem_of_existing(partition: Partition, allocation: Allocated, also: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
    """Why an allocation that the RM reports cannot be booked; None if it can. `also`: UUIDs reported beside it."""
    if problem := names.problem_of("UUID", allocation.uuid) or names.problem_of(
        "allocationKey", allocation.allocation_key
    ):
        return problem
    if allocation.uuid in partition.allocations or allocation.uuid in also:
        return f"UUID {allocation.uuid!r} exists already"
    if problem := problem_of(allocation.resource, "resourcePerAlloc"):
        return problem
    if not items_of(allocation.resource):
        return "resourcePerAlloc is empty"
    application = partition.applications.get(allocation.application_id)
    if application is None or application.terminal:
        return f"application {allocation.application_id!r} does not exist"
    return None
