"""SubmitAsk, ReleaseAsk, RecoverAllocation (000, AllocationRequest; semantics section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from remuda_proto import bounds
from remuda_proto.bounds import MESSAGE_BYTES, shortened, shown
from remuda_proto.constants import FOREIGN_TAG

from .. import facts
from ..commands import RecoverAllocation, ReleaseAsk, SubmitAsk
from ..cycle.reserve import unreserved
from ..cycle.transitions import transition
from ..facts import Allocated, Ask, Fact
from ..limits import MAX_ALLOCATIONS
from ..rules import lifecycle
from ..rules.devices import problem_of_ask as problem_of_devices
from ..rules.resource import items_of, problem_of_resource
from ..rules.runtime import MOST, bound_of, duration_in
from ..rules.topology import problem_of_ask as problem_of_topology
from ..state import Allocation, Application, Node, Partition, PendingAsk, RejectedAllocation, State, after
from . import names
from .allocation import (
    existing_rejected,
    freed,
    idle,
    problem_of_existing,
    problem_of_room,
    recovered,
    rejection_over,
    replacement_cancelled,
)
from .quota import booked_above_quotas

FOREIGN: Final = "it is not the scheduler's"


def submit_ask(state: State, command: SubmitAsk, now_ms: int) -> Iterator[Fact]:
    ask = command.ask
    partition = state.partitions.get(ask.partition)
    application = partition.applications.get(ask.application_id) if partition is not None else None
    problem = command.refused or problem_of_ask(partition, application, ask)
    if problem is not None:
        rejected = facts.AllocationRejected if command.as_allocation else facts.AskRejected
        yield rejected(*names.identities(ask.name), problem)
        return
    assert partition is not None and application is not None, "problem_of_ask checks"
    ignored = ""
    properties = [queue.settings.properties for queue in application.queue.path_to_root if queue.settings.properties]
    if properties or ask.tags or application.tags:  # else its bound is its execution time-out
        bound_ms, ignored = bound_of(
            ask.execution_timeout_ms, ask.tags, application.tags, properties, placeholder=ask.placeholder
        )
        problem = problem_of_bound(application, ask, bound_ms, properties) if properties else None
        if problem is not None:
            rejected = facts.AllocationRejected if command.as_allocation else facts.AskRejected
            yield rejected(*ask.name, problem)
            return
        if bound_ms and bound_ms != ask.execution_timeout_ms:
            ask = replace(ask, execution_timeout_ms=bound_ms)
    if application.state in (lifecycle.NEW, lifecycle.COMPLETING):
        yield from transition(partition, application, lifecycle.RUN, now_ms)
    known = application.asks.get(ask.allocation_key)
    if known is not None:
        yield from release_reservations(partition, known, "the ask was changed")
        yield facts.AskChanged(ask, ignored)
    else:
        yield facts.AskAccepted(ask, ignored)


def problem_of_ask(partition: Partition | None, application: Application | None, ask: Ask) -> str | None:
    if problem := bounds.problem_of_ask(ask.allocation_key, ask.application_id, ask.task_group, ask.tags):
        return problem
    if partition is None:
        return f"partition {shown(names.plain(ask.partition))} does not exist"
    if application is None:
        return f"application {shown(ask.application_id)} does not exist"
    if application.terminal or application.state == lifecycle.FAILING:
        return f"application {shown(ask.application_id)} is {application.state}"
    if not 1 <= ask.max_allocations <= MAX_ALLOCATIONS:
        return f"maxAllocations={ask.max_allocations}, expected 1 or more"
    if not any(ask.resource.values()):
        return f"resourceAsk is {'zero' if ask.resource else 'empty'}"
    settings = partition.settings
    if problem := problem_of_resource(ask.resource, "resourceAsk"):
        return problem
    if settings.devices and (problem := problem_of_devices(settings.devices, ask.resource, ask.tags)):
        return problem
    if ask.tags or application.tags:
        return problem_of_topology(settings.topology, ask.tags, application.tags, ask.task_group, ask.max_allocations)
    return None


def problem_of_bound(
    application: Application, ask: Ask, bound_ms: int, properties: Iterable[Mapping[str, str]]
) -> str | None:
    """Why an ask is refused that may run longer than its queue allows; None if it may not. `properties`: of its queue
    and those above, nearest first."""
    most_ms = 0 if ask.placeholder else duration_in(properties, MOST)
    if not most_ms or 0 < bound_ms <= most_ms:
        return None
    runs = f"it may run for {bound_ms / 1000:.10g} s" if bound_ms else "it has no bound"
    return f"{runs}, expected at most {most_ms / 1000:.10g} s ({MOST} of queue {application.queue.path})"


def release_ask(state: State, command: ReleaseAsk, now_ms: int) -> Iterator[Fact]:
    """Releases of asks are not acknowledged; unknown ones are ignored."""
    partition = state.partitions.get(command.partition)
    if partition is None:
        return
    message, key = shortened(command.message, MESSAGE_BYTES), command.allocation_key
    termination_type = facts.termination_type(command.termination_type)
    for application in partition.named(command.application_id, key):
        replacements = application.replacements_by_key.get(key, {}) if key else application.replacements
        for replacement in list(replacements.values()):
            yield replacement_cancelled(replacement, message or "withdrawn by the RM")
        if key:
            asks = [a for a in (application.asks.get(key),) if a is not None]
            made: Iterable[Allocation] = () if asks else application.allocations_of(key)
        else:
            asks, made = list(application.asks.values()), application.allocations.values()
        over = keys_over(application, made)
        for pending in asks:
            yield from withdraw(partition, pending, termination_type, message)
        yield from asks_over(partition, application, over, termination_type, message)
        if asks:
            yield from idle(partition, application, now_ms)


def nothing_is_asked(
    partition: Partition, application: Application, termination_type: int, message: str
) -> Iterator[Fact]:
    """Withdraw all asks of the application, and cancel its replacements."""
    for replacement in list(application.replacements.values()):
        yield replacement_cancelled(replacement, message)
    over = keys_over(application, application.allocations.values())
    for pending in list(application.asks.values()):
        yield from withdraw(partition, pending, termination_type, message)
    yield from asks_over(partition, application, over, termination_type, message)


def withdraw(partition: Partition, pending: PendingAsk, termination_type: int, message: str) -> Iterator[Fact]:
    """Withdraw an ask together with its reservations."""
    yield from release_reservations(partition, pending, "the ask is gone")
    ask = pending.ask
    yield facts.AskReleased(*ask.name, termination_type, message, ask.resource, pending.pending + pending.asked)


def keys_over(application: Application, made: Iterable[Allocation]) -> list[str]:
    """Keys of the allocations `made` whose asks have nothing pending, and whose end was not reported to the RM."""
    if application.asks_over == len(application.allocations):
        return []
    keys = dict.fromkeys(
        allocation.fact.allocation_key for allocation in made if not (allocation.releasing or allocation.ask_over)
    )
    return [key for key in keys if key not in application.asks]


def asks_over(
    partition: Partition, application: Application, keys: Iterable[str], termination_type: int, message: str
) -> Iterator[Fact]:
    """Report asks without pending allocations as released, for RMs that keep asks as long as their allocations."""
    for key in keys:
        yield facts.AskReleased(partition.name, application.id, key, termination_type, message, {}, 0)


def release_reservations(partition: Partition, pending: PendingAsk, reason: str) -> Iterator[Fact]:
    for node_id in tuple(pending.reservations):
        yield unreserved(partition.nodes[node_id], reason)


def recover_allocation(state: State, command: RecoverAllocation, now_ms: int) -> Iterator[Fact]:
    """The RM reports a running allocation on a node that it has reported before. It is booked whatever the quotas."""
    allocation = command.allocation
    partition = state.partitions.get(allocation.partition)
    if partition is None:
        problem: str | None = f"partition {shown(names.plain(allocation.partition))} does not exist"
    elif allocation.node_id not in partition.nodes:
        problem = f"node {shown(allocation.node_id)} does not exist"
    elif is_foreign(partition, allocation):
        yield from foreign(state, partition, allocation)
        return
    else:
        allocation = with_uuid(partition, allocation)
        if (running := running_as(partition, allocation)) is not None:
            yield from resized(partition, running, allocation, now_ms)
            return
        problem = problem_of_room(state, 1) or command.refused or problem_of_existing(partition, allocation)
    if problem is not None:
        yield facts.AllocationRejected(*names.identities(allocation.ask_name), problem)
        return
    assert partition is not None, "checked above"
    if (one := rejected_before(partition.nodes[allocation.node_id], allocation)) is not None:
        yield rejection_over(partition, one, "it is reported again")
    yield from recovered(partition, allocation, now_ms)


def with_uuid(partition: Partition, allocation: Allocated) -> Allocated:
    """Returns the allocation with its key as its UUID if it has none: RMs of 1.6 and later know keys alone."""
    if allocation.uuid or partition.yunikorn_1_4:
        return allocation
    application = partition.applications.get(allocation.application_id)
    known = () if application is None else application.allocations_of(allocation.allocation_key)
    uuid = next((one.fact.uuid for one in known if one.fact.node_id == allocation.node_id), allocation.allocation_key)
    return replace(allocation, uuid=uuid)


def running_as(partition: Partition, allocation: Allocated) -> Allocation | None:
    """Returns the booked allocation that is reported with another size. None: it is not booked, or has this size."""
    known = partition.allocations.get(allocation.uuid)
    if known is None or partition.yunikorn_1_4 or known.releasing or known.replacement is not None:
        return None
    was, now = known.fact, allocation
    if (was.application_id, was.allocation_key, was.node_id) != (now.application_id, now.allocation_key, now.node_id):
        return None
    return known if items_of(was.resource) != items_of(now.resource) and not was.devices else None


def resized(partition: Partition, running: Allocation, allocation: Allocated, now_ms: int) -> Iterator[Fact]:
    """Book an allocation anew that runs on with another size, whatever the quotas. It ends when it was to end."""
    timeout_ms = running.fact.execution_timeout_ms
    left_ms = max(1, after(running.at_ms, timeout_ms) - now_ms) if timeout_ms > 0 else 0
    changed = replace(running.fact, resource=allocation.resource, execution_timeout_ms=left_ms)
    if problem := problem_of_size(partition, changed):
        yield facts.AllocationRejected(*changed.ask_name, problem)
        return
    yield freed(running, facts.STOPPED_BY_RM, "its size has changed", reported=False)
    yield from booked_above_quotas(
        partition, running.application.queue.path_to_root, facts.AllocationRecovered(changed), now_ms
    )


def problem_of_size(partition: Partition, changed: Allocated) -> str | None:
    """Returns why the new size cannot be booked; None if it can."""
    if problem := problem_of_resource(changed.resource, "resourcePerAlloc"):
        return problem
    if not items_of(changed.resource):
        return "resourcePerAlloc is empty"
    return partition.names.problem_of_new_names("resourcePerAlloc", changed.resource)


def is_foreign(partition: Partition, allocation: Allocated) -> bool:
    """Returns whether it is of no application, and something else runs it, as RMs report since 1.7."""
    return not allocation.application_id and FOREIGN_TAG in allocation.tags and not partition.yunikorn_1_4


def foreign(state: State, partition: Partition, allocation: Allocated) -> Iterator[Fact]:
    """The facts of a foreign allocation, which occupies its node until its release, like an allocation that cannot be
    booked."""
    node = partition.nodes[allocation.node_id]
    allocation = replace(allocation, uuid=allocation.uuid or allocation.allocation_key)
    one = node.rejected.get(allocation.uuid)
    problem = bounds.problem_of_name("allocationKey", allocation.allocation_key)
    if problem := problem or (problem_of_room(state, 1) if one is None else None):
        yield facts.AllocationRejected(partition.name, "", names.identity(allocation.allocation_key), problem)
        return
    if one is not None:
        yield rejection_over(partition, one, "it is reported again")
    yield existing_rejected(partition, node.id, allocation, FOREIGN)


def rejected_before(node: Node, allocation: Allocated) -> RejectedAllocation | None:
    """The allocation as it was reported and rejected with its node: by its UUID, else by application and key."""
    known = node.rejected.get(allocation.uuid)
    if known is not None or not node.rejected:
        return known
    what = allocation.application_id, allocation.allocation_key
    return next((r for r in node.rejected.values() if (r.fact.application_id, r.fact.allocation_key) == what), None)
