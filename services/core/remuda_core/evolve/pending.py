"""Sums of pending resources of applications and queues, and their highest priorities up to root."""

from __future__ import annotations

from ..limits import NAMES_KEPT
from ..rules.properties import is_priority_fence, priority_offset
from ..rules.resource import Resource, forget_zeros
from ..state import (
    Application,
    PendingAsk,
    PendingSum,
    Queue,
)


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
    """The priority of a member of the queue has changed from `before` to `now` (None: nothing pending)."""
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
