"""When the windows of a calendar come: times on a clock on the wall become times that need no time zone.

Zones are those of the package tzdata, and not of the machine. How far the clock of a zone is ahead of UTC goes into the
configuration, up to LAST_YEAR, so all that follows from it is the same wherever it is computed.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from remuda_proto.remuda.v1 import config_pb2

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EXPECTED_START: Final = "expected a date and a time, such as 2027-03-01 08:00, after 1970"
EXPECTED_TIME: Final = "expected a time of day, such as 18:00"
EXPECTED_DAY: Final = "expected a day, such as 2027-12-24"
EXPECTED_ZONE: Final = "expected the name of a time zone, such as Europe/Berlin"
# Behind it a clock stays as far ahead of UTC as it was at last.
LAST_YEAR: Final = 2060
FIRST_YEAR: Final = 2020

_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STEP: Final = timedelta(days=7)  # no zone changes its clock twice in a week
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def zone_named(name: str) -> ZoneInfo | None:
    """The zone; None: there is none of this name."""
    if not _ZONE.fullmatch(name):
        return None
    try:
        with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError):
        return None


def milliseconds_of(at: datetime) -> int:
    """The milliseconds from 1970 to this moment."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def instant_in(text: str, zone: ZoneInfo) -> int | None:
    """A time in ms since 1970: a date with a time, or a date, on the clock of the zone or with a zone of its own. None:
    the text is none, or names no time after 1970."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at_ms = milliseconds_of(at if at.tzinfo is not None else at.replace(tzinfo=zone))
    return at_ms if at_ms > 0 else None


def time_of_day(text: str) -> int | None:
    """Reads a time of day, in ms after midnight; None: it is none."""
    found = _TIME.fullmatch(text)
    return (int(found[1]) * 60 + int(found[2])) * 60_000 if found else None


def day_number(text: str) -> int | None:
    """Counted from 1970-01-01."""
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
    return (day - date(1970, 1, 1)).days if day is not None and day.year >= 1970 else None


@lru_cache(maxsize=256)
def offsets_of(zone: ZoneInfo) -> tuple[config_pb2.Offset, ...]:
    """How far the clock of the zone is ahead of UTC, from which times on."""
    at, end = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)
    now = _offset(at, zone)
    found = [config_pb2.Offset(from_ms=0, offset_ms=now)]
    while at < end:
        before, at = at, at + _STEP
        if (then := _offset(at, zone)) != now:
            found.append(
                config_pb2.Offset(from_ms=milliseconds_of(_first_with(then, before, at, zone)), offset_ms=then)
            )
            now = then
    return tuple(found)


def _first_with(offset_ms: int, before: datetime, at: datetime, zone: ZoneInfo) -> datetime:
    """The second of the change, behind `before`."""
    while at - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(at - before) // timedelta(seconds=2))
        if _offset(middle, zone) == offset_ms:
            at = middle
        else:
            before = middle
    return at


def _offset(at: datetime, zone: ZoneInfo) -> int:
    ahead = at.astimezone(zone).utcoffset()
    assert ahead is not None, "the zone is known"
    return ahead // timedelta(milliseconds=1)
