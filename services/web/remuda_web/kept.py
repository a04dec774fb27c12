"""Values that take time to read, kept for moments for all who want them. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from remuda_web import limits

V = TypeVar("V")
# When what the value under way is made of was read.
_READ_AT: Final[ContextVar[list[float] | None]] = ContextVar("read_at", default=None)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    value: V
    read_at: float
    until: float
    weight: int


@dataclass(eq=False, slots=True)
class _Reading(Generic[V]):
    """`wait`: how many wait for it. It ends when they have gone away."""

    task: asyncio.Task[_Entry[V]]
    wait: int = 0


class Kept(Generic[V]):
    """`most`: of the sum of weights. `weight`: of a value; None: it is not kept. `clock`: in seconds.

    Nobody gets a value that was read more than KEPT_AT_MOST_S before, unless reading it takes longer. A value may be
    made of others that are kept, and counts as read when the oldest of them was. Who asks while a value is being read
    gets the same one. When all who have asked go away, it is not read any further.
    """

    def __init__(
        self, most: int, weight: Callable[[V], int | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._weight = weight
        self._clock = clock
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._reading: dict[Hashable, _Reading[V]] = {}
        self._sum = 0
        self._tidy_at = 0.0
        self._forgotten = 0

    async def get(self, key: Hashable, read: Callable[[], Awaitable[V]]) -> V:
        """Raises what `read` raises; a failure is not kept."""
        entry = self._entries.get(key)
        if entry is None or entry.until <= self._clock():
            reading = self._reading.get(key)
            if reading is None:
                reading = self._reading[key] = _Reading(asyncio.create_task(self._read(key, read, self._forgotten)))
                reading.task.add_done_callback(lambda task: self._ended(key, task))
            entry = await self._entry(key, reading)
        noted = _READ_AT.get()
        if noted is not None:
            noted.append(entry.read_at)
        return entry.value

    async def _entry(self, key: Hashable, reading: _Reading[V]) -> _Entry[V]:
        reading.wait += 1
        try:
            return await asyncio.shield(reading.task)  # it goes on for the others when one of them goes away
        finally:
            reading.wait -= 1
            if not reading.wait and not reading.task.done():
                reading.task.cancel()
                self._ended(key, reading.task)  # who asks from now on has it read anew

    def forget(self) -> None:
        """Something has changed: read everything again, also what is being read."""
        self._forgotten += 1
        self._entries.clear()
        self._reading.clear()
        self._sum = 0

    async def _read(self, key: Hashable, read: Callable[[], Awaitable[V]], forgotten: int) -> _Entry[V]:
        """`forgotten`: how often everything was when it was asked for."""
        began = self._clock()
        noted = [began]
        _READ_AT.set(noted)  # of this task alone
        value = await read()
        now, read_at = self._clock(), min(noted)
        keep_s = max(limits.KEPT_S, limits.KEPT_REST * (now - began))
        weight = self._weight(value)
        entry = _Entry(value, read_at, min(now + keep_s, read_at + limits.KEPT_AT_MOST_S), weight or 0)
        if forgotten == self._forgotten and weight is not None and now < entry.until:
            self._keep(key, entry)
        return entry

    def _keep(self, key: Hashable, entry: _Entry[V]) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._sum += entry.weight
        now = self._clock()
        if now >= self._tidy_at:
            self._tidy_at = now + limits.KEPT_AT_MOST_S
            for old in [one for one, there in self._entries.items() if there.until <= now]:
                self._drop(old)
        while self._sum > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._sum -= entry.weight

    def _ended(self, key: Hashable, task: asyncio.Task[_Entry[V]]) -> None:
        reading = self._reading.get(key)
        if reading is not None and reading.task is task:
            del self._reading[key]
        if task.done() and not task.cancelled():
            task.exception()  # all who asked may have gone away
