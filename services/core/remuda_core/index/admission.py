"""Which quota or limit keeps an ask from being allocated: limits on running applications, limits of users and groups,
and maxima of queues (semantics sections 5 and 9). Room on nodes is not looked at here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..rules.resource import Resource
from ..state import PendingAsk, Queue, Tracker

NOTHING_HELD: Final[Resource] = {}


def in_the_way(
    application_limits: Iterable[Queue | Tracker],
    trackers: Iterable[Tracker],
    resource: Resource,
    *,
    has_place: bool = False,
) -> Queue | Tracker | None:
    """The first application limit without a running slot, or the first tracker without room for the resource; None if
    there is neither. `has_place`: a place is held for the ask, so places that are held for others do not count.
    O(limits)."""
    for gate in application_limits:
        if not gate.has_running_slot():
            return gate
    for tracker in trackers:
        if not tracker.has_room(resource, NOTHING_HELD if has_place else tracker.held):
            return tracker
    return None


def held_queue(queue: Queue) -> Queue | None:
    """The first queue, from this one up, that an operator holds; None if there is none. O(depth)."""
    return next((above for above in queue.path_to_root if above.hold is not None), None)


def limit_of(pending: PendingAsk) -> Queue | Tracker | None:
    """The first limit, or held queue, that keeps the ask from being allocated; None if there is neither. Maxima of
    queues do not count."""
    application = pending.application
    held = held_queue(application.queue)
    if held is not None:
        return held
    application_limits = () if application.counts_as_running else application.application_limits
    return in_the_way(application_limits, application.trackers, pending.ask.resource, has_place=pending.has_place)


def full_queue(pending: PendingAsk) -> Queue | None:
    """The first queue, from the leaf up, whose maximum leaves the ask no room; None if all have room. Places that are
    held for other asks count as used, unless a place is held for this ask."""
    resource, path_to_root = pending.ask.resource, pending.application.queue.path_to_root
    for queue in path_to_root:
        held = NOTHING_HELD if pending.has_place else queue.held
        if exceeds(resource, queue.settings.max, queue.allocated, held):
            return queue
    return None


def exceeds(resource: Resource, most: Resource, used: Resource, held: Resource = NOTHING_HELD) -> bool:
    """Whether the resource is more than `most` leaves: most - used - held. Where that is negative, nothing fits,
    whatever it asks for. Resources that `most` does not name are not limited."""
    return any(resource.get(name, 0) > limit - used.get(name, 0) - held.get(name, 0) for name, limit in most.items())
