"""Bounds the requests of one client: how many at a time and how many a second. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remuda_bus.bus import Refused
from remuda_rmproxy import limits
from remuda_rmproxy.records.status_codes import TOO_MANY


class RequestLimiter:
    """Bounds the requests of each client.

    `at_once` requests are in progress; `per_s` are admitted a second on average, and `burst` at once. `clock`: seconds,
    of any clock that does not jump. `requests`: the name of the requests in refusals.
    """

    def __init__(self, clock: Callable[[], float], requests: str, at_once: int, per_s: float, burst: int) -> None:
        self._clock = clock
        self._requests = requests
        self._at_once = at_once
        self._per_s = per_s
        self._burst = burst
        self._in_progress: Counter[str] = Counter()
        # Of each client a token bucket: the tokens left, and when that was computed. The least recently used comes
        # first.
        self._buckets: dict[str, tuple[float, float]] = {}

    @contextmanager
    def admit(self, client: str) -> Iterator[None]:
        """Counts a request as in progress inside of the block. Raises Refused 429."""
        if self._in_progress[client] >= self._at_once:
            in_progress = self._in_progress[client]
            raise Refused(f"{in_progress} {self._requests} of {client[:64]!r} are being answered: wait", TOO_MANY)
        self._take_token(client)
        self._in_progress[client] += 1
        try:
            yield
        finally:
            self._in_progress[client] -= 1
            if not self._in_progress[client]:
                del self._in_progress[client]

    def _take_token(self, client: str) -> None:
        now = self._clock()
        tokens, computed_at = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - computed_at) * self._per_s)
        self._buckets[client] = (max(0.0, tokens - 1), now)
        if len(self._buckets) > limits.RATES_TRACKED:
            del self._buckets[next(iter(self._buckets))]
        if tokens < 1:
            rate = f"expected at most {self._per_s:g} {self._requests} a second"
            raise Refused(f"{client[:64]!r}: {rate}, try again later", TOO_MANY)
