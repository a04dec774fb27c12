"""What of an RM's asks waits now, and why, as the core explains it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from remuda_bus.bus import Bus

from . import limits, queries
from .driver import Driver
from .ledger import Asked
from .reasons import of_ask

Alike = tuple[str, tuple[tuple[str, int], ...]]


async def by_reason(bus: Bus, driver: Driver) -> Counter[tuple[str, str]]:
    """How many asks by (application, reason). Of asks of one application and size only one is asked for: they wait for
    the same reason. What the core does not know as pending, and yet does not come, is a fault in the ledger."""
    reasons: Counter[tuple[str, str]] = Counter()
    for (application, _), keys in _alike(driver.ledger.waiting.values()).items():
        reason = await _why(bus, driver, application, keys)
        left = sum(key in driver.ledger.waiting for key in keys)
        if reason is not None:
            reasons[application, reason] += left
        elif left:
            driver.ledger.faults.append(f"{left} asks of {application} wait, and the core does not say why")
    return reasons


async def why(bus: Bus, rm_id: str, application: str, key: str) -> str | None:
    """The reason of one ask; None when the core does not hold it as pending."""
    found = await queries.explain(bus, rm_id, application, key)
    return next((of_ask(ask)[0] for ask in found.asks if ask.key == key and ask.pending), None)


async def _why(bus: Bus, driver: Driver, application: str, keys: list[str]) -> str | None:
    """The youngest is asked for: it is the last to be placed."""
    waiting = driver.ledger.waiting
    reason = await why(bus, driver.rm_id, application, keys[-1])
    if reason is None:
        await driver.until(lambda: keys[-1] not in waiting, limits.ON_ITS_WAY_S)
    return reason


def _alike(waiting: Iterable[Asked]) -> dict[Alike, list[str]]:
    """Keys by application and size, in the order they were sent."""
    groups: dict[Alike, list[str]] = {}
    for ask in waiting:
        groups.setdefault((ask.application, tuple(sorted(ask.resource.items()))), []).append(ask.key)
    return groups
