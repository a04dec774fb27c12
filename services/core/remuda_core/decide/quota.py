"""Quota preemption: a queue that uses more than its maximum gives back what is above it, after its delay (semantics
section 13).

A queue exceeds its maximum when a configuration or the tags of an application lower it, when the RM reports existing
allocations, and when an operator moves an application. Only these look for such queues, so others cost nothing.

The rules for victims are those of preemption, with one exception: what was placed by preemption is not spared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from typing import NamedTuple

from .. import facts
from ..cycle.place import release_requested
from ..cycle.victims import Shortfall, allocations_of, cheapness_by_priority, going, lessen, take
from ..facts import Fact
from ..limits import QUOTA_RETRY_MS, QUOTA_VICTIMS_PER_TICK, TICK_MS
from ..rules.connection import RUNNING
from ..rules.properties import is_exempt_from_preemption, quota_preemption_delay_ms
from ..rules.required_node import is_protected
from ..rules.resource import amounts_above, show
from ..state import Allocation, Partition, Queue, State, after


def settle_quotas(partition: Partition, queues: Iterable[Queue], now_ms: int) -> Iterator[Fact]:
    """Start the clocks of queues that exceed their maximum, start them again where the maximum or the delay has
    changed, and end those of queues that have nothing to give back."""
    for queue in queues:
        excess, maximum = queue.excess, queue.settings.max
        over = amounts_above(queue.allocated, maximum)
        delay_ms = delay_of(partition, queue) if over else 0
        if not delay_ms:
            if excess is not None:
                yield ended(partition, queue)
        elif excess is None or (excess.max, excess.delay_ms) != (maximum, delay_ms):
            still = excess is not None and amounts_above(queue.allocated, excess.max)
            since_ms = excess.since_ms if excess is not None and still else now_ms
            yield facts.QuotaExceeded(
                partition.name, queue.path, maximum, over, since_ms, delay_ms, after(now_ms, delay_ms)
            )


def booked_above_quotas(partition: Partition, queues: Iterable[Queue], fact: Fact, now_ms: int) -> Iterator[Fact]:
    """Yield a fact that books allocations in the queues whatever their maxima. A clock that is no longer needed ends
    before it, so that it does not count time within the maximum."""
    if not partition.settings.quota_preemption_enabled:
        yield fact
        return
    yield from settle_quotas(partition, queues, now_ms)
    yield fact
    yield from settle_quotas(partition, queues, now_ms)


def delay_of(partition: Partition, queue: Queue) -> int:
    """How long the queue keeps what is above its maximum, in ms. 0: for ever."""
    if not partition.settings.quota_preemption_enabled:
        return 0
    return quota_preemption_delay_ms(above.settings.properties for above in queue.path_to_root)


def ended(partition: Partition, queue: Queue) -> Fact:
    within = not amounts_above(queue.allocated, queue.settings.max)
    reason = "it is within its maximum" if within else "quota preemption is off for it"
    return facts.QuotaExcessEnded(partition.name, queue.path, reason)


def quota_due(state: State, partition: Partition, queue: Queue, now_ms: int) -> Iterator[Fact]:
    """Give back what a queue uses above its maximum, whose delay is over. Queues below it that are due come first:
    their releases count for it, too."""
    for below in reversed(list(queue.below())):
        if below.excess is not None and below.excess.preempt_at_ms <= now_ms:
            yield from give_back_excess(state, partition, below, now_ms)


def give_back_excess(state: State, partition: Partition, queue: Queue, now_ms: int) -> Iterator[Fact]:
    """Ask the RM to release what the queue uses above its maximum. Looks at the queue again later, until it is within
    its maximum."""
    over = amounts_above(queue.allocated, queue.settings.max)
    if not over:
        yield ended(partition, queue)
        return
    running = state.rm_state == RUNNING
    found = quota_victims(queue) if running else QuotaVictims([], over, cut=False)
    reason = _why_not_enough(found) if running else f"the resource manager is {state.rm_state}"
    uuids = tuple(victim.fact.uuid for victim in found.allocations)
    next_ms = now_ms + (TICK_MS if found.cut else QUOTA_RETRY_MS)
    yield facts.QuotaPreempted(partition.name, queue.path, over, uuids, reason, next_ms)
    for victim in found.allocations:
        yield release_requested(
            victim, facts.PREEMPTED_BY_SCHEDULER, f"preempted, as queue {queue.path} is above its maximum"
        )


def _why_not_enough(found: QuotaVictims) -> str:
    if found.cut:
        return f"{show(found.short)} more follow"
    return f"{show(found.short)} are protected by guaranteed resources or from preemption" if found.short else ""


# Victims


class QuotaVictims(NamedTuple):
    """The allocations that a queue gives back. `allocations`: the cheapest first, each of them needed. `short`: the
    amounts that the queue still uses above its maximum without them. `cut`: there are more victims than one tick may
    have."""

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
    """The candidates from a heap, as few of many are needed."""
    heap = [(cheapness_by_priority(allocation), allocation) for allocation in candidates]  # UUIDs make the keys unique
    heapify(heap)
    while heap:
        yield heappop(heap)[1]


def _guards(victim: Allocation, queue: Queue) -> tuple[Queue, ...]:
    """The queues that must keep their guaranteed: those of the victim up to the queue."""
    path = victim.application.queue.path_to_root
    return tuple(guard for guard in path[: path.index(queue) + 1] if guard.settings.guaranteed)


def _needed(chosen: list[Allocation], excess: Shortfall) -> list[Allocation]:
    """The chosen victims without those that the others make unnecessary, of which the most expensive go first."""
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
