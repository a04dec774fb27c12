"""Callbacks as they come in: from one consumer or two, in a queue from which a message goes only when it was worked
on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from remuda_bus import subjects
from remuda_bus.bus import Bus, Consumer, Gone, Message
from remuda_sdk import limits

Arrival = tuple[Consumer, Message]


class Inflow:
    """`first()` is the message to work on, again and again until `done()`. For one task at a time.

    Each registration has a consumer of callbacks of its own. `is_over` is asked when that is gone: whether anything is
    to come after it (then `registered()` will be called); it raises what the RM is to hear otherwise."""

    def __init__(
        self, bus: Bus, rm_id: str, events: bool, registration: int, is_over: Callable[[], Awaitable[None]]
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._events = events
        self._is_over = is_over
        self._registration = registration
        self._waiting: deque[Arrival] = deque()
        self._done: list[Arrival] = []
        self._acknowledged_at = 0.0
        self._batches: asyncio.Queue[tuple[Consumer, list[Message]] | Exception] = asyncio.Queue(limits.WAITING_BATCHES)
        self._consumers: list[Consumer] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def registered(self, registration: int) -> None:
        """Take the callbacks of this registration; 0: none. What has come for a former one and was not worked on is
        left: if it is to be told, it is told again."""
        is_open = bool(self._pumps) or self._registration == 0
        await self._stop()
        self._registration = registration
        self._waiting.clear()
        while not self._batches.empty():
            self._batches.get_nowait()
        if is_open:
            self.open()

    def open(self) -> None:
        """Idempotent. Waits for a registration."""
        registration = self._registration
        if self._pumps or not registration:
            return
        callbacks = subjects.callback_consumer(self._rm_id), lambda: self._callbacks(registration)
        events = subjects.event_consumer(self._rm_id), self._event_history
        for name, join in (callbacks, events) if self._events else (callbacks,):
            self._pumps.append(asyncio.get_running_loop().create_task(self._pump(join), name=name))

    async def first(self, is_new: Callable[[Message], bool]) -> Message:
        """Waits for it. Repetitions are left out. Raises what ended a consumer."""
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
        """It was worked on: go on to the next. It is acknowledged now, or together with those that follow at once."""
        if not self._waiting or self._waiting[0][1] is not message:
            return  # the RM has registered again meanwhile
        self._done.append(self._waiting.popleft())
        now = asyncio.get_running_loop().time()
        if not self._waiting or now - self._acknowledged_at >= limits.ACKNOWLEDGE_EVERY_S:
            await self.acknowledge()
            self._acknowledged_at = now

    async def acknowledge(self) -> None:
        """All that was worked on."""
        done, self._done = self._done, []
        for consumer in self._consumers:
            messages = [message for of, message in done if of is consumer]
            if messages:
                await consumer.ack(messages)

    async def fail(self, error: Exception) -> None:
        """Whoever waits for a message gets this instead."""
        await self._batches.put(error)

    async def close(self) -> None:
        await self._stop()
        await asyncio.sleep(0)  # they end in the background: let that begin before the connection goes

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
        """Made at the registration, if the RM had said that it wants events; if not, made now, where it may do so."""
        durable = subjects.event_consumer(self._rm_id)
        with suppress(Gone):
            return await self._bus.join_consumer(subjects.EVENTS.name, durable, {})
        return await self._bus.consumer(subjects.EVENTS.name, subjects.event(self._rm_id), durable)

    async def _pump(self, join: Callable[[], Awaitable[Consumer]]) -> None:
        try:
            try:
                consumer = await join()
                self._consumers.append(consumer)
                while True:
                    await self._batches.put((consumer, await consumer.batch(limits.BATCH_MESSAGES)))
            except Gone:
                await self._is_over()
        except Exception as error:  # noqa: BLE001 - whoever waits for a message has to hear of it
            await self._batches.put(error)
