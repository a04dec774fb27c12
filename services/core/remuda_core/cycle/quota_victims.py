"""Choose the allocations that a queue above its maximum gives back (semantics section 13).

The rules for victims are those of preemption, with one exception: what was placed by preemption is not spared. When a
queue gives something back is decided in `decide.quota`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from typing import NamedTuple

from ..limits import QUOTA_VICTIMS_PER_TICK
from ..rules.properties import is_exempt_from_preemption
from ..rules.required_node import is_protected
from ..rules.resource import amounts_above
from ..state import Allocation, Queue
from .victims import Shortfall, allocations_of, cheapness_by_priority, going, lessen, take


class QuotaVictims(NamedTuple):
    """`allocations`: the cheapest first, each of them needed. `short`: what the queue still uses above its maximum
    without them. `cut`: there are more than one tick may have."""

    allocations: list[Allocation]
    short: Shortfall
    cut: bool


def quota_victims(queue: Queue) -> QuotaVictims:
    """The victims in the queue and below. Releases under way count as done. O(allocations + victims · log)."""
    excess = amounts_above(queue.allocated, queue.settings.max)
    for leaf in queue.below():
        for allocation in going(allocations_of(leaf)):
            lessen(excess, allocation.fact.resource)
    if not excess:
        return QuotaVictims([], {}, cut=False)
    short, spare = dict(excess), dict[Queue, Shortfall]()
    chosen: list[Allocation] = []
    for victim in _cheapest_first(_candidates(queue)):
        if not short or len(chosen) == QUOTA_VICTIMS_PER_TICK:
            break
        resource = victim.fact.resource
        if any(resource.get(name) for name in short) and take(victim, _guards(victim, queue), spare):
            chosen.append(victim)
            lessen(short, resource)
    return QuotaVictims(_needed(chosen, excess), short, bool(short) and len(chosen) == QUOTA_VICTIMS_PER_TICK)


def _candidates(queue: Queue) -> Iterator[Allocation]:
    for leaf in queue.below():
        if not any(is_exempt_from_preemption(above.settings.properties) for above in leaf.path_to_root):
            for allocation in allocations_of(leaf):
                if not allocation.releasing and not is_protected(allocation.fact.tags):
                    yield allocation


def _cheapest_first(candidates: Iterable[Allocation]) -> Iterator[Allocation]:
    """A heap: few of many candidates are needed."""
    heap = [(cheapness_by_priority(allocation), allocation) for allocation in candidates]  # UUIDs make the keys unique
    heapify(heap)
    while heap:
        yield heappop(heap)[1]


def _guards(victim: Allocation, queue: Queue) -> tuple[Queue, ...]:
    """The queues that must keep their guaranteed: those of the victim up to the queue."""
    path = victim.application.queue.path_to_root
    return tuple(guard for guard in path[: path.index(queue) + 1] if guard.settings.guaranteed)


def _needed(chosen: list[Allocation], excess: Shortfall) -> list[Allocation]:
    """Without those, the most expensive first, that the others make unnecessary."""
    over = {name: -amount for name, amount in excess.items()}  # freed beyond what is needed
    for victim in chosen:
        for name in over:
            over[name] += victim.fact.resource.get(name, 0)
    needed = []
    for victim in reversed(chosen):
        amounts = {name: victim.fact.resource.get(name, 0) for name in over}
        if any(amount > max(0, over[name]) for name, amount in amounts.items()):
            needed.append(victim)
        else:
            for name, amount in amounts.items():
                over[name] -= amount
    return needed[::-1]
