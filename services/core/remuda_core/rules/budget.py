"""Budgets of queues: their periods, and what an ask would use of one (semantics section 25).

A budget bounds a sum of amount * time, in base units * ms, in each of its periods. Periods are those of a calendar
(days, weeks from Monday, months), or of a fixed length, counted from 1970. Days begin at midnight of the time zone of
the budget, which the configuration has expanded to offsets from UTC: the core knows no time zones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..settings import DAY, MONTH, WEEK, Budget
from .resource import Resource

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
# 1970 began with a Thursday.
_MONDAY: Final = 4

Cost = Mapping[str, int]
NO_COST: Final[Cost] = {}


class Period(NamedTuple):
    from_ms: int
    until_ms: int


def amounts_of(budget: Budget) -> dict[str, int]:
    """The amounts that may be used in a period, in base units * ms."""
    return {name: amount * HOUR_MS for name, amount in budget.amounts.items()}


def cost_of(resource: Resource, bound_ms: int) -> dict[str, int]:
    """The use of an allocation until its bound. Without a bound (0): the least there is, so that something has to be
    left."""
    lasts_ms = max(1, bound_ms)
    return {name: amount * lasts_ms for name, amount in resource.items() if amount > 0}


def period_at(budget: Budget, at_ms: int) -> Period:
    """The period in which the time lies."""
    if budget.period_ms:
        begin_ms = at_ms - at_ms % budget.period_ms
        return Period(begin_ms, begin_ms + budget.period_ms)
    day = (at_ms + _offset(budget, at_ms)) // DAY_MS
    # An offset that changes at midnight may place the time in a neighbour of the period that its date names.
    for date in (day, day - 1, day + 1):
        first, last = _days(budget.calendar, date)
        found = Period(_midnight(budget, first), _midnight(budget, last))
        if found.from_ms <= at_ms < found.until_ms:
            return found
    raise AssertionError(f"periods of {budget.calendar} leave out {at_ms}")


def _days(calendar: str, day: int) -> tuple[int, int]:
    """The first day of the period in which the day lies, and the first one after it, as days since 1970."""
    if calendar == DAY:
        return day, day + 1
    if calendar == WEEK:
        monday = day - (day - _MONDAY) % 7
        return monday, monday + 7
    assert calendar == MONTH, f"unknown calendar {calendar}"
    year, month = _month_of(day)
    return _first_of(year, month), _first_of(year + month // 12, month % 12 + 1)


def _midnight(budget: Budget, day: int) -> int:
    """When the day begins in the time zone of the budget, in ms."""
    local_ms = at_ms = day * DAY_MS
    for _ in range(2):  # the offset is that of the time itself, not of the same clock in UTC
        at_ms = local_ms - _offset(budget, at_ms)
    return at_ms


def _offset(budget: Budget, at_ms: int) -> int:
    place = bisect_right(budget.offsets, at_ms, key=lambda offset: offset.from_ms)
    return budget.offsets[place - 1].offset_ms if place else 0


def hours(cost: int) -> str:
    """An amount * ms for people, in hours: "12.5"."""
    whole, rest = divmod(cost, HOUR_MS)
    hundredths = rest * 100 // HOUR_MS
    return f"{whole}.{hundredths:02}".rstrip("0") if hundredths else str(whole)


def utc(at_ms: int) -> str:
    """A time for people: "2027-03-01 08:00 UTC"."""
    day, of_day = divmod(at_ms // 60_000, 24 * 60)
    year, month = _month_of(day)
    return f"{year:04}-{month:02}-{day - _first_of(year, month) + 1:02} {of_day // 60:02}:{of_day % 60:02} UTC"


# The calendar in integers, which are the same on every machine: days since 1970 from the civil date and back, by years
# that begin in March, so that the day of a leap year comes last.
_DAYS_400: Final = 146_097
_FROM_MARCH: Final = 719_468  # days from 1 March of year 0 to 1970


def _first_of(year: int, month: int) -> int:
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - _FROM_MARCH


def _month_of(day: int) -> tuple[int, int]:
    era, of_era = divmod(day + _FROM_MARCH, _DAYS_400)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // (_DAYS_400 - 1)) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153 + 3
    return era * 400 + years + (month > 12), (month - 1) % 12 + 1
