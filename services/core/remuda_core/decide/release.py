"""ReleaseAllocation (000, AllocationRelease; semantics section 15): frees allocations at once. The release is
acknowledged unless the core has asked for it."""

from __future__ import annotations

from collections.abc import Iterator

from remuda_proto.bounds import MESSAGE_BYTES, shortened
from remuda_proto.guests import is_guest

from .. import facts
from ..commands import ReleaseAllocation, ReleaseAsk
from ..facts import Fact
from ..state import Allocation, Partition, RejectedAllocation, State
from . import names
from .allocation import rejection_over, released, replaced
from .ask import release_ask


def release_allocation(state: State, command: ReleaseAllocation, now_ms: int) -> Iterator[Fact]:
    partition = state.partitions.get(command.partition)
    allocations = find(partition, command) if partition is not None else []
    termination_type = facts.termination_type(command.termination_type)
    rejected = find_rejected(partition, command) if partition is not None and not allocations else []
    for one in rejected:
        assert partition is not None, "it has rejected allocations"
        yield rejection_over(partition, one, shortened(command.message, MESSAGE_BYTES) or "released by the RM")
    if partition is None or not allocations:
        withdrawn = list(withdraw_unplaced(state, partition, command, now_ms)) if partition is not None else []
        yield from withdrawn
        yield facts.ReleaseIgnored(
            names.identity(command.partition),
            names.identity(command.application_id),
            names.identity(command.allocation_key),
            names.identity(command.uuid),
            termination_type,
            "its ask is withdrawn"
            if withdrawn
            else "it was rejected before"
            if rejected
            else "there is no such allocation",
        )
        return
    for allocation in allocations:
        if termination_type == facts.PLACEHOLDER_REPLACED and allocation.replacement is not None:
            yield from replaced(partition, allocation.replacement, now_ms)
            continue
        reported = termination_type == facts.STOPPED_BY_RM or not allocation.releasing
        message = shortened(command.message, MESSAGE_BYTES) or "released by the RM"
        yield from released(partition, allocation, termination_type, message, now_ms, reported=reported)


def withdraw_unplaced(state: State, partition: Partition, command: ReleaseAllocation, now_ms: int) -> Iterator[Fact]:
    """RMs of 1.6 and later release an allocation by its key, placed or not."""
    if command.uuid or not command.allocation_key or not command.application_id or partition.yunikorn_1_4:
        return
    yield from release_ask(
        state,
        ReleaseAsk(
            command.partition, command.application_id, command.allocation_key, command.termination_type, command.message
        ),
        now_ms,
    )


def find_rejected(partition: Partition, command: ReleaseAllocation) -> list[RejectedAllocation]:
    """The rejected allocations that the command releases: reported with a node, and not booked, they occupy it until
    their release."""
    if command.uuid:
        return partition.rejected_allocations.named(command.uuid, command.application_id)
    if command.allocation_key and not partition.yunikorn_1_4:
        if not command.application_id:
            return partition.rejected_allocations.named(command.allocation_key, "")
        every = partition.rejected_allocations.of_application(command.application_id)
        return [one for one in every if one.fact.allocation_key == command.allocation_key]
    return partition.rejected_allocations.of_application(command.application_id)


def find(partition: Partition, command: ReleaseAllocation) -> list[Allocation]:
    """The allocations that the command names: by UUID, or all of an application, or those of an allocation key. A UUID
    alone finds none of a guest."""
    if command.uuid:
        allocation = partition.allocations.get(command.uuid)
        if allocation is None:
            return []
        application_id = allocation.application.id
        is_named = command.application_id == application_id or not (command.application_id or is_guest(application_id))
        return [allocation] if is_named else []
    application = partition.applications.get(command.application_id)
    if application is None:
        return []
    if command.allocation_key and not partition.yunikorn_1_4:
        return list(application.allocations_of(command.allocation_key))
    return list(application.allocations.values())
