"""Quota preemption: a queue that uses more than its maximum gives back what is above it, after its delay (semantics
section 13).

A queue exceeds its maximum when a configuration or the tags of an application lower it, when the RM reports existing
allocations, and when an operator moves an application. Only these look for such queues, so others cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import facts
from ..cycle.quota_victims import QuotaVictims, quota_victims
from ..cycle.release import release_requested
from ..facts import Fact
from ..limits import QUOTA_RETRY_MS, TICK_MS
from ..rules.connection import RUNNING
from ..rules.properties import quota_preemption_delay_ms
from ..rules.resource import amounts_above, show
from ..state import Partition, Queue, State, Timer, after


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
    """How long the queue keeps what is above its maximum, in ms; 0: for ever."""
    if not partition.settings.quota_preemption_enabled:
        return 0
    return quota_preemption_delay_ms(above.settings.properties for above in queue.path_to_root)


def ended(partition: Partition, queue: Queue) -> Fact:
    within = not amounts_above(queue.allocated, queue.settings.max)
    reason = "it is within its maximum" if within else "quota preemption is off for it"
    return facts.QuotaExcessEnded(partition.name, queue.path, reason)


def quota_due(state: State, partition: Partition, timer: Timer, now_ms: int) -> Iterator[Fact]:
    """The delay of a queue is over. Queues below it that are due come first: their releases count for it, too."""
    queue = partition.queues.get(timer.key)
    if queue is None or queue.excess is None or queue.excess.preempt_at_ms != timer.at_ms:
        return
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
