"""Receives the callbacks of an RM, and its events, from their durable consumers.

A message stays first in the queue until the RM has processed the message. Then the message is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from remuda_bus import subjects
from remuda_bus.bus import Bus, Consumer, ConsumerGone, Message

# Callbacks that wait in memory: this many batches of this many messages. One more batch is being fetched, and one is
# being processed. All others wait at the server.
BATCH_MESSAGES = 256
WAITING_BATCHES = 2
# Acknowledgements are sent together at this interval, and at once when no message waits. After a crash, unacknowledged
# callbacks are delivered again.
ACKNOWLEDGE_EVERY_S = 0.02

Arrival = tuple[Consumer, Message]


class CallbackConsumer:
    """The queue of received messages, for one task at a time. `first()` returns the same message until `done()`.

    Each registration has a durable consumer of its own. `on_consumer_gone` is called when that consumer is
    gone: it returns when there is a consumer again, or raises the error for the RM. While another registration of this
    RM is under way, it returns after a while (then `registered()` follows). `events`: receive events, too."""

    def __init__(
        self,
        bus: Bus,
        rm_id: str,
        events: bool,
        registration: int,
        on_consumer_gone: Callable[[ConsumerGone], Awaitable[None]],
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._events = events
        self._on_consumer_gone = on_consumer_gone
        self._registration = registration
        self._waiting: deque[Arrival] = deque()
        self._done: list[Arrival] = []
        self._acknowledged_at = 0.0
        self._batches: asyncio.Queue[tuple[Consumer, list[Message]] | Exception] = asyncio.Queue(WAITING_BATCHES)
        self._consumers: list[Consumer] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def registered(self, registration: int) -> int:
        """Receive the callbacks of this registration; 0: receive none. Returns the number of the former registration,
        whose unprocessed messages are dropped; the scheduler publishes them again where they still apply."""
        former, self._registration = self._registration, 0  # a loop that begins meanwhile opens none
        await self._stop()
        self._waiting.clear()
        while not self._batches.empty():
            self._batches.get_nowait()
        self._registration = registration
        self.open()
        return former

    def open(self) -> None:
        """Start receiving, as soon as there is a registration. Idempotent."""
        registration = self._registration
        if self._pumps or not registration:
            return
        callbacks = subjects.callback_consumer(self._rm_id), lambda: self._callbacks(registration)
        events = subjects.event_consumer(self._rm_id), self._event_history
        for name, join in (callbacks, events) if self._events else (callbacks,):
            self._pumps.append(asyncio.get_running_loop().create_task(self._pump(join), name=name))

    async def first(self, is_new: Callable[[Message], bool]) -> Message:
        """Wait for the first new message. Repetitions are acknowledged and skipped. Raises the error that ended a
        consumer."""
        while True:
            while not self._waiting:
                batch = await self._batches.get()
                if isinstance(batch, Exception):
                    raise batch
                self._waiting.extend((batch[0], message) for message in batch[1])
            message = self._waiting[0][1]
            if is_new(message):
                return message
            await self.done(message)

    async def done(self, message: Message) -> None:
        """Remove the first message, which was processed. It is acknowledged at once, or together with those that follow
        within ACKNOWLEDGE_EVERY_S."""
        if not self._waiting or self._waiting[0][1] is not message:
            return  # of a former registration
        self._done.append(self._waiting.popleft())
        now = asyncio.get_running_loop().time()
        if not self._waiting or now - self._acknowledged_at >= ACKNOWLEDGE_EVERY_S:
            await self.acknowledge()
            self._acknowledged_at = now

    async def acknowledge(self) -> None:
        """Acknowledge all processed messages."""
        done, self._done = self._done, []
        for consumer in self._consumers:
            messages = [message for of, message in done if of is consumer]
            if messages:
                await consumer.ack(messages)

    async def fail(self, error: Exception) -> None:
        """Make `first()` raise this error."""
        await self._batches.put(error)

    async def close(self) -> None:
        await self._stop()
        await asyncio.sleep(0)  # consumers unsubscribe in the background: let them start before the connection closes

    async def _stop(self) -> None:
        pumps, self._pumps = self._pumps, []
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await self.acknowledge()
        consumers, self._consumers = self._consumers, []
        for consumer in consumers:
            await consumer.close()

    async def _callbacks(self, registration: int) -> Consumer:
        durable, metadata = subjects.callback_consumer(self._rm_id), {subjects.REGISTRATION: str(registration)}
        return await self._bus.join_consumer(subjects.CALLBACKS.name, durable, metadata)

    async def _event_history(self) -> Consumer:
        """The consumer of events. It was created at the registration where the RM has declared events; else it is
        created now, if the RM's permissions allow it."""
        durable = subjects.event_consumer(self._rm_id)
        with suppress(ConsumerGone):
            return await self._bus.join_consumer(subjects.EVENTS.name, durable, {})
        return await self._bus.consumer(subjects.EVENTS.name, subjects.event(self._rm_id), durable)

    async def _pump(self, join: Callable[[], Awaitable[Consumer]]) -> None:
        while True:
            try:
                try:
                    await self._take_from(await join())
                except ConsumerGone as gone:
                    await self._on_consumer_gone(gone)
            except Exception as error:  # noqa: BLE001 - `first()` raises it
                await self._batches.put(error)
                return

    async def _take_from(self, consumer: Consumer) -> None:
        """Raises ConsumerGone. Messages of a former consumer are acknowledged with it, which means nothing any more:
        they are delivered again and skipped."""
        self._consumers.append(consumer)
        try:
            while True:
                await self._batches.put((consumer, await consumer.batch(BATCH_MESSAGES)))
        except ConsumerGone:
            self._consumers.remove(consumer)
            await consumer.close()
            raise
