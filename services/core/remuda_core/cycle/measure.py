"""Measure what work on devices is like (semantics section 20): which shares are common, and how much CPU it uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..facts import Fact, WorkMeasured
from ..limits import ALLOCATIONS_MEASURED, MEASURE_AFTER_ALLOCATIONS, MEASURE_EVERY_MS
from ..rules.devices import DeviceNeed, needs
from ..rules.prices import CPU, common_work, differs
from ..state import Partition, State


def measure_work(state: State, partition: Partition, now_ms: int) -> Iterator[Fact]:
    """Measures the latest allocations at the end of a pass, if there are enough new ones."""
    prices, work = partition.prices, partition.work
    seen = work.allocations if work is not None else 0
    if (
        prices is None
        or state.next_allocation < seen + MEASURE_AFTER_ALLOCATIONS
        or now_ms < partition.measured_ms + MEASURE_EVERY_MS
    ):
        return
    shares, cpu = common_work(prices.unit, _latest(partition))
    if work is not None and shares == work.shares and not differs(work.cpu_of_device, cpu):
        cpu = work.cpu_of_device
    yield WorkMeasured(partition.name, prices.resource, shares, cpu, state.next_allocation)


def _latest(partition: Partition) -> Iterator[tuple[DeviceNeed, int]]:
    units = partition.settings.devices
    for allocation in islice(reversed(partition.allocations.values()), ALLOCATIONS_MEASURED):
        fact = allocation.fact
        for need in needs(units, fact.resource, fact.tags) if fact.devices else ():
            yield need, fact.resource.get(CPU, 0)
