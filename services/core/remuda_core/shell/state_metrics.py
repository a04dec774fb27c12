"""Metrics of the states that this process answers queries about: resources of queues, pending allocations by reason,
nodes and applications by state. Measured every METRICS_S, by the core that stands by if there is one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from remuda_bus.metrics import rm_label

from .. import limits
from ..decide.names import plain
from ..rules.resource import Resource, add
from ..rules.share import dominant_share
from ..state import Partition, Queue, State, to_give_back
from . import metrics
from .budgets import part_used
from .rm_standby import RmStandby
from .topology import Standing, standing_of

# Gauges that are written anew each time, so that what has gone is gone.
_GAUGES = (
    metrics.QUEUE_RESOURCE, metrics.QUEUE_SHARE, metrics.PENDING, metrics.NODES, metrics.APPLICATIONS,
    metrics.ALLOCATIONS, metrics.DEVICES, metrics.DOMAINS, metrics.EMPTY_NODES, metrics.GROUPS_WAITING,
    metrics.BUDGET_USED,
)  # fmt: skip


async def measure_always(standbys: Mapping[str, RmStandby], is_ours: Callable[[str], bool]) -> None:
    """`is_ours`: this process answers queries about the RM."""
    while True:
        await asyncio.sleep(limits.METRICS_S)
        measure([one.core.state for rm_id, one in sorted(standbys.items()) if one.hot and is_ours(rm_id)])


def measure(states: list[State]) -> None:
    """The first METRIC_QUEUES queues have metrics, and METRIC_RESOURCES resources of each."""
    for one in _GAUGES:
        one.clear()
    queues = asks = 0
    for state in states:
        rm = rm_label(state.rm_id)
        allocations = metrics.ALLOCATIONS.labels(rm)
        allocations.inc(state.allocations)
        for partition in state.partitions.values():
            name = plain(partition.name)
            queues += _measure_queues(rm, name, partition, limits.METRIC_QUEUES - queues)
            asks += _measure_asks(rm, partition, limits.METRIC_ASKS - asks)
            _measure_rest(rm, partition)
            if partition.settings.devices or partition.settings.topology:
                _measure_placement(rm, name, standing_of(partition))


def _measure_queues(rm: str, name: str, partition: Partition, most: int) -> int:
    """Returns how many queues were measured."""
    pending = _pending(partition)
    measured = list(partition.queues.values())[: max(0, most)]
    for queue in measured:
        amounts: dict[str, Resource] = {
            "allocated": queue.allocated, "pending": pending.get(queue, {}), "preempting": queue.preempting,
            "guaranteed": queue.settings.guaranteed,
            "max": queue.settings.max if queue.parent is not None else {**partition.total, **queue.settings.max},
            "excess": to_give_back(queue),
        }  # fmt: skip
        for state, found in amounts.items():
            for resource in sorted(found)[: limits.METRIC_RESOURCES]:
                metrics.QUEUE_RESOURCE.labels(rm, name, queue.path, resource, state).inc(found[resource])
        share = dominant_share(queue.allocated, queue.due_of(partition.total))
        metrics.QUEUE_SHARE.labels(rm, name, queue.path).inc(share)
        for budget in queue.budgets[:1] if queue.settings.budget is not None else ():
            for resource in sorted(budget.amounts)[: limits.METRIC_RESOURCES]:
                metrics.BUDGET_USED.labels(rm, name, queue.path, resource).inc(part_used(budget, resource))
    return len(measured)


def _pending(partition: Partition) -> dict[Queue, dict[str, int]]:
    """The pending amounts of each queue with all queues below it: each queue is added to its parent once."""
    found: dict[Queue, dict[str, int]] = {}
    for queue in sorted(partition.queues.values(), key=lambda queue: -len(queue.path_to_root)):
        own = found.setdefault(queue, {})
        add(own, queue.asked)
        if queue.parent is not None:
            add(found.setdefault(queue.parent, {}), own)
    return found


def _measure_asks(rm: str, partition: Partition, most: int) -> int:
    """Pending allocations by the first reason that was reported. Returns how many asks were looked at."""
    reasons: Counter[str] = Counter()
    looked = 0
    for application in partition.applications.values():
        if not application.asks:
            continue
        if looked >= most:
            break
        # One ask stands for all equal ones of the application.
        last = "unreported"
        for ask in application.asks.values():
            looked += 1
            if ask.waiting:
                last = next(iter(ask.waiting))[0]
            reasons[last] += ask.pending
    for reason, pieces in reasons.items():
        metrics.PENDING.labels(rm, reason).inc(pieces)
    return looked


def _measure_rest(rm: str, partition: Partition) -> None:
    nodes = Counter(
        "draining"
        if node.draining
        else "reserved"
        if node.reservation or node.kept
        else "ready"
        if node.ready
        else "not_ready"
        for node in partition.nodes.values()
    )
    for state, count in nodes.items():
        metrics.NODES.labels(rm, state).inc(count)
    for state, count in Counter(application.state for application in partition.applications.values()).items():
        metrics.APPLICATIONS.labels(rm, state).inc(count)


def _measure_placement(rm: str, name: str, standing: Standing) -> None:
    for resource, sums in standing.all_nodes.devices.items():
        amounts = {
            "capacity": sums.capacity, "free": sums.free, "whole": sums.whole * sums.unit, "fragments": sums.fragments,
        }  # fmt: skip
        for state, amount in amounts.items():
            metrics.DEVICES.labels(rm, name, resource, state).inc(amount)
    counts: Counter[tuple[str, str]] = Counter()
    most: dict[str, int] = {}
    for one in standing.domains[1:]:
        level = standing.level_of(one.path)
        counts[level, "all"] += 1
        counts[level, "used"] += any(one.allocated.values())
        counts[level, "whole"] += one.empty == one.nodes
        most[level] = max(most.get(level, 0), one.empty)
    for (level, state), count in counts.items():
        metrics.DOMAINS.labels(rm, name, level, state).inc(count)
    for level, count in most.items():
        metrics.EMPTY_NODES.labels(rm, name, level).inc(count)
    for level, count in Counter(one.level for one in standing.waiting).items():
        metrics.GROUPS_WAITING.labels(rm, name, level).inc(count)
