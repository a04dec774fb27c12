"""Bounds the registrations and deregistrations of one RM: how many at a time and how many a second. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remuda_bus.bus import Refused
from remuda_rmproxy import limits
from remuda_rmproxy.records.status_codes import TOO_MANY


class RegistrationLimiter:
    """`clock`: seconds, of any clock that does not jump."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._in_progress: Counter[str] = Counter()
        # Of each RM a token bucket: the tokens left, and when that was computed. The least recently used comes first.
        self._buckets: dict[str, tuple[float, float]] = {}

    @contextmanager
    def admit(self, rm_id: str) -> Iterator[None]:
        """Count a request as in progress inside of the block. Raises Refused 429."""
        if self._in_progress[rm_id] >= limits.REGISTRATIONS_AT_ONCE:
            in_progress = self._in_progress[rm_id]
            raise Refused(f"{in_progress} registrations of {rm_id[:64]!r} are being answered: wait", TOO_MANY)
        self._take_token(rm_id)
        self._in_progress[rm_id] += 1
        try:
            yield
        finally:
            self._in_progress[rm_id] -= 1
            if not self._in_progress[rm_id]:
                del self._in_progress[rm_id]

    def _take_token(self, rm_id: str) -> None:
        now = self._clock()
        tokens, computed_at = self._buckets.pop(rm_id, (float(limits.REGISTRATIONS_BURST), now))
        tokens = min(limits.REGISTRATIONS_BURST, tokens + (now - computed_at) * limits.REGISTRATIONS_PER_S)
        self._buckets[rm_id] = (max(0.0, tokens - 1), now)
        if len(self._buckets) > limits.RATES_TRACKED:
            del self._buckets[next(iter(self._buckets))]
        if tokens < 1:
            rate = f"expected at most {limits.REGISTRATIONS_PER_S:g} registrations a second"
            raise Refused(f"rmID {rm_id[:64]!r}: {rate}, try again later", TOO_MANY)
