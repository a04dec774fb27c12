"""Readings and consumers of a stream in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from remuda_bus.bus import ConsumerGone, Message, Unreadable
from remuda_bus.memory.matching import matches
from remuda_bus.memory.stream import Durable, MemoryStream


class MemoryReader:
    """`remuda_bus.bus.Reader`: the messages behind `after` on the subject."""

    def __init__(self, stream: MemoryStream, subject: str, after: int) -> None:
        self._stream = stream
        self._subject = subject
        self._after = after
        self._closed = False

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        try:
            async with asyncio.timeout(timeout_s):
                while not (taken := self._take(max_messages, max_bytes)):
                    await self._stream.bell.wait()
        except TimeoutError:
            return []
        return taken

    async def close(self) -> None:
        self._closed = True
        self._stream.bell.ring()

    def _take(self, max_messages: int, max_bytes: int) -> list[Message]:
        if self._closed:
            raise Unreadable(f"the reader of {self._subject} is closed")
        taken: list[Message] = []
        size = 0
        for message in self._stream.beyond(self._after):
            if matches(self._subject, message.subject):
                size += len(message.payload)
                if taken and (size > max_bytes or len(taken) == max_messages):
                    break
                taken.append(message)
            self._after = message.seq
        return taken


class MemoryConsumer:
    """`remuda_bus.bus.Consumer`."""

    def __init__(self, stream: MemoryStream, durable: Durable) -> None:
        self._stream = stream
        self._durable = durable
        # A consumer that is joined delivers unacknowledged messages again, first and in order.
        durable.given = durable.acknowledged()
        durable.pending.clear()
        self._closed = False

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        try:
            async with asyncio.timeout(timeout_s):
                while not (taken := self._take(max_messages)):
                    await self._stream.bell.wait()
        except TimeoutError:
            return []
        return taken

    async def ack(self, messages: Sequence[Message]) -> None:
        self._durable.pending.difference_update(message.seq for message in messages)

    async def close(self) -> None:
        self._closed = True
        self._stream.bell.ring()

    def _take(self, max_messages: int) -> list[Message]:
        if self._closed:
            raise Unreadable(f"the consumer of {self._durable.subject} is closed")
        if self._durable.gone:
            subject, others = self._durable.subject, self._stream.durables.values()
            instead = next((other.metadata for other in others if other.subject == subject), None)
            raise ConsumerGone(f"the consumer of {subject} is gone", instead)
        taken: list[Message] = []
        for message in self._stream.beyond(self._durable.given):
            if len(taken) == max_messages:
                break
            self._durable.given = message.seq
            if matches(self._durable.subject, message.subject):
                taken.append(message)
        self._durable.pending.update(message.seq for message in taken)
        return taken
