"""ChangeAskPriority and ReleaseOneAllocation."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from remuda_proto.bounds import MESSAGE_BYTES, shortened, shown

from ... import facts
from ...actions import ChangeAskPriority, ReleaseOneAllocation
from ...commands import Administer
from ...cycle.release import release_requested
from ...facts import Fact
from ...state import Partition, State
from ..allocation import replacement_cancelled
from ..ask import release_reservations
from .problem import Problem, problems_of_access, running_application, why


def problems_of_priority(
    state: State, partition: Partition, command: Administer, action: ChangeAskPriority
) -> Iterator[Problem]:
    application = yield from running_application(partition, command, action.application_id)
    if application is None:
        return
    pending = application.asks.get(action.allocation_key)
    if pending is None:
        yield Problem(f"allocationKey {shown(action.allocation_key)} has no pending allocations")
    elif pending.ask.priority == action.priority:
        yield Problem(f"allocationKey {shown(action.allocation_key)} has priority {action.priority} already")


def change_ask_priority(
    state: State, partition: Partition, command: Administer, action: ChangeAskPriority, now_ms: int
) -> Iterator[Fact]:
    """As an update by the RM (section 8): the ask keeps its age; what is under way for it ends."""
    pending = partition.applications[action.application_id].asks[action.allocation_key]
    ask = replace(pending.ask, priority=action.priority, max_allocations=pending.pending + pending.asked)
    yield from release_reservations(partition, pending, "the priority of the ask was changed")
    yield facts.AskChanged(ask)


def problems_of_release(
    state: State, partition: Partition, command: Administer, action: ReleaseOneAllocation
) -> Iterator[Problem]:
    allocation = partition.allocations.get(action.uuid)
    if allocation is None:
        yield Problem(f"uuid {shown(action.uuid)} does not exist")
        return
    yield from problems_of_access(allocation.application.queue, command)
    if allocation.releasing and not allocation.overdue:
        yield Problem(f"uuid {shown(action.uuid)} is being released already")


def release_one_allocation(
    state: State, partition: Partition, command: Administer, action: ReleaseOneAllocation, now_ms: int
) -> Iterator[Fact]:
    """The RM is asked to release it, and it counts until the RM confirms (section 15)."""
    allocation = partition.allocations[action.uuid]
    reason = shortened(why(command, "released"), MESSAGE_BYTES)
    if allocation.replacement is not None:
        yield replacement_cancelled(allocation.replacement, reason)
    yield release_requested(allocation, facts.TIMEOUT, reason)
