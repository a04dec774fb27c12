"""What is to happen by itself, and when."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from ..limits import LEFTOVERS

# Longer than anything lasts.
NEVER_MS = 2**62


def after(at_ms: int, duration_ms: int) -> int:
    """When the duration is over. Durations come from outside: what lasts too long for int64 is never over."""
    return min(at_ms + duration_ms, NEVER_MS)


class Timer(NamedTuple):
    """Something is to happen to an application, or to what `key` names in it, unless it has changed by then."""

    at_ms: int
    kind: str
    partition: str
    application_id: str
    key: str


class Timers:
    """What is to happen by itself, and when (`timers`); whether it still means anything is found out when it is due
    (`decide.expire`). The timers follow from the facts, so they survive a restart. Many are set for the same
    millisecond: they are put in order when it comes, not before. They stay until the fact that time has passed."""

    def __init__(self) -> None:
        self._times: list[int] = []  # a heap
        # Of each time the timers, as plain tuples: quicker to make, and as keys the same.
        self._at: dict[int, dict[tuple[int, str, str, str, str], None]] = {}

    def set(self, at_ms: int, kind: str, partition: str, application_id: str, key: str = "") -> None:
        self.put(Timer(at_ms, kind, partition, application_id, key))

    def put(self, timer: Timer | None) -> None:
        if timer is not None:
            timers = self._at.get(timer[0])
            if timers is None:
                timers = self._at[timer[0]] = {}
                heappush(self._times, timer[0])
            timers[timer] = None

    def cancel(self, timer: Timer | None) -> None:
        """Nothing if it is not set."""
        if timer is None:
            return
        timers = self._at.get(timer.at_ms, {})
        timers.pop(timer, None)
        if not timers:
            self._at.pop(timer.at_ms, None)
            if len(self._times) > 2 * len(self._at) + LEFTOVERS:
                self._times = sorted(self._at)

    def next_ms(self) -> int | None:
        """When the earliest timer is due."""
        while self._times and self._times[0] not in self._at:
            heappop(self._times)
        return self._times[0] if self._times else None

    def due(self, now_ms: int) -> Iterator[Timer]:
        """The earliest first, also those that are set meanwhile; each is given out once, and none is taken out."""
        given: dict[tuple[int, str, str, str, str], None] = {}
        while batch := {a: None for at_ms in self._due_times(now_ms) for a in self._at[at_ms] if a not in given}:
            given.update(batch)
            yield from map(Timer._make, sorted(batch))

    def _due_times(self, now_ms: int) -> Iterator[int]:
        """Looks at no more of the heap than is due."""
        times, places = self._times, [0]
        while places:
            place = places.pop()
            if place < len(times) and times[place] <= now_ms:
                if times[place] in self._at:
                    yield times[place]
                places += (2 * place + 1, 2 * place + 2)

    def take_out(self, until_ms: int) -> None:
        """Those that were due by then."""
        while (at_ms := self.next_ms()) is not None and at_ms <= until_ms:
            del self._at[at_ms]

    def __iter__(self) -> Iterator[Timer]:
        """All that is set, in no order."""
        for timers in self._at.values():
            yield from map(Timer._make, timers)
