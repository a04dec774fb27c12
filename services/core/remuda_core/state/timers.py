"""Timers: when something happens to an application without a request."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from ..limits import LEFTOVERS

# In milliseconds since 1970; later than any time that occurs.
NEVER_MS = 2**62
# In place of the time at which an allocation ends by its bound: it has none.
UNBOUNDED = -1


def after(at_ms: int, duration_ms: int) -> int:
    """The time at which a duration ends, NEVER_MS at most: RMs choose durations, and the sum has to fit int64."""
    return min(at_ms + duration_ms, NEVER_MS)


class Timer(NamedTuple):
    """Something that happens at `at_ms` to an application, or to what `key` names in it, unless that has changed by
    then; or to the queue or node `key`, where `application_id` is empty. `kind` selects the function of `decide.expire`
    that handles it."""

    at_ms: int
    kind: str
    partition: str
    application_id: str
    key: str


class Timers:
    """The timers of one RM. They follow from facts, so they survive a restart. A due timer stays until the fact
    TimePassed; `decide.expire` finds out whether it still applies. Timers of the same millisecond are sorted only when
    they are due."""

    def __init__(self) -> None:
        self._times: list[int] = []  # a heap
        # By time. Plain tuples, which are faster to create than Timer and equal to it as keys.
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
        """Does nothing if it is not set."""
        if timer is None:
            return
        timers = self._at.get(timer.at_ms, {})
        timers.pop(timer, None)
        if not timers:
            self._at.pop(timer.at_ms, None)
            self._drop_leftovers()

    def _drop_leftovers(self) -> None:
        """Times of cancelled timers stay in the heap until they are most of it."""
        if len(self._times) > 2 * len(self._at) + LEFTOVERS:
            self._times = sorted(self._at)

    def has(self, timer: Timer | None) -> bool:
        """Whether the timer is set, and TimePassed has not removed it."""
        return timer is not None and timer in self._at.get(timer.at_ms, ())

    def next_ms(self) -> int | None:
        """When the earliest timer is due."""
        while self._times and self._times[0] not in self._at:
            heappop(self._times)
        return self._times[0] if self._times else None

    def due(self, now_ms: int) -> Iterator[Timer]:
        """Timers due at `now_ms`, earliest first, also those set while iterating. Each is yielded once, not removed."""
        given: dict[tuple[int, str, str, str, str], None] = {}
        while batch := {a: None for at_ms in self._due_times(now_ms) for a in self._at[at_ms] if a not in given}:
            given.update(batch)
            yield from map(Timer._make, sorted(batch))

    def _due_times(self, now_ms: int) -> Iterator[int]:
        """Visits only the due part of the heap."""
        times, places = self._times, [0]
        while places:
            place = places.pop()
            if place < len(times) and times[place] <= now_ms:
                if times[place] in self._at:
                    yield times[place]
                places += (2 * place + 1, 2 * place + 2)

    def take_out(self, until_ms: int) -> None:
        """Remove all timers due at `until_ms`."""
        while (at_ms := self.next_ms()) is not None and at_ms <= until_ms:
            del self._at[at_ms]
        self._drop_leftovers()

    def __iter__(self) -> Iterator[Timer]:
        """All timers, in no order."""
        for timers in self._at.values():
            yield from map(Timer._make, timers)
