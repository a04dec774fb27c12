"""Budgets of queues: what their keys mean, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from remuda_config.calendars import EXPECTED_ZONE, offsets_of, zone_named
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
    if budget.timezone and zone_named(budget.timezone) is None:
        yield (*path, "timezone"), f"{shown(budget.timezone)} is unknown: {EXPECTED_ZONE}"
    elif budget.timezone and length_ms is not None:
        yield (*path, "timezone"), f"{shown(budget.timezone)}: expected none, as the period is a duration"


def build(budget: Budget | None) -> config_pb2.Budget | None:
    if budget is None:
        return None
    length_ms = milliseconds(budget.period)
    calendar = (budget.period or MONTH) if length_ms is None else ""
    name = (budget.timezone or UTC_NAME) if calendar else ""
    zone = zone_named(name) if name not in ("", UTC_NAME) else None
    return config_pb2.Budget(
        amounts=si.Resource(resources={name: si.Quantity(value=value) for name, value in budget.amounts.items()}),
        calendar=calendar, period_ms=length_ms or 0, zone=name, offsets=offsets_of(zone) if zone is not None else (),
    )  # fmt: skip
