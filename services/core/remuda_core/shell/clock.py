"""The time of decisions."""

from __future__ import annotations

from collections.abc import Callable

from .. import limits


class Clock:
    """Milliseconds since 1970, of the wall clock, but never back, and never for long the same: where the wall clock was
    set back, or is behind what the log says, because another machine's was ahead, time goes on from there at its own
    pace. Otherwise no timer would be heard until the wall clock has caught up. `steady_s` is a clock nobody can set."""

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
