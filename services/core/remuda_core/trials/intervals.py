"""Intervals of forecasts that hold as often as they say (semantics section 22).

Samples of run times know nothing of later arrivals, and are too sure. So both ends of an interval are moved, in
logarithms, by what the last forecasts of its class would have needed: of those, a tenth lay below and a tenth above.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import ceil, exp, inf, log
from typing import Final, NamedTuple

# Waits of this many ms and less are one class, then the next.
CLASSES_MS: Final = (600_000, 3_600_000, 21_600_000)
# Resolved forecasts that count, and how many there must be.
KEPT: Final = 200
NEEDED: Final = 30
# Intervals that are counted, to say how many of them have held.
COUNTED: Final = 500
MINUTE_MS: Final = 60_000


class Interval(NamedTuple):
    """A forecast of a wait in ms: the median, and the ends between which four of five waits are. inf: not known."""

    median_ms: float
    below_ms: float
    above_ms: float


class Open(NamedTuple):
    """A forecast whose truth is not known yet. `raw`: the interval of the samples; `shown`: the one that was told."""

    raw: Interval
    shown: Interval


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of sorted values, so that a new value is below it with that probability at least."""
    return ordered[min(len(ordered) - 1, max(0, ceil(share * (len(ordered) + 1)) - 1))]


def raw_interval(waits_ms: Sequence[float], samples: int) -> Interval | None:
    """The interval of sorted sampled waits. A sample without a start lies above all others. None: more than half have
    no start."""
    ordered = [*waits_ms, *[inf] * (samples - len(waits_ms))]
    middle = (ordered[(samples - 1) // 2] + ordered[samples // 2]) / 2
    return Interval(middle, quantile(ordered, 0.1), quantile(ordered, 0.9)) if middle < inf else None


class Intervals:
    """The errors of forecasts whose truth is known, by class, and how many intervals have held of the last COUNTED."""

    def __init__(self) -> None:
        self.below = [deque[float](maxlen=KEPT) for _ in range(len(CLASSES_MS) + 1)]
        self.above = [deque[float](maxlen=KEPT) for _ in range(len(CLASSES_MS) + 1)]
        self.held = deque[bool](maxlen=COUNTED)
        # By how much the median was wrong, in ms, of the same forecasts.
        self.errors_ms = deque[float](maxlen=COUNTED)

    def widened(self, raw: Interval) -> Interval:
        """The interval to show for what the samples say."""
        kind = bisect_right(CLASSES_MS, raw.median_ms - 1)
        below, above = sorted(self.below[kind]), sorted(self.above[kind])
        if len(below) < NEEDED:
            return Interval(raw.median_ms, raw.below_ms / 3, 3 * raw.above_ms + CLASSES_MS[0])
        least = (raw.below_ms + MINUTE_MS) * exp(-quantile(below, 0.9)) - MINUTE_MS
        most = (raw.above_ms + MINUTE_MS) * exp(quantile(above, 0.9)) - MINUTE_MS
        least = max(0.0, least)
        return Interval(raw.median_ms, min(least, raw.median_ms), max(least, most, raw.median_ms))

    def resolve(self, one: Open, waited_ms: float) -> None:
        """Note how long the ask of a forecast has waited since."""
        raw, shown = one
        kind = bisect_right(CLASSES_MS, raw.median_ms - 1)
        if raw.above_ms < inf:
            self.below[kind].append(log((raw.below_ms + MINUTE_MS) / (waited_ms + MINUTE_MS)))
            self.above[kind].append(log((waited_ms + MINUTE_MS) / (raw.above_ms + MINUTE_MS)))
        self.errors_ms.append(abs(waited_ms - raw.median_ms))
        self.held.append(shown.below_ms <= waited_ms <= shown.above_ms)
