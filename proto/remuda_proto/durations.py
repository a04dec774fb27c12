"""The parsers of durations and of times: in `queues.yaml`, in `extraConfig`, in properties of queues, in attributes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

from remuda_proto.bounds import DURATION_CHARACTERS

# As refusals quote it.
EXPECTED: Final = "expected a duration of at least 1ms, such as 500ms, 30s, 1m30s"
EXPECTED_TIME: Final = "expected a time with its zone, such as 2027-03-01T08:00:00Z, or milliseconds since 1970"

_NUMBER_AND_UNIT: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_PART: Final = re.compile(_NUMBER_AND_UNIT, re.ASCII)
_DURATION: Final = re.compile(rf"\+?(?:0|(?:{_NUMBER_AND_UNIT})+)", re.ASCII)
# Both letters mu of Unicode: U+00B5 and U+03BC.
_UNIT_NS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9,
}  # fmt: skip
_MAX_NS: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT_DIGITS: Final = 15  # some 30,000 years


@lru_cache(maxsize=1_024)
def milliseconds(text: str) -> int | None:
    """Whole milliseconds of a duration, rounded down; None: the text is no duration.

    The grammar is that of Go's `time.ParseDuration`, without negative durations:

        duration = ["+"] ("0" | part {part})
        part     = number unit
        number   = digits ["." [digits]] | "." digits
        unit     = "ns" | "us" | "µs" | "ms" | "s" | "m" | "h"

    Units may repeat and stand in any order. Blanks are not allowed. The largest duration is 2^63 - 1 ns, some 292
    years.
    """
    if len(text) > DURATION_CHARACTERS or not _DURATION.fullmatch(text):
        return None
    total_ns = sum(Decimal(number) * _UNIT_NS[unit] for number, unit in _PART.findall(text))
    return int(total_ns // 10**6) if total_ns <= _MAX_NS else None


@lru_cache(maxsize=1_024)
def instant(text: str) -> int | None:
    """A time in ms since 1970, from these digits or from a time of RFC 3339 with its zone, rounded down. None: the text
    is neither, or names a time before 1970."""
    if text.isascii() and text.isdecimal():
        return int(text) or None if len(text) <= _INSTANT_DIGITS else None
    try:
        at = datetime.fromisoformat(text) if len(text) <= DURATION_CHARACTERS else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None or at <= _EPOCH:
        return None
    return (at - _EPOCH) // timedelta(milliseconds=1)
