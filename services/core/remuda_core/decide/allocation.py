"""Decisions about allocations that several commands share: recovery, release, and the states that follow."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from remuda_proto import bounds
from remuda_proto.bounds import TAGS, problem_of_map, shown

from .. import facts
from ..cycle.devices import of_running
from ..cycle.transitions import start, transition
from ..facts import Allocated, Fact
from ..limits import ALLOCATIONS_PER_NODE, ALLOCATIONS_PER_RM
from ..rules import lifecycle
from ..rules.devices import problem_of_tags
from ..rules.resource import Resource, items_of, problem_of_resource
from ..rules.runtime import bound_of_running
from ..state import Allocation, Application, Partition, RejectedAllocation, Replacement, State
from . import names
from .quota import booked_above_quotas


def existing_rejected(partition: Partition, node_id: str, allocation: Allocated, reason: str) -> Fact:
    """Reject an allocation that the RM reports with a node which exists by now. It runs there all the same."""
    uuid, application_id, key = map(
        names.identity, (allocation.uuid, allocation.application_id, allocation.allocation_key)
    )
    first = name = uuid or f"{application_id}/{key}"
    rejected, number = partition.nodes[node_id].rejected, 1
    while name in rejected:  # reported twice
        number += 1
        name = f"{first} {number}"
    fact = Allocated(
        partition.name, application_id, key, uuid, node_id, what_counts(partition, allocation.resource),
        allocation.priority, {} if problem_of_map("allocationTags", allocation.tags, TAGS) else allocation.tags,
        names.identity(allocation.task_group), allocation.placeholder,
    )  # fmt: skip
    return facts.ExistingAllocationRejected(fact, reason, name)


def what_counts(partition: Partition, resource: Resource) -> Resource:
    """The part of a reported resource that is valid."""
    valid = {
        name: amount
        for name, amount in resource.items()
        if amount and problem_of_resource({name: amount}, "resourcePerAlloc") is None
    }
    if partition.names.problem_of_new_names("resourcePerAlloc", valid) is None:
        return valid
    return {name: amount for name, amount in valid.items() if partition.names.knows({name: amount})}


def recovered_now(partition: Partition, application_id: str, now_ms: int) -> Iterator[Fact]:
    """The application is known now: book the allocations of it that were rejected before."""
    for one in partition.rejected_allocations.of_application(application_id):
        if problem_of_existing(partition, one.fact) is None:
            yield rejection_over(partition, one, "its application is known now")
            yield from recovered(partition, one.fact, now_ms)


def rejection_over(partition: Partition, one: RejectedAllocation, reason: str) -> Fact:
    """The rejected allocation occupies its node no more."""
    fact = one.fact
    return facts.RejectedAllocationForgotten(
        partition.name, fact.node_id, one.name, fact.application_id, fact.allocation_key, fact.resource, reason
    )


def recovered(partition: Partition, allocation: Allocated, now_ms: int) -> Iterator[Fact]:
    """Book an allocation that the RM reports. The application changes its state as if it had been scheduled."""
    node, application = partition.nodes[allocation.node_id], partition.applications[allocation.application_id]
    properties = [queue.settings.properties for queue in application.queue.path_to_root]
    if not allocation.placeholder and (bound_ms := bound_of_running(allocation.tags, application.tags, properties)):
        allocation = replace(allocation, execution_timeout_ms=bound_ms)
    if node.devices:
        allocation = replace(allocation, devices=of_running(partition, node, allocation))
    return booked(partition, allocation, facts.AllocationRecovered(allocation), now_ms)


def booked(partition: Partition, allocation: Allocated, fact: Fact, now_ms: int) -> Iterator[Fact]:
    """Book an allocation that runs already by `fact`, whatever the quotas."""
    application = partition.applications[allocation.application_id]
    if application.state in (lifecycle.NEW, lifecycle.COMPLETING):
        yield from transition(partition, application, lifecycle.RUN, now_ms)
    if application.state != lifecycle.RUNNING:
        yield from start(partition, application, now_ms, allocation)
    yield from booked_above_quotas(partition, application.queue.path_to_root, fact, now_ms)


def released(partition: Partition, allocation: Allocation, termination_type: int, message: str, now_ms: int, *,
             reported: bool, node_removed: bool = False) -> Iterator[Fact]:  # fmt: skip
    """Release an allocation. The state of the application may change with it. `reported`: the RM receives the
    release."""
    if allocation.replacement is not None:
        yield replacement_cancelled(allocation.replacement, message)
    yield freed(allocation, termination_type, message, reported=reported, node_removed=node_removed)
    yield from after_release(partition, allocation.application, allocation.fact.placeholder, now_ms)


def freed(
    allocation: Allocation, termination_type: int, message: str, *, reported: bool, node_removed: bool = False
) -> Fact:
    fact = allocation.fact
    return facts.AllocationReleased(
        *fact.ask_name, fact.uuid, fact.node_id, fact.resource, termination_type, message, reported, node_removed
    )


def after_release(partition: Partition, application: Application, placeholder: bool, now_ms: int) -> Iterator[Fact]:
    """The next state of an application after a release (semantics sections 7 and 12). An idle application is Completing
    even while it holds placeholders; a Completing one is Completed with the last of them."""
    state = application.state
    if state == lifecycle.FAILING:
        if not application.allocations:
            yield from transition(partition, application, lifecycle.FAIL, now_ms)
    elif state == lifecycle.RESUMING:
        if not application.placeholders:
            yield from transition(partition, application, lifecycle.RUN, now_ms)
    elif state != lifecycle.NEW and holds_only_placeholders(application):
        was_the_last = placeholder and not application.placeholders
        if was_the_last or (not placeholder and state != lifecycle.COMPLETING):
            yield from transition(partition, application, lifecycle.COMPLETE, now_ms)


def holds_only_placeholders(application: Application) -> bool:
    """Whether the application has no real allocations and no pending asks."""
    return (
        not application.asks
        and not application.replacements
        and len(application.allocations) == application.placeholders
    )


def replacement_cancelled(replacement: Replacement, reason: str) -> Fact:
    """Cancel a replacement. The ask is pending again; a release of the placeholder that was requested still happens."""
    fact = replacement.fact
    return facts.ReplacementCancelled(*fact.ask_name, fact.uuid, replacement.placeholder.fact.uuid, reason)


def replaced(partition: Partition, replacement: Replacement, now_ms: int) -> Iterator[Fact]:
    """Complete a replacement. It does not move the application to Starting or Running, even if it is its first real
    allocation. An application that was idle without it passes through Completing."""
    placeholder, application = replacement.placeholder.fact, replacement.fact.application_id
    gang = replacement.placeholder.application
    assert gang.id == application, "a placeholder is replaced by its application's own ask"
    others = len(gang.allocations) > gang.placeholders
    if gang.placeholders == 1:
        if gang.state == lifecycle.RESUMING:
            yield from transition(partition, gang, lifecycle.RUN, now_ms)
        elif not others and not gang.asks and len(gang.replacements) == 1:
            yield from transition(partition, gang, lifecycle.COMPLETE, now_ms)
    if others or gang.state == lifecycle.COMPLETING:
        yield from start(partition, gang, now_ms, replacement.fact)
    yield facts.PlaceholderReplaced(
        replacement.fact,
        placeholder.uuid,
        placeholder.allocation_key,
        placeholder.node_id,
        placeholder.resource,
    )


def idle(partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    """Move an application without asks and allocations to Completing (semantics section 7)."""
    if (
        not application.asks
        and not application.allocations
        and not application.replacements
        and application.state not in (lifecycle.NEW, lifecycle.COMPLETING)
    ):
        yield from transition(partition, application, lifecycle.COMPLETE, now_ms)


def problem_of_room(state: State, count: int) -> str | None:
    """Why `count` more allocations would be too many for the RM. None if they are not."""
    if count <= state.room:
        return None
    return f"the resource manager has {state.allocations} allocations, expected at most {ALLOCATIONS_PER_RM}"


def problem_of_existing(partition: Partition, allocation: Allocated) -> str | None:
    """Why a reported allocation cannot be booked; None if it can."""
    key, task_group = allocation.allocation_key, allocation.task_group
    if problem := bounds.problem_of_allocation(allocation.uuid, key, task_group, allocation.tags):
        return problem
    if allocation.uuid in partition.allocations:
        return f"UUID {shown(allocation.uuid)} exists already"
    if problem := problem_of_resource(allocation.resource, "resourcePerAlloc"):
        return problem
    if not items_of(allocation.resource):
        return "resourcePerAlloc is empty"
    if problem := partition.names.problem_of_new_names("resourcePerAlloc", allocation.resource):
        return problem
    node = partition.nodes.get(allocation.node_id)
    if node is not None and node.full:
        return f"node {shown(node.id)} has {len(node.allocations)} allocations, expected at most {ALLOCATIONS_PER_NODE}"
    if node is not None and node.devices:
        known = {name: devices.room for name, devices in node.devices.items()}
        if problem := problem_of_tags(known, allocation.resource, allocation.tags):
            return problem
    application = partition.applications.get(allocation.application_id)
    if application is None or application.terminal:
        return f"application {shown(allocation.application_id)} does not exist"
    return None
