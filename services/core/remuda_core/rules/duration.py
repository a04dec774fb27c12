"""Durations as a configuration writes them: `30s`, `1m30s`, `500ms`. The configuration service has checked the text."""

from __future__ import annotations

import re
from functools import lru_cache

PART = re.compile(r"([0-9]*\.?[0-9]*)(ns|us|µs|ms|s|m|h)")
UNIT_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "h": 3_600e3}


@lru_cache(maxsize=1_024)
def duration_ms(text: str, default_ms: int) -> int:
    """Whole milliseconds; the default where nothing, or no duration, is written."""
    parts = PART.findall(text)
    if not parts or any(number in ("", ".") for number, _ in parts):
        return default_ms
    return int(sum(float(number) * UNIT_MS[unit] for number, unit in parts))
