"""Forecasts of when waiting asks start, in words."""

from __future__ import annotations

from remuda_operations.queries.rows import Forecast


def starts(one: Forecast, now_ms: float) -> tuple[str, str]:
    """When the ask starts in the middle, and between which times in four of five cases."""
    if one.unknown:
        return "unknown", one.unknown
    if not one.median_ms:
        return "later", "later than was played"
    until = span(one.until_ms - now_ms) if one.until_ms else "later than was played"
    return f"in {span(one.median_ms - now_ms)}", f"{span(one.from_ms - now_ms)} to {until}"


def sentence(one: Forecast, now_ms: float) -> str:
    """When the ask starts, with the interval, and how often such intervals have held. The web page writes the same
    (`format.js`)."""
    when, interval = starts(one, now_ms)
    if one.unknown:
        return f"start unknown: {one.unknown}"
    if not one.median_ms:
        return f"starts {interval}"
    return f"starts {when} (four of five times in {interval}; {held(one.held, one.of)})"


def held(held: int, of: int) -> str:
    if not of:
        return "how often such intervals hold is not known yet"
    return f"{100 * held / of:.0f} % of the last {of} such intervals have held"


def span(ms: float) -> str:
    """A time to come, in its two largest units: 40 min, 1 h 10 min. Of a time that is over: 0 s."""
    seconds = max(0, round(ms / 1_000))
    for size, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
