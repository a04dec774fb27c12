"""The end of the event history, read once for all who follow it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged, Message, Reader
from remuda_proto.si.v1 import si_pb2 as si
from remuda_web import limits
from remuda_web.source import Event, Group, Unreadable

ALL_EVENTS: Final = subjects.callback("*", "event")
Read = Callable[[int, int], Awaitable[list[Message]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """A group, and the sequence number of each of its events."""

    seqs: list[int]
    group: Group

    def behind(self, seq: int) -> Group | None:
        """The events with higher numbers."""
        if self.seqs[0] > seq:
            return self.group
        later = [event for number, event in zip(self.seqs, self.group.events, strict=True) if number > seq]
        return Group(later) if later else None


class Follower:
    """The events that a reader has received and not read yet. `failure`: why no more events will come."""

    def __init__(self) -> None:
        self.waiting: deque[_Told] = deque()
        self.there = asyncio.Event()
        self.failure: Unreadable | None = None
        self._count = 0

    def tell(self, told: _Told) -> None:
        self._count += len(told.seqs)
        if self._count > limits.EVENTS_BEHIND:
            self.fail(Unreadable(f"the reader is more than {limits.EVENTS_BEHIND} events behind"))
            return
        self.waiting.append(told)
        self.there.set()

    def take(self) -> _Told:
        told = self.waiting.popleft()
        self._count -= len(told.seqs)
        return told

    def fail(self, failure: Unreadable) -> None:
        self.failure = failure
        self.waiting.clear()
        self.there.set()


class EventTail:
    """`read(after, count)`: messages of the history behind a sequence number."""

    def __init__(self, bus: Bus, read: Read) -> None:
        self._bus = bus
        self._read = read
        self._followers: set[Follower] = set()
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def follow(self, count: int) -> AsyncGenerator[Group]:
        """The last `count` records, then new ones, in groups. Raises Unreadable."""
        follower = Follower()
        self._followers.add(follower)
        try:
            await self._start()
            # Whatever comes behind `last` is told to the follower, which is there already.
            last = await self._bus.last_sequence(subjects.EVENTS.name)
            if count and last:
                after = max(0, last - count)
                before = await self._read(after, last - after)
                if before:
                    yield Group([event_of(message) for message in before])
            while True:
                await follower.there.wait()
                follower.there.clear()
                while follower.waiting:
                    group = follower.take().behind(last)
                    if group is not None:
                        yield group
                if follower.failure is not None:
                    raise follower.failure
        except (BusError, HistoryChanged) as error:
            raise Unreadable(str(error)) from error
        finally:
            self._followers.discard(follower)
            if not self._followers and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    async def _start(self) -> None:
        """Returns when everything that comes from now on is told."""
        async with self._starting:
            if self._reading is None or self._reading.done():
                last = await self._bus.last_sequence(subjects.EVENTS.name)
                reader = await self._bus.read(subjects.EVENTS.name, ALL_EVENTS, last)
                self._reading = asyncio.create_task(self._tell(reader), name="events")

    async def _tell(self, reader: Reader) -> None:
        try:
            while True:
                every_s = max(limits.EVENTS_EVERY_S, limits.EVENTS_OF_FOLLOWER_S * len(self._followers))
                new = await _together(reader, every_s)
                told = _Told([message.seq for message in new], Group([event_of(message) for message in new]))
                for number, follower in enumerate([*self._followers], 1):
                    follower.tell(told)
                    if number % limits.FOLLOWERS_AT_ONCE == 0:
                        await asyncio.sleep(0)  # requests are answered between them
        except (BusError, HistoryChanged) as error:
            for follower in self._followers:
                follower.fail(Unreadable(str(error)))
        finally:
            await reader.close()


async def _together(reader: Reader, every_s: float) -> list[Message]:
    """The next message, and those that come within this time."""
    loop = asyncio.get_running_loop()
    found = await reader.batch(limits.EVENTS_TOGETHER)
    until = loop.time() + every_s
    while len(found) < limits.EVENTS_TOGETHER and (left := until - loop.time()) > 0:
        found += await reader.batch(limits.EVENTS_TOGETHER - len(found), timeout_s=left)
    return found


def event_of(message: Message) -> Event:
    return Event(subjects.rm_of(message.subject), si.EventRecord.FromString(message.payload))
