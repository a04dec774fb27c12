"""Which quota or limit keeps an ask from being allocated (semantics sections 5, 9 and 25), and which limit blocks what.

Limits on running applications, limits of users and groups, maxima of queues, and budgets. Room on nodes is not looked
at here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from ..costs import cost_of_ask, cost_together
from ..rules.budget import NO_COST, Cost
from ..rules.keyed import unlist
from ..rules.resource import Resource
from ..state import Application, Budget, PendingAsk, Queue, Tracker

# A limit of amounts: the maximum of a queue, the limit of a user or group in a queue, or a budget.
Limit: TypeAlias = Queue | Tracker | Budget
# A limit, or an application in whose turn others may not start.
BlockingLimit: TypeAlias = Queue | Tracker | Budget | Application

NOTHING_HELD: Final[Resource] = {}


def in_the_way(
    application_limits: Iterable[Queue | Tracker],
    trackers: Iterable[Tracker],
    resource: Resource,
    budgets: Iterable[Budget] = (),
    cost: Cost = NO_COST,
    *,
    has_place: bool = False,
) -> Limit | None:
    """The first application limit without a running slot, the first tracker without room for the resource, or the first
    budget without room for its cost; None if there is none. `has_place`: a place is held for the ask, so places that
    are held for others do not count. O(limits)."""
    for gate in application_limits:
        if not gate.has_running_slot():
            return gate
    for tracker in trackers:
        if exceeds(resource, tracker.limit.max_resources, tracker.used, NOTHING_HELD if has_place else tracker.held):
            return tracker
    for budget in budgets:
        if not budget.has_room(cost, NOTHING_HELD if has_place else budget.held):
            return budget
    return None


def held_queue(queue: Queue) -> Queue | None:
    """The first queue, from this one up, that an operator holds; None if there is none. O(depth)."""
    return next((above for above in queue.path_to_root if above.hold is not None), None)


def limit_of(pending: PendingAsk, resource: Resource | None = None, cost: Cost | None = None) -> Limit | None:
    """The first limit, or held queue, that keeps the ask, or what its group wants together and the cost of that, from
    being allocated; None if there is neither. Maxima of queues do not count."""
    application = pending.application
    held = held_queue(application.queue)
    if held is not None:
        return held
    application_limits = () if application.counts_as_running else application.application_limits
    wanted = pending.ask.resource if resource is None else resource
    budgets = application.queue.budgets
    if budgets and cost is None:
        cost = cost_of_ask(pending)
    has_place = pending.has_place
    return in_the_way(application_limits, application.trackers, wanted, budgets, cost or NO_COST, has_place=has_place)


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
    for name, limit in most.items():
        if resource.get(name, 0) > limit - used.get(name, 0) - (held.get(name, 0) if held else 0):
            return True
    return False


def limits_of(application: Application) -> tuple[Limit, ...]:
    """All queues, trackers and budgets in which the application counts, the leaf queue first."""
    return (*application.quotas, *application.queue.budgets)


def wanted_of(limit: Limit, pending: PendingAsk) -> Resource:
    """The amounts that an allocation of the ask takes under the limit; of a budget, its cost. A placeholder is admitted
    with its gang, and costs nothing more. They are the same as long as the ask is."""
    if not isinstance(limit, Budget):
        return pending.ask.resource
    return NO_COST if pending.ask.placeholder else cost_together({pending: 1})


def lacks_room(limit: Limit, wanted: Resource) -> bool:
    """Whether the limit leaves less than `wanted`, beside the resources that it holds for others."""
    if isinstance(limit, Budget):
        return not limit.has_room(wanted, limit.held)
    return exceeds(wanted, limit.most, limit.used, limit.held)


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
            unlist(self._by_limit, limit, who)

    def blocked_at(self, limit: BlockingLimit) -> list[W]:
        """The items that the limit blocks, in the order in which they were blocked."""
        return list(self._by_limit.get(limit, ()))

    def limits(self) -> dict[W, BlockingLimit]:
        return self._limits
