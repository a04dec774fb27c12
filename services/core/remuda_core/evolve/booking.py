"""Books what asks want and what they are allocated, in nodes, applications, queues and trackers.

allocated    sums of nodes, applications and queues up to root
accounts     the past use of queues, users and applications is brought up to date before their use changes
pending      sums of what asks want, and the highest priorities up to root
limits       in which trackers an application counts, and whether it counts as running
look-ups     lists that few RMs and queries need: built before their first use, and maintained by the facts that
             follow. They follow from the rest of the state, so neither a digest nor a snapshot has them
"""

from __future__ import annotations

from .. import facts, timeouts
from ..commands import ReleaseAsk
from ..limits import NAMES_KEPT, TASK_GROUPS_KEPT
from ..rules import lifecycle
from ..rules.limits import applying
from ..rules.properties import is_priority_fence, priority_offset
from ..rules.required_node import is_protected
from ..rules.resource import Resource, Sums, add, forget_zeros, raise_to, sums
from ..state import (
    Allocation,
    Application,
    Node,
    Partition,
    PendingAsk,
    PendingSum,
    Queue,
    Replacement,
    State,
    TaskGroup,
    Tracker,
    after,
)
from .budgets import commit


def allocation_comes(partition: Partition, allocation: Allocation) -> None:
    application, node, uuid = allocation.application, allocation.node, allocation.fact.uuid
    partition.allocations[uuid] = application.allocations[uuid] = node.allocations[uuid] = allocation
    node.allocations_left -= 1
    book_bound(allocation, 1)
    if application.queue.budgets:
        commit(allocation, 1)
    if application.by_key is not None:
        application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def book_bound(allocation: Allocation, times: int) -> None:
    """Count the allocation among those that stay on their node, if it is one of them."""
    if is_protected(allocation.fact.tags):
        add(allocation.node.bound, allocation.fact.resource, times)


def book_pending_as_allocated(partition: Partition, allocation: Allocation) -> None:
    """Book an allocation of an ask that was pending: `allocation_comes`, `book_pending` by -1 and `book_allocated` by 1
    in one loop over the amounts. Every allocation passes here, and the three calls take 3 % more instructions
    (cachegrind, bench/core.py "500 nodes")."""
    fact, application, node = allocation.fact, allocation.application, allocation.node
    uuid, resource, queue = fact.uuid, fact.resource, application.queue
    partition.allocations[uuid] = application.allocations[uuid] = node.allocations[uuid] = allocation
    node.allocations_left -= 1
    if fact.tags:
        book_bound(allocation, 1)
    if queue.budgets:
        commit(allocation, 1)
    if fact.devices:
        book_devices(node, fact, 1)
    if application.by_key is not None:
        application.by_key.setdefault(fact.allocation_key, {})[uuid] = allocation
    held = application.allocated_placeholder if fact.placeholder else application.allocated
    asked, on_node, sums_of_others = queue.asked, node.allocated, queue.ancestors_usage
    if application.accounts:
        sums_of_others = settle_accounts(application, allocation.at_ms)
    for name, amount in resource.items():
        asked[name] -= amount
        held[name] += amount
        on_node[name] += amount
        for allocated in sums_of_others:
            allocated[name] += amount
    if len(asked) > NAMES_KEPT:
        forget_zeros(asked, resource)
    if application.pending_sum is not None:
        book_pending_sum(application.pending_sum, resource, -1)
    if application.trackers:
        book(application, resource, 1)


def book_allocated(
    application: Application, node: Node, resource: Resource, times: int, now_ms: int, placeholder: bool = False
) -> None:
    held = application.allocated_placeholder if placeholder else application.allocated
    on_node, sums_of_others = node.allocated, application.queue.ancestors_usage
    if application.accounts:
        sums_of_others = settle_accounts(application, now_ms)
    for name, amount in resource.items():
        amount *= times
        held[name] += amount
        on_node[name] += amount
        for allocated in sums_of_others:
            allocated[name] += amount
    if len(application.queue.ancestors_usage[-1]) > NAMES_KEPT:
        for kept in (held, on_node, *sums_of_others):
            forget_zeros(kept, resource)
    if application.trackers:
        book(application, resource, times)


def settle_accounts(application: Application, now_ms: int) -> tuple[Sums, ...]:
    """Bring the accounts of the application up to date, before use changes. Returns the sums of its queues, and of its
    own account, in which the change has to be booked."""
    for account in application.accounts:
        if account.at_ms != now_ms:
            account.settle(now_ms)
    own = application.account
    return application.queue.ancestors_usage if own is None else (*application.queue.ancestors_usage, own.used)


def book_devices(node: Node, taken: facts.Allocated | facts.PredicateAsked, times: int) -> None:
    """Book an allocation, or room that is held for one, on its devices."""
    for resource, names in taken.devices.items():
        devices = node.devices.get(resource)
        if devices is not None:  # the resource still stands on devices
            devices.book(names, taken.resource.get(resource, 0), times)


def keep_peak(application: Application, placeholder: bool) -> None:
    """Note the peak of what the application holds, before an allocation goes. What it holds falls only then, so the
    peak is this or what it holds."""
    held = application.allocated_placeholder if placeholder else application.allocated
    if application.peak is None:
        application.peak = {}
    raise_to(application.peak, held)
    if len(application.peak) > NAMES_KEPT:
        application.peak = {name: amount for name, amount in application.peak.items() if held.get(name)}


def book_preempting(allocation: Allocation, times: int) -> None:
    for queue in allocation.application.queue.path_to_root:
        add(queue.preempting, allocation.fact.resource, times)


def book_arriving(replacement: Replacement, times: int) -> None:
    node = replacement.node
    node.allocations_left -= times
    book_devices(node, replacement.fact, times)
    for name, amount in replacement.fact.resource.items():
        node.allocated[name] += amount * times


def book_pending(application: Application, resource: Resource, times: int) -> None:
    asked = application.queue.asked
    for name, amount in resource.items():
        asked[name] += amount * times
    if len(asked) > NAMES_KEPT:
        forget_zeros(asked, resource)
    if application.pending_sum is not None:
        book_pending_sum(application.pending_sum, resource, times)


def book_pending_sum(kept: PendingSum, resource: Resource, times: int) -> None:
    kept.pieces += times
    for name, amount in resource.items():
        kept.amounts[name] += amount * times
    if len(kept.amounts) > NAMES_KEPT:
        forget_zeros(kept.amounts, resource)


def prioritise(application: Application, priority: int, by: int) -> None:
    """Count a pending ask of this priority that was added (by=1) or removed (by=-1), up to root."""
    lower = application.lower
    before = application.priority if application.foremost else None
    if priority == before:
        application.foremost += by
        if application.foremost:
            return
        if lower:
            application.priority = max(lower)
            application.foremost = lower.pop(application.priority)
        else:
            application.priority = 0
    elif before is not None and priority < before:
        lower[priority] = lower.get(priority, 0) + by
        if not lower[priority]:
            del lower[priority]
        return
    else:
        if before is not None:
            lower[before] = application.foremost
        application.priority, application.foremost = priority, by
    prioritise_queue(application.queue, before, application.priority if application.foremost else None)


def prioritise_queue(queue: Queue | None, before: int | None, now: int | None) -> None:
    """Follow the priority of a member of the queue, which changed from `before` to `now` (None: nothing pending)."""
    while queue is not None and before != now:
        counts = queue.priorities
        if before is None and now is not None and now in counts:  # others have it too: nothing changes above
            counts[now] += 1
            return
        if now is None and before is not None and counts[before] > 1:
            counts[before] -= 1
            return
        had = queue.priority if counts else None
        if before is not None:
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if now is not None:
            counts[now] = counts.get(now, 0) + 1
        queue.priority = mapped_priority(queue)
        before, now = had, queue.priority if counts else None
        queue = queue.parent


def mapped_priority(queue: Queue) -> int:
    """The highest priority below plus the queue's offset; with a fence only the offset (semantics section 9)."""
    if not queue.priorities:
        return 0
    offset = priority_offset(queue.settings.properties)
    if is_priority_fence(queue.settings.properties):
        return offset
    return max(-(2**31), min(2**31 - 1, max(queue.priorities) + offset))


def one_more_pending(pending: PendingAsk) -> None:
    application, before = pending.application, pending.pending
    pending.pending += 1
    pending.free += 1
    book_pending(application, pending.ask.resource, 1)
    if not before:
        prioritise(application, pending.ask.priority, 1)


def track(application: Application) -> None:
    """Count the application, and all it holds, in a tracker for each limit that applies to it."""
    path_to_root = application.queue.path_to_root
    found = []
    for level, kind, name, limit in applying(
        [queue.settings.limits for queue in path_to_root], application.user, application.groups
    ):
        trackers = path_to_root[level].trackers
        tracker = trackers.get((kind, name))
        if tracker is None:
            tracker = trackers[kind, name] = Tracker(path_to_root[level], kind, name, limit)
        tracker.members += 1
        tracker.running += application.counts_as_running
        found.append(tracker)
    application.trackers = tuple(found)
    application.application_limits = (
        *(queue for queue in path_to_root if queue.settings.max_applications),
        *(tracker for tracker in found if tracker.limit.max_applications),
    )
    book(application, application.allocated, 1)
    book(application, application.allocated_placeholder, 1)
    for tracker in found if application.held else ():
        _add_held(tracker.held, application.held, 1)


def untrack(application: Application) -> None:
    """Undo `track`. A tracker without members is removed."""
    book(application, application.allocated, -1)
    book(application, application.allocated_placeholder, -1)
    for tracker in application.trackers:
        _add_held(tracker.held, application.held, -1)
        tracker.members -= 1
        tracker.running -= application.counts_as_running
        if not tracker.members:
            del tracker.queue.trackers[tracker.kind, tracker.name]
    application.trackers = application.application_limits = ()


def track_again(queue: Queue) -> None:
    """Track the applications in and below the queue again, whose limits have changed. Trackers of other queues stay."""
    applications = [application for below in queue.below() for application in below.applications.values()]
    for application in applications:
        untrack(application)
    for application in applications:
        track(application)


def book(application: Application, resource: Resource, times: int) -> None:
    for tracker in application.trackers:
        used = tracker.used
        for name, amount in resource.items():
            used[name] += amount * times
        if len(used) > NAMES_KEPT:
            forget_zeros(used, resource)


def book_held(application: Application, resource: Resource, times: int) -> None:
    """Hold resources for an ask of the application, in each queue on its path to root and in its trackers."""
    for held in (application.held, *(queue.held for queue in application.queue.path_to_root)):
        _add_held(held, resource, times)
    for tracker in application.trackers:
        _add_held(tracker.held, resource, times)


def _add_held(held: dict[str, int], resource: Resource, times: int) -> None:
    """Add amounts. Names with amount 0 are removed, so that an empty map means that nothing is held."""
    for name, amount in resource.items():
        rest = held.pop(name, 0) + amount * times
        if rest:
            held[name] = rest


def count_running(application: Application, running: bool) -> None:
    """Count an application that starts, or ceases, to count as running."""
    by = running - application.counts_as_running
    application.counts_as_running = running
    for queue in application.queue.path_to_root:
        queue.running += by
    for tracker in application.trackers:
        tracker.running += by


def count_claims(application: Application, by: int) -> None:
    """Count reservations and open questions that were added (by > 0) or ended (by < 0). An application without
    allocations counts as running while it has open claims."""
    application.open_claims += by
    if by > 0 and not application.counts_as_running:
        count_running(application, True)
    elif (
        application.counts_as_running
        and application.state == lifecycle.ACCEPTED
        and not (application.open_claims or application.allocations)
    ):
        count_running(application, False)


def prepare_release(state: State, command: ReleaseAsk) -> None:
    """List what the release of one allocation key looks up. Without the lists the decision is the same, but has to look
    at all applications and all their allocations."""
    partition, key = state.partitions.get(command.partition), command.allocation_key
    if partition is None or not key:
        return
    if not command.application_id:
        partition.holders.list_keys(partition.applications)
    for application in partition.named(command.application_id, key):
        if key not in application.asks:
            list_by_key(application)


def list_by_key(application: Application) -> None:
    if application.by_key is None:
        application.by_key = {}
        for uuid, allocation in application.allocations.items():
            application.by_key.setdefault(allocation.fact.allocation_key, {})[uuid] = allocation


def sum_pending(application: Application) -> PendingSum:
    """The sum of the pending allocations of the application, for queries."""
    if application.pending_sum is None:
        application.pending_sum = PendingSum(sum(ask.pending for ask in application.asks.values()), sums())
        application.pending_sum.amounts.update(application.pending)
    return application.pending_sum


# Placeholders by task group


def placeholder_comes(state: State, partition: Partition, placeholder: Allocation) -> None:
    """Count an allocated placeholder. Unless it runs, this starts the timer of the application's placeholders."""
    application, fact = placeholder.application, placeholder.fact
    application.placeholders += 1
    if not state.timers.has(timeouts.of_placeholders(partition.name, application)):
        lasts_ms = (
            application.execution_timeout_ms if application.execution_timeout_ms > 0 else state.timing.placeholder_ms
        )
        application.placeholders_until_ms = after(state.now_ms, lasts_ms)
        state.timers.put(timeouts.of_placeholders(partition.name, application))
    group = task_group_of(state, partition, application, fact.task_group, fact.resource)
    group.placed += 1
    group.free.add_placeholder(placeholder)


def count_coming(application: Application, group: TaskGroup, by: int) -> None:
    """Count placeholders that are asked for and not allocated."""
    group.coming += by
    application.placeholders_coming += by


def end_without_placeholders(state: State, partition: Partition, application: Application) -> None:
    """Cancel the timer of the application's placeholders if none is left. While some are pending, real asks wait for
    them, so the timer has to run on."""
    if application.placeholders or not application.placeholders_until_ms:
        return
    timer = timeouts.of_placeholders(partition.name, application)
    if not application.placeholders_coming or not state.timers.has(timer):
        state.timers.cancel(timer)
        application.placeholders_until_ms = 0


def task_group_of(
    state: State, partition: Partition, application: Application, name: str, resource: Resource
) -> TaskGroup:
    """The task group, made if it is new. If there are many, each new one checks two others: those without placeholders
    are removed, the others move to the end."""
    groups = application.task_groups
    group = groups.get(name)
    if group is None:
        # The application is a gang now, so its time-out becomes that of its placeholders.
        state.timers.cancel(timeouts.of_execution(partition.name, application))
        for _ in range(2 if len(groups) >= TASK_GROUPS_KEPT else 0):
            oldest = groups.pop(next(iter(groups)))
            if oldest.placed or oldest.coming:
                groups[oldest.name] = oldest
        group = groups[name] = TaskGroup(name, resource)
    return group


def free_no_more(application: Application) -> None:
    """Let placeholders that the RM was asked to release not be replaced any more: the gang no longer resumes."""
    for group in application.task_groups.values():
        for placeholder in [each for each in group.free if each.releasing]:
            group.free.discard_placeholder(placeholder.fact.uuid)


def placeholder_goes(placeholder: Allocation, termination_type: int) -> None:
    """Follow a placeholder that the RM is asked to release. A real ask may still replace it if it goes because its gang
    resumes."""
    application = placeholder.application
    group = application.task_groups[placeholder.fact.task_group]
    if termination_type == facts.TIMEOUT and placeholder.releasing != facts.TIMEOUT:
        group.timed_out += 1
    if not may_be_replaced(application, termination_type):
        group.free.discard_placeholder(placeholder.fact.uuid)


def may_be_replaced(application: Application, releasing: int) -> bool:
    """Whether a real ask may replace a placeholder. `releasing`: why the RM was asked to release it; 0: it was not."""
    return not releasing or (releasing == facts.TIMEOUT and application.state == lifecycle.RESUMING)
