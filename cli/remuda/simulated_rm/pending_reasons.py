"""Reasons why asks of a simulated RM are pending, from the core's explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from remuda_bus.bus import Bus
from remuda_bus.status_codes import NOT_FOUND
from remuda_operations.queries import RequestRefused
from remuda_operations.queries import core as queries

from .. import limits
from ..show.wait_reasons import reasons_of
from .driver import Driver
from .rm_state import SentAsk

Alike = tuple[str, tuple[tuple[str, int], ...]]


async def by_reason(bus: Bus, driver: Driver) -> Counter[tuple[str, str]]:
    """Returns how many asks wait, by (application, reason).

    Of asks of one application and size only one is asked for: they wait for the same reason. An ask that the core
    neither allocates nor holds as pending is a fault in the rm_state.
    """
    reasons: Counter[tuple[str, str]] = Counter()
    for (application, _), keys in _alike(driver.rm_state.waiting.values()).items():
        reason = await _why(bus, driver, application, keys)
        left = sum(key in driver.rm_state.waiting for key in keys)
        if reason is not None:
            reasons[application, reason] += left
        elif left:
            driver.rm_state.faults.append(f"{left} asks of {application} are pending, and the core gives no reason")
    return reasons


async def why(bus: Bus, rm_id: str, application: str, key: str) -> str | None:
    """Returns the reason of one ask; None when the core does not hold it as pending, or does not have it yet."""
    try:
        found = await queries.explain(bus, rm_id, application, key)
    except RequestRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        return None
    return next((reasons_of(ask)[0] for ask in found.asks if ask.key == key and ask.pending), None)


async def _why(bus: Bus, driver: Driver, application: str, keys: list[str]) -> str | None:
    """Query the youngest ask: it is the last to be allocated."""
    waiting = driver.rm_state.waiting
    reason = await why(bus, driver.rm_id, application, keys[-1])
    if reason is None:
        await driver.until(lambda: keys[-1] not in waiting, limits.ON_ITS_WAY_S)
    return reason


def _alike(waiting: Iterable[SentAsk]) -> dict[Alike, list[str]]:
    """Keys by application and size, in the order they were sent."""
    groups: dict[Alike, list[str]] = {}
    for ask in waiting:
        groups.setdefault((ask.application, tuple(sorted(ask.resource.items()))), []).append(ask.key)
    return groups
