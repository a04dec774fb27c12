"""Callbacks as they come in: from one consumer or two, in a queue from which a message goes only when it was worked
on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from remuda_bus import subjects
from remuda_bus.bus import Bus, Consumer, Message

BATCH_MESSAGES = 256
WAITING_BATCHES = 2
ACKNOWLEDGE_EVERY_S = 0.02

Arrival = tuple[Consumer, Message]


class Inflow:
    """`first()` is the message to work on, again and again until `done()`. For one task at a time."""

    def __init__(self, bus: Bus, rm_id: str, events: bool) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._events = events
        self._waiting: deque[Arrival] = deque()
        self._done: list[Arrival] = []
        self._acknowledged_at = 0.0
        self._batches: asyncio.Queue[tuple[Consumer, list[Message]]] = asyncio.Queue(WAITING_BATCHES)
        self._consumers: list[Consumer] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Idempotent."""
        if self._pumps:
            return
        rm_id = self._rm_id
        sources = [(subjects.CALLBACKS.name, subjects.callback(rm_id, "*"), subjects.callback_consumer(rm_id))]
        if self._events:
            sources.append((subjects.EVENTS.name, subjects.event(rm_id), subjects.event_consumer(rm_id)))
        for stream, subject, durable in sources:
            consumer = await self._bus.consumer(stream, subject, durable)
            self._consumers.append(consumer)
            self._pumps.append(asyncio.get_running_loop().create_task(self._pump(consumer), name=durable))

    async def first(self, is_new: Callable[[Message], bool]) -> Message:
        """Waits for it. Repetitions are left out. Raises what ended a consumer."""
        while True:
            while not self._waiting:
                await self._next_batch()
            message = self._waiting[0][1]
            if is_new(message):
                return message
            await self.done()

    async def done(self) -> None:
        """The first was worked on: go on to the next. It is acknowledged now, or together with those that follow at
        once."""
        self._done.append(self._waiting.popleft())
        now = asyncio.get_running_loop().time()
        if not self._waiting or now - self._acknowledged_at >= ACKNOWLEDGE_EVERY_S:
            await self._acknowledge()
            self._acknowledged_at = now

    async def close(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._acknowledge()
        for consumer in self._consumers:
            await consumer.close()

    async def _acknowledge(self) -> None:
        done, self._done = self._done, []
        for consumer in self._consumers:
            messages = [message for of, message in done if of is consumer]
            if messages:
                await consumer.ack(messages)

    async def _pump(self, consumer: Consumer) -> None:
        while True:
            await self._batches.put((consumer, await consumer.batch(BATCH_MESSAGES)))

    async def _next_batch(self) -> None:
        batch = asyncio.ensure_future(self._batches.get())
        try:
            await asyncio.wait([batch, *self._pumps], return_when=asyncio.FIRST_COMPLETED)
            if not batch.done():
                for pump in self._pumps:
                    if pump.done():
                        pump.result()
                return
            consumer, messages = batch.result()
            self._waiting.extend((consumer, message) for message in messages)
        finally:
            batch.cancel()
