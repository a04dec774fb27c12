"""Utilisation over time in bounded memory: every second sample is dropped when there are too many. Pure."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 4_000  # samples kept; a plot has fewer columns than that


class Samples:
    """Points (time, resource -> used part of the capacity, 0 to 1), in the order of time."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.shares: list[dict[str, float]] = []
        self._every = 1
        self._skipped = 0

    def add(self, time: float, shares: Mapping[str, float]) -> None:
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.times.append(time)
        self.shares.append(dict(shares))
        if len(self.times) > MOST:
            self.times, self.shares = self.times[::2], self.shares[::2]
            self._every *= 2

    def end(self, time: float) -> None:
        """Forgets what came later."""
        count = sum(at <= time for at in self.times)
        del self.times[count:], self.shares[count:]

    def resources(self) -> list[str]:
        """Returns the resources that were used at all."""
        names = {name for shares in self.shares for name, share in shares.items() if share > 0}
        return sorted(names, key=lambda name: ({"vcore": 0, "memory": 1, "gpu_milli": 2}.get(name, 3), name))

    def series(self, resource: str) -> list[float]:
        """Returns the used share of a resource over time, in percent."""
        return [100 * shares.get(resource, 0.0) for shares in self.shares]
