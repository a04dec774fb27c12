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


class Alarm(NamedTuple):
    """Something is to happen to an application, or to what `key` names in it, unless it has changed by then."""

    at_ms: int
    kind: str
    partition: str
    application_id: str
    key: str


class Timers:
    """What is to happen by itself, and when (`alarms`); whether it still means anything is found out when it is due
    (`decide.expire`). The alarms follow from the facts, so they survive a restart. Many are set for the same
    millisecond: they are put in order when it comes, not before. They stay until the fact that time has passed."""

    def __init__(self) -> None:
        self._times: list[int] = []  # a heap
        # Of each time the alarms, as plain tuples: quicker to make, and as keys the same.
        self._at: dict[int, dict[tuple[int, str, str, str, str], None]] = {}

    def set(self, at_ms: int, kind: str, partition: str, application_id: str, key: str = "") -> None:
        self.put(Alarm(at_ms, kind, partition, application_id, key))

    def put(self, alarm: Alarm | None) -> None:
        if alarm is not None:
            alarms = self._at.get(alarm[0])
            if alarms is None:
                alarms = self._at[alarm[0]] = {}
                heappush(self._times, alarm[0])
            alarms[alarm] = None

    def cancel(self, alarm: Alarm | None) -> None:
        """Nothing if it is not set."""
        if alarm is None:
            return
        alarms = self._at.get(alarm.at_ms, {})
        alarms.pop(alarm, None)
        if not alarms:
            self._at.pop(alarm.at_ms, None)
            if len(self._times) > 2 * len(self._at) + LEFTOVERS:
                self._times = sorted(self._at)

    def next_ms(self) -> int | None:
        """When the earliest alarm is due."""
        while self._times and self._times[0] not in self._at:
            heappop(self._times)
        return self._times[0] if self._times else None

    def due(self, now_ms: int) -> Iterator[Alarm]:
        """The earliest first, also those that are set meanwhile; each is given out once, and none is taken out."""
        given: dict[tuple[int, str, str, str, str], None] = {}
        while batch := {a: None for at_ms in self._due_times(now_ms) for a in self._at[at_ms] if a not in given}:
            given.update(batch)
            yield from map(Alarm._make, sorted(batch))

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

    def __iter__(self) -> Iterator[Alarm]:
        """All that is set, in no order."""
        for alarms in self._at.values():
            yield from map(Alarm._make, alarms)
