"""Which quota or limit keeps an ask from being allocated (semantics sections 5 and 9), and which limit blocks what.

Limits on running applications, limits of users and groups, and maxima of queues. Room on nodes is not looked at here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from ..rules.resource import Resource
from ..state import Application, PendingAsk, Queue, Tracker

# A limit of amounts: the maximum of a queue, or the limit of a user or group in a queue.
Limit: TypeAlias = Queue | Tracker
# A limit, or an application in whose turn others may not start.
BlockingLimit: TypeAlias = Queue | Tracker | Application

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


def limit_of(pending: PendingAsk, resource: Resource | None = None) -> Queue | Tracker | None:
    """The first limit, or held queue, that keeps the ask, or what its group wants together, from being allocated; None
    if there is neither. Maxima of queues do not count."""
    application = pending.application
    held = held_queue(application.queue)
    if held is not None:
        return held
    application_limits = () if application.counts_as_running else application.application_limits
    wanted = pending.ask.resource if resource is None else resource
    return in_the_way(application_limits, application.trackers, wanted, has_place=pending.has_place)


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


def limits_of(application: Application) -> tuple[Limit, ...]:
    """All queues and trackers in which the application counts, the leaf queue first."""
    return (*application.queue.path_to_root, *application.trackers)


def most_of(limit: Limit) -> Resource:
    """The amounts that the limit allows."""
    return limit.settings.max if isinstance(limit, Queue) else limit.limit.max_resources


def used_of(limit: Limit) -> Resource:
    """The amounts that are allocated under the limit."""
    return limit.allocated if isinstance(limit, Queue) else limit.used


W = TypeVar("W", bound=Hashable)


class BlockedBy(Generic[W]):
    """Which limit blocks which item, so that a limit that gains room or a slot finds all that it blocked.

    A limit blocks any number of items; an item is blocked by at most one limit. All methods are O(1), except for copies
    that they return."""

    __slots__ = ("_by_limit", "_limits")

    def __init__(self) -> None:
        self._limits: dict[W, BlockingLimit] = {}
        self._by_limit: dict[BlockingLimit, dict[W, None]] = {}

    def __contains__(self, who: W) -> bool:
        return who in self._limits

    def block(self, who: W, limit: BlockingLimit) -> None:
        self.unblock(who)
        self._limits[who] = limit
        self._by_limit.setdefault(limit, {})[who] = None

    def unblock(self, who: W) -> None:
        """Does nothing if the item is not blocked."""
        limit = self._limits.pop(who, None)
        if limit is not None:
            others = self._by_limit[limit]
            del others[who]
            if not others:
                del self._by_limit[limit]

    def blocked_at(self, limit: BlockingLimit) -> list[W]:
        """The items that the limit blocks, in the order in which they were blocked."""
        return list(self._by_limit.get(limit, ()))

    def limits(self) -> dict[W, BlockingLimit]:
        return self._limits
