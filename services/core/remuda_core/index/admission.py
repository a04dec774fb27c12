"""May an application be given more, as far as the limits go that are neither a queue's maximum nor a node's room: how
many applications may run, and what users and groups may use (semantics sections 5 and 9)."""

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
    """The first gate without a slot or tracker without room; None if there is none. `has_place`: a place is kept for
    the ask, so what is kept for others does not count."""
    for gate in application_limits:
        if not gate.has_running_slot():
            return gate
    for tracker in trackers:
        if not tracker.has_room(resource, NOTHING_HELD if has_place else tracker.held):
            return tracker
    return None


def limit_of(pending: PendingAsk) -> Queue | Tracker | None:
    """What stands in the way of one ask."""
    application = pending.application
    application_limits = () if application.counts_as_running else application.application_limits
    return in_the_way(application_limits, application.trackers, pending.ask.resource, has_place=pending.has_place)


def full_queue(pending: PendingAsk) -> Queue | None:
    """The first on its way up whose maximum leaves the ask no room. What is kept for others leaves none either, unless
    a place is kept for the ask itself."""
    resource, path_to_root = pending.ask.resource, pending.application.queue.path_to_root
    for queue in path_to_root:
        held = NOTHING_HELD if pending.has_place else queue.held
        if exceeds(resource, queue.settings.max, queue.allocated, held):
            return queue
    return None


def exceeds(resource: Resource, most: Resource, used: Resource, held: Resource = NOTHING_HELD) -> bool:
    """What is left may be negative: then nothing fits, whatever it wants."""
    return any(resource.get(name, 0) > limit - used.get(name, 0) - held.get(name, 0) for name, limit in most.items())
