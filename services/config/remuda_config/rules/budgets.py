"""Budgets of queues: what their keys mean, and what is wrong with them.

The core knows no time zones. A zone becomes the moments at which its clocks change, in years that do not depend on when
the text is read: the same text always gives the same configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from remuda_config.problems import Finding, Path
from remuda_config.schema import Budget
from remuda_proto.bounds import shown
from remuda_proto.durations import milliseconds
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si

MONTH: Final = "month"
CALENDARS: Final = ("day", "week", MONTH)
UTC_NAME: Final = "UTC"
# A shorter period would keep the core busy beginning periods; a longer one would be no period.
SHORTEST_MS: Final = 60_000
LONGEST_MS: Final = 87_840 * 3_600_000
# The years in which clocks are known to change.
FIRST_YEAR: Final = 2020
LAST_YEAR: Final = 2060

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check(budget: Budget | None, path: Path, compatibility: str) -> Iterator[Finding]:
    if budget is None:
        return
    if compatibility != "none":
        yield path, f"compatibility: {compatibility} has no budgets"
    if not budget.amounts:
        yield (*path, "amounts"), "nothing: expected amounts of resources for a time, such as vcore: 1000h"
    length_ms = milliseconds(budget.period)
    if budget.period and budget.period not in CALENDARS and not SHORTEST_MS <= (length_ms or 0) <= LONGEST_MS:
        expected = f"expected {', '.join(CALENDARS)}, or a duration from 1m to 87840h"
        yield (*path, "period"), f"{shown(budget.period)}: {expected}"
    if budget.timezone and budget.timezone not in _zones():
        expected = "expected a name of the time zone database, such as Europe/Berlin"
        yield (*path, "timezone"), f"{shown(budget.timezone)} is unknown: {expected}"
    elif budget.timezone and length_ms is not None:
        yield (*path, "timezone"), f"{shown(budget.timezone)}: expected none, as the period is a duration"


def build(budget: Budget | None) -> config_pb2.Budget | None:
    if budget is None:
        return None
    length_ms = milliseconds(budget.period)
    calendar = (budget.period or MONTH) if length_ms is None else ""
    zone = (budget.timezone or UTC_NAME) if calendar else ""
    return config_pb2.Budget(
        amounts=si.Resource(resources={name: si.Quantity(value=value) for name, value in budget.amounts.items()}),
        calendar=calendar, period_ms=length_ms or 0, zone=zone,
        offsets=[config_pb2.UtcOffset(from_ms=from_ms, ahead_ms=ahead_ms) for from_ms, ahead_ms in _offsets(zone)],
    )  # fmt: skip


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=64)
def _offsets(zone: str) -> tuple[tuple[int, int], ...]:
    """(from when on, by how much) clocks of the zone are ahead of UTC, in ms. Empty: they show UTC."""
    if zone in ("", UTC_NAME):
        return ()
    clock, found = ZoneInfo(zone), list[tuple[int, int]]()
    at, ahead = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), timedelta()
    while at.year < LAST_YEAR:
        if (now := _ahead(clock, at)) != ahead:
            since = at if not found else _changed(clock, at - timedelta(days=1), at)
            found.append(((since - _EPOCH) // timedelta(milliseconds=1), now // timedelta(milliseconds=1)))
            ahead = now
        at += timedelta(days=1)
    if found and found[0][0] == (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1):
        found[0] = (0, found[0][1])
    return tuple(found)


def _ahead(clock: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(clock).utcoffset() or timedelta()


def _changed(clock: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second after `before` at which the clocks show what they show at `after`."""
    now, second = _ahead(clock, after), timedelta(seconds=1)
    while after - before > second:
        middle = before + (after - before) // second // 2 * second
        before, after = (before, middle) if _ahead(clock, middle) == now else (middle, after)
    return after
