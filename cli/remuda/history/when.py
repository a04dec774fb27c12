"""Times and commits as people write them: `12345`, `yesterday 14:00`, `2h`, `2026-11-28T14:00Z`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from remuda_proto.durations import milliseconds

from .past import At

EXPECTED = (
    "expected the sequence of a commit, or a time: 2026-11-28T14:00, 14:00, yesterday 14:00, or a duration before now "
    "such as 2h or 7d"
)
_CLOCK = re.compile(r"(?:(?P<day>today|yesterday)\s*)?(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?")
_DAYS = re.compile(r"(?P<days>\d+)d")
# More digits than a stream has sequences.
_LONGEST_SEQ = 18


def at_of(text: str, now: datetime) -> At:
    """`now`: with the time zone in which times without one are meant. A time of day without a day is the last one.
    Raises ValueError."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST_SEQ:
        return At(seq=int(text))
    return At(ms=_ms(_moment(text, now)))


def _moment(text: str, now: datetime) -> datetime:
    low = text.lower().removesuffix(" ago").removeprefix("-")
    if low in ("today", "yesterday"):
        low = f"{low} 00:00"
    if low == "now":
        return now
    try:
        if found := _CLOCK.fullmatch(low):
            clock = {name: int(found[name] or 0) for name in ("hour", "minute", "second")}
            moment = now.replace(**clock, microsecond=0)  # type: ignore[arg-type]
            back = found["day"] == "yesterday" or (found["day"] is None and moment > now)
            return moment - timedelta(days=1) if back else moment
        if found := _DAYS.fullmatch(low):
            return now - timedelta(days=int(found["days"]))
        if ms := milliseconds(low):
            return now - timedelta(milliseconds=ms)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"time {text[:64]!r}: {EXPECTED}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)


def _ms(moment: datetime) -> int:
    try:
        return int(moment.timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"time {moment.isoformat()}: {EXPECTED}") from None
