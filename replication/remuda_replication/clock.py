"""The clock of a leader."""

from __future__ import annotations

from collections.abc import Callable

from remuda_bus import limits


class Clock:
    """Milliseconds since 1970 that never go back and never stop. If the wall clock is set back, or is behind the time
    in the log because the clock of another machine was ahead, time continues from there at the pace of `steady_s`, a
    monotonic clock in seconds. Otherwise no timer would be due until the wall clock has caught up."""

    def __init__(self, wall_ms: Callable[[], int], steady_s: Callable[[], float], not_before_ms: int) -> None:
        self._wall_ms = wall_ms
        self._steady_s = steady_s
        self._last_ms = float(max(wall_ms(), not_before_ms))
        self._at_s = steady_s()

    def now_ms(self) -> int:
        wall_ms, at_s = self._wall_ms(), self._steady_s()
        if self._last_ms - wall_ms > limits.CLOCKS_DIFFER_MS:
            self._last_ms += (at_s - self._at_s) * 1_000
        self._last_ms = max(self._last_ms, wall_ms)
        self._at_s = at_s
        return int(self._last_ms)
