"""Choose victims: the allocations that are preempted for an ask (semantics section 13).

A victim is an allocation of no higher priority, in another leaf queue that uses more than its guaranteed, inside the
ask's nearest preemption fence. Victims have to make up for **shortfalls**: on the node, and in queues above the ask
that would exceed their maximum or their guaranteed with the ask. When and how often to try is decided in `preempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from ..facts import PREEMPTED_BY_SCHEDULER, TIMEOUT
from ..index.devices import free_without
from ..limits import PLACED_BY_PREEMPTION_MS, VICTIMS_PER_PLAN
from ..rules.devices import is_place, place_name, resource_of
from ..rules.properties import (
    is_exempt_from_preemption,
    is_preemption_fence,
    is_priority_fence,
    priority_offset,
    priority_seen_above,
)
from ..rules.required_node import is_protected
from ..rules.resource import Resource
from ..rules.topology import wish_of
from ..state import Allocation, Node, PendingAsk, Queue
from .devices import needs_on

Shortfall = dict[str, int]
ANY_PRIORITY = float("inf")


class QueueEligibility(msgspec.Struct, frozen=True):
    """Which allocations of a leaf queue may be preempted. `highest`: the highest priority of a victim. `guards`: queues
    that must keep their guaranteed. `within`: the first place in the ask's `path_to_root` whose queue contains the
    leaf."""

    highest: float
    guards: tuple[Queue, ...]
    within: int


def queue_eligibility(pending: PendingAsk, need: Resource, guaranteed_only: bool) -> dict[Queue, QueueEligibility]:
    """The eligibility of every leaf queue that may have victims for the ask, which needs so much. `guaranteed_only`:
    leaf queues without guaranteed on their path have none (semantics section 18). O(queues inside the fence)."""
    found: dict[Queue, QueueEligibility] = {}

    def descend(queue: Queue, highest: float, guards: tuple[Queue, ...], within: int) -> None:
        if not any(queue.allocated.values()) or not gives_up(queue, need):
            return
        properties = queue.settings.properties
        if is_exempt_from_preemption(properties):
            return
        offset = priority_offset(properties)
        if is_priority_fence(properties):
            if offset > highest:
                return
            highest = ANY_PRIORITY  # from outside, every priority below is the fence's offset
        else:
            highest -= offset
        if queue.settings.guaranteed:
            guards = (*guards, queue)
        if not queue.leaf:
            for child in queue.children.values():
                descend(child, highest, guards, within)
        elif not guaranteed_only or any(above.settings.guaranteed for above in queue.path_to_root):
            found[queue] = QueueEligibility(highest, guards, within)

    for place, priority, child in neighbours(pending):
        descend(child, priority, (), place)
    return found


def neighbours(pending: PendingAsk) -> Iterator[tuple[int, float, Queue]]:
    """The siblings of the ask's queues, up to its nearest preemption fence: (place in `path_to_root` of the parent they
    share, priority of the ask as that parent sees it, sibling). Offsets and fences on the way change the priority."""
    below: Queue | None = None
    priority = float(pending.ask.priority)
    for place, queue in enumerate(pending.application.queue.path_to_root):
        if below is not None:
            for child in queue.children.values():
                if child is not below:
                    yield place, priority, child
        properties = queue.settings.properties
        if is_preemption_fence(properties):
            return
        priority = priority_seen_above(properties, priority)
        below = queue


def gives_up(queue: Queue, need: Resource) -> bool:
    """Whether the queue uses more than its guaranteed of a resource that is needed."""
    guaranteed = queue.settings.guaranteed
    return any(
        name not in guaranteed or queue.allocated.get(name, 0) - queue.preempting.get(name, 0) > guaranteed[name]
        for name, amount in need.items()
        if amount
    )


def cheapness(victim: Allocation) -> tuple[bool, bool, int, bool, int, int, str]:
    """Sorts victims, the cheapest first: those that did not opt out of preemption, then those that are not the
    originator of their application, then those that are in no group that runs complete, then the youngest, by the age
    of their ask."""
    fact, complete = victim.fact, runs_complete(victim)
    return (not fact.allow_preempt_self, fact.originator, 0, complete, -victim.asked_seq, -victim.at_ms, fact.uuid)


# By which places for an ask are compared: whether a victim has opted out, whether one has started its application, how
# many there are, and whether one is in a group that runs complete.
Cost = tuple[bool, bool, int, bool]


def cost_of(victims: Collection[Allocation]) -> Cost:
    opted_out = any(not victim.fact.allow_preempt_self for victim in victims)
    originator = any(victim.fact.originator for victim in victims)
    return (opted_out, originator, len(victims), any(map(runs_complete, victims)))


def runs_complete(victim: Allocation) -> bool:
    """Whether the victim is a member of a group that starts as a whole, none of which is pending. O(asks of the
    application) for members of groups."""
    fact, application = victim.fact, victim.application
    if not fact.tags and not application.tags:
        return False
    wish = wish_of(fact.tags, application.tags, fact.task_group, fact.allocation_key)
    if wish is None or not wish.gang:
        return False
    others = (one.ask for one in application.asks.values())
    found = (wish_of(one.tags, application.tags, one.task_group, one.allocation_key) for one in others)
    return all(other is None or other.group != wish.group for other in found)


def cheapness_by_priority(victim: Allocation) -> tuple[bool, bool, int, bool, int, int, str]:
    """Sorts victims of all queues, as `cheapness`, but with the lowest priority before the youngest."""
    opted_out, originator, _, *age = cheapness(victim)
    return (opted_out, originator, victim.fact.priority, *age)  # type: ignore[return-value]


def shortfall_of(pending: PendingAsk, node: Node) -> Shortfall | None:
    """The resources that victims have to free on the node for the ask: empty if it fits, None if the node is too small.
    Resources that are overcommitted on the node count, too, as nothing fits there until they are not. So do devices,
    as `place_name`. Releases under way count as free."""
    need = pending.ask.resource
    capacity, occupied, allocated = node.capacity, node.occupied, node.allocated
    shortfall: Shortfall = {}
    for name, amount in need.items():
        room = capacity.get(name, 0) - occupied.get(name, 0) if occupied else capacity.get(name, 0)
        if amount > room:
            return None
        have = room - allocated.get(name, 0)
        if amount > have:
            shortfall[name] = amount - have
    for name, used in allocated.items():
        if name not in need and used > capacity.get(name, 0) - occupied.get(name, 0):
            shortfall[name] = used + occupied.get(name, 0) - capacity.get(name, 0)
    on_devices = device_shortfall(pending, node, ()) if node.devices else NOTHING
    if on_devices and not could_have_devices(pending, node):
        return None
    if shortfall or on_devices:
        leaving = list(going(node.allocations.values()))
        for allocation in leaving:
            lessen(shortfall, allocation.fact.resource)
        if on_devices:
            shortfall |= device_shortfall(pending, node, leaving)
    return shortfall


NOTHING: Final[Shortfall] = {}  # shared, never written to


def device_shortfall(pending: PendingAsk, node: Node, leaving: Iterable[Allocation]) -> Shortfall:
    """The amounts that the ask lacks on the last of the devices that it wants, once these allocations have left."""
    short: Shortfall = {}
    for need in needs_on(node, pending.ask.resource, pending.ask.tags):
        free = sorted(free_without(node.devices[need.resource], need.resource, leaving), reverse=True)
        have = free[need.devices - 1] if need.devices <= len(free) else 0
        if have < need.share:
            short[place_name(need.resource, need.devices)] = need.share - have
    return short


def could_have_devices(pending: PendingAsk, node: Node) -> bool:
    """Whether the ask would have its devices if nothing were on them."""
    return all(
        sum(room >= need.share and name not in devices.unfit for name, room in devices.room.items()) >= need.devices
        for need in needs_on(node, pending.ask.resource, pending.ask.tags)
        for devices in (node.devices[need.resource],)
    )


def going(allocations: Iterable[Allocation]) -> Iterator[Allocation]:
    """The allocations whose release, for a time-out or a preemption, is under way and not overdue."""
    for allocation in allocations:
        releasing = allocation.releasing
        if releasing and releasing in (TIMEOUT, PREEMPTED_BY_SCHEDULER) and not allocation.overdue:
            yield allocation


def lessen(shortfall: Shortfall, freed: Resource) -> None:
    for name, amount in freed.items():
        short = shortfall.get(name)
        if short is not None:
            if short > amount:
                shortfall[name] = short - amount
            else:
                del shortfall[name]


class VictimSearch:
    """The victims that the ask may have. `over`: the shortfalls of its queues by their place in its `path_to_root`."""

    def __init__(
        self,
        pending: PendingAsk,
        eligibility: Mapping[Queue, QueueEligibility],
        over: Mapping[int, Shortfall],
        now_ms: int,
        cheapness: Callable[[Allocation], tuple[Any, ...]] = cheapness,
    ) -> None:
        self.pending = pending
        self.eligibility = eligibility
        self.cheapness = cheapness
        self.over = over
        self._highest = {queue: its.highest for queue, its in eligibility.items()}
        self.now_ms = now_ms
        self._placed_after_ms = now_ms - PLACED_BY_PREEMPTION_MS
        self._anywhere: list[Allocation] | None = None

    def on(self, node: Node) -> list[Allocation]:
        return self._may_go(node.allocations.values())

    def _may_go(self, allocations: Iterable[Allocation]) -> list[Allocation]:
        highest, spared = self._highest, self.pending.spared
        return [
            a
            for a in allocations
            if a.fact.priority <= highest.get(a.application.queue, -ANY_PRIORITY)
            and not a.releasing
            and not (a.by_preemption and a.at_ms > self._placed_after_ms)
            and not is_protected(a.fact.tags)
            and not (spared and spared.get(a.fact.uuid, 0) > self.now_ms)
        ]

    def suffices(self, node: Node, shortfall: Shortfall, victims: Iterable[Allocation]) -> bool:
        """Whether these victims make up for all shortfalls."""
        shortfall, over = dict(shortfall), {place: dict(short) for place, short in self.over.items()}
        victims = list(victims)
        for victim in victims:
            if victim.node is node:
                lessen(shortfall, victim.fact.resource)
            self._lessen_over(over, victim)
        self._lessen_on_devices(node, shortfall, victims)
        return not shortfall and not any(over.values())

    def choose(self, node: Node, shortfall: Shortfall, candidates: list[Allocation]) -> list[Allocation] | None:
        """The victims if the ask is placed on this node, the cheapest first; None if the candidates do not suffice.
        Each victim is needed. Greedy: the cheapest first, and if that is not enough, the largest first. A set that only
        an exhaustive search finds is not found. O(n log n) of the candidates."""
        chosen = self._collect(node, shortfall, sorted(candidates, key=self._order))
        if chosen is None and len(candidates) > 1:
            chosen = self._collect(
                node, shortfall, sorted(candidates, key=lambda a: (-_part_of(a, shortfall), self._order(a)))
            )
        if chosen is None:
            return None
        for victim in sorted(
            chosen, key=self.cheapness, reverse=True
        ):  # drop the most expensive ones that are not needed
            rest = [other for other in chosen if other is not victim]
            if self.suffices(node, shortfall, rest):
                chosen = rest
        return sorted(chosen, key=self.cheapness)

    def _order(self, victim: Allocation) -> tuple[object, ...]:
        """By cheapness, but of those with equal opt-out and originator, those first that also help the queues."""
        opted_out, originator, *age = self.cheapness(victim)
        return (opted_out, originator, not self._helps_queues(victim, self.over), *age)

    def _collect(self, node: Node, shortfall: Shortfall, on_node: list[Allocation]) -> list[Allocation] | None:
        shortfall, over = dict(shortfall), {place: dict(short) for place, short in self.over.items()}
        spare: dict[Queue, Shortfall] = {}
        taken: dict[Allocation, None] = {}
        for victim in on_node:
            if not shortfall:
                break
            resource = victim.fact.resource
            if helps(victim, shortfall) and take(victim, self.guards_of(victim), spare):
                taken[victim] = None
                lessen(shortfall, resource)
                self._lessen_over(over, victim)
                self._lessen_on_devices(node, shortfall, taken)
        if shortfall:
            return None
        for victim in self._elsewhere() if any(over.values()) else ():
            if len(taken) >= VICTIMS_PER_PLAN or not any(over.values()):
                break
            if victim not in taken and self._helps_queues(victim, over) and take(victim, self.guards_of(victim), spare):
                taken[victim] = None
                self._lessen_over(over, victim)
        return list(taken) if len(taken) <= VICTIMS_PER_PLAN and not any(over.values()) else None

    def elsewhere_for(self, chosen: Iterable[Allocation], guards: Guards) -> list[Allocation] | None:
        """The further victims, on any node, that the queues need; None if there are too few."""
        over = {place: dict(short) for place, short in self.over.items()}
        known, found = dict.fromkeys(chosen), list[Allocation]()
        for victim in known:
            self._lessen_over(over, victim)
        for victim in self._elsewhere() if any(over.values()) else ():
            if not any(over.values()):
                break
            if victim not in known and self._helps_queues(victim, over) and guards.allow((victim,)):
                guards.take((victim,))
                found.append(victim)
                self._lessen_over(over, victim)
        return None if any(over.values()) else found

    def frees_queues(self, victims: Iterable[Allocation]) -> bool:
        """Whether these victims make up for the shortfalls of the queues."""
        over = {place: dict(short) for place, short in self.over.items()}
        for victim in victims:
            self._lessen_over(over, victim)
        return not any(over.values())

    def _helps_queues(self, victim: Allocation, over: Mapping[int, Shortfall]) -> bool:
        within = self.eligibility[victim.application.queue].within
        return any(
            place >= within and any(victim.fact.resource.get(name) for name in short) for place, short in over.items()
        )

    def _lessen_over(self, over: Mapping[int, Shortfall], victim: Allocation) -> None:
        if over:
            within = self.eligibility[victim.application.queue].within
            for place, short in over.items():
                if place >= within:
                    lessen(short, victim.fact.resource)

    def _lessen_on_devices(self, node: Node, shortfall: Shortfall, victims: Iterable[Allocation]) -> None:
        """Lessen the shortfall on devices to the amounts that the ask lacks without these victims and the allocations
        that leave anyway."""
        places = [name for name in shortfall if is_place(name)]
        if places:
            leaving = (*going(node.allocations.values()), *(victim for victim in victims if victim.node is node))
            short = device_shortfall(self.pending, node, leaving)
            for name in places:
                if name in short:
                    shortfall[name] = short[name]
                else:
                    del shortfall[name]

    def guards_of(self, victim: Allocation) -> tuple[Queue, ...]:
        return self.eligibility[victim.application.queue].guards

    def _elsewhere(self) -> list[Allocation]:
        """Victims on any node, the cheapest first; at most VICTIMS_PER_PLAN of each queue."""
        if self._anywhere is None:
            self._anywhere = sorted(
                (
                    victim
                    for queue, eligibility in self.eligibility.items()
                    if any(place >= eligibility.within for place in self.over)
                    for victim in nsmallest(VICTIMS_PER_PLAN, self._may_go(allocations_of(queue)), key=self.cheapness)
                ),
                key=self.cheapness,
            )
        return self._anywhere


class Guards:
    """How much the queues of victims may lose before one falls below its guaranteed, as victims of many nodes are
    taken."""

    def __init__(self, search: VictimSearch, spare: Mapping[Queue, Shortfall] | None = None) -> None:
        self._search = search
        self._spare = {queue: dict(left) for queue, left in (spare or {}).items()}

    def copy(self) -> Guards:
        return Guards(self._search, self._spare)

    def allow(self, victims: Iterable[Allocation]) -> bool:
        """Whether all of the victims may be taken."""
        trial = self.copy()._spare
        return all(take(victim, self._search.guards_of(victim), trial) for victim in victims)

    def take(self, victims: Iterable[Allocation]) -> None:
        for victim in victims:
            take(victim, self._search.guards_of(victim), self._spare)


def take(victim: Allocation, guards: tuple[Queue, ...], spare: dict[Queue, Shortfall]) -> bool:
    """Take the victim, unless that takes one of the guards below its guaranteed. `spare`: what each has above it."""
    if not guards:
        return True
    amounts = [(name, amount) for name, amount in victim.fact.resource.items() if amount]
    for queue in guards:
        left = spare.get(queue)
        if left is None:
            left = spare[queue] = {
                name: queue.allocated.get(name, 0) - queue.preempting.get(name, 0) - due
                for name, due in queue.settings.guaranteed.items()
            }
        if any(left.get(name, amount) < amount for name, amount in amounts):
            return False
    for queue in guards:
        left = spare[queue]
        for name, amount in amounts:
            if name in left:
                left[name] -= amount
    return True


def allocations_of(queue: Queue) -> Iterator[Allocation]:
    """The allocations of a leaf queue."""
    for application in queue.applications.values():
        yield from application.allocations.values()


def helps(victim: Allocation, shortfall: Shortfall) -> bool:
    """Whether the victim frees something of what is short, also on a device."""
    resource, devices = victim.fact.resource, victim.fact.devices
    return any(resource.get(name) for name in shortfall) or any(
        is_place(name) and resource_of(name) in devices for name in shortfall if devices
    )


def _part_of(victim: Allocation, shortfall: Shortfall) -> float:
    """How much of the shortfall the victim makes up for: the sum of the parts of each resource, each at most 1. What it
    frees of devices counts as if it were on one that is wanted."""
    resource = victim.fact.resource
    return sum(min(1.0, resource.get(resource_of(name), 0) / short) for name, short in shortfall.items())
