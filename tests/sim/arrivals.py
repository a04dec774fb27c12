"""Messages of streams and entries of buckets that the server pushes to a process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from remuda_bus.bus import BusError, Entry, HistoryChanged, Message

from .network import Network, Work, at_once

if TYPE_CHECKING:
    from .connection import Connection

ACK_WAIT_S = 30.0


class Arrivals:
    """The queue of messages from a source at the server, in order."""

    def __init__(
        self, connection: Connection, network: Network, source: Callable[[], Awaitable[list[Any]]] | None
    ) -> None:
        self._connection = connection
        self._network = network
        self._waiting: deque[Any] = deque()
        self._bell: asyncio.Future[None] | None = None
        self._failed: BaseException | None = None
        self._life = 0
        self._pump: asyncio.Task[None] | None = None
        if source is not None:
            self.start(source)

    def start(self, source: Callable[[], Awaitable[list[Any]]]) -> None:
        """From a source of its own; what comes from one before is forgotten."""
        self.pause()
        self._life += 1
        self._waiting.clear()
        self._pump = self._network.pump(self._fetch(source))

    async def _fetch(self, source: Callable[[], Awaitable[list[Any]]]) -> None:
        try:
            while True:
                self.come(await source(), self._connection.delay_s(self))
        except (BusError, HistoryChanged) as error:
            self._failed = error
            self._ring()

    def come(self, some: list[Any], delay_s: float) -> None:
        self._network.later(delay_s, self._arrive, some, self._life)

    def _arrive(self, some: list[Any], life: int) -> None:
        if life == self._life:
            self._waiting.extend(some)
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def take(self, at_most: int, max_bytes: int = 1 << 62, timeout_s: float | None = None) -> list[Any]:
        self._connection.usable()
        if not self._waiting:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_some()
            except TimeoutError:
                return []
        taken = [self._waiting.popleft()]
        size = len(getattr(taken[0], "payload", b""))
        while self._waiting and len(taken) < at_most:
            size += len(getattr(self._waiting[0], "payload", b""))
            if size > max_bytes:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _until_some(self) -> None:
        while not self._waiting:
            if self._failed is not None:
                raise self._failed
            self._bell = asyncio.get_running_loop().create_future()
            await self._bell
            self._connection.usable()

    def reconnected(self) -> None:
        """A reading goes on where it was."""

    def pause(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()

    def fail(self, error: BaseException) -> None:
        self._failed = error
        self._waiting.clear()
        self._ring()

    def stop(self) -> None:
        self.pause()
        self._connection.forget(self)


class Watch:
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Entry:
        entry: Entry = (await self._arrivals.take(1))[0]
        return entry

    async def aclose(self) -> None:
        self._arrivals.stop()


class Reading:
    """`remuda_bus.bus.Reader`."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        return await self._arrivals.take(max_messages, max_bytes, timeout_s)

    async def close(self) -> None:
        self._arrivals.stop()
        self._arrivals.fail(BusError("the reading is closed"))


class Consuming:
    """`remuda_bus.bus.Consumer`. Acknowledgements get lost, and messages come again."""

    def __init__(self, connection: Connection, network: Network, make: Work, consumer: Any) -> None:
        self._connection = connection
        self._network = network
        self._make = make
        self._consumer = consumer
        self._arrivals = connection.arriving(consumer.batch)
        self._arrivals.reconnected = self._rejoin  # type: ignore[method-assign]

    def _rejoin(self) -> None:
        try:
            self._consumer = at_once(self._make())
            self._arrivals.start(self._consumer.batch)
        except BusError as error:
            self._arrivals.fail(error)

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        messages = await self._arrivals.take(max_messages, timeout_s=timeout_s)
        if messages and self._network.weather.repeats():
            self._network.story.tell(f"{len(messages)} messages on {messages[0].subject} will come again")
            self._arrivals.come(messages, self._network.random.uniform(0.1, 5.0))
        return messages

    async def ack(self, messages: Sequence[Message]) -> None:
        self._connection.usable()
        if self._network.weather.loses():
            middle = len(messages) // 2
            self._arrivals.come(list(messages[middle:]), ACK_WAIT_S)
            messages = messages[:middle]
        consumer = self._consumer
        self._network.later(
            self._connection.delay_s(self), self._connection._arrives, lambda: at_once(consumer.ack(messages))
        )

    async def close(self) -> None:
        self._arrivals.stop()
        self._arrivals.fail(BusError("the consumer is closed"))
