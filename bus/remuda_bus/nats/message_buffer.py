"""A buffer of received messages. Readers take them without an await each; flow control bounds it."""

from __future__ import annotations

import asyncio
from collections import deque

from nats.aio.subscription import Subscription

from remuda_bus import limits
from remuda_bus.bus import Message
from remuda_bus.nats.connection import Connection


class MessageBuffer:
    """Received messages, and one task that may wait for the first. `broken`: the reason why no more will come; None
    while it works. It breaks when the server misses heartbeats."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.broken: str | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._silent = 0
        self._heartbeat_timer: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Wait until there is a message or the buffer is broken."""
        while not self.messages and self.broken is None:
            await self.woken()

    async def woken(self) -> None:
        """Wait for the next `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, why: str) -> None:
        """Break the buffer, with the reason. The first reason stands."""
        if self.broken is None:
            self.broken = why
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
        self.wake()

    def expect_heartbeats(self) -> None:
        """Expect heartbeats of the server from now on."""
        if self.broken is None:
            self._heartbeat_timer = asyncio.get_running_loop().call_later(
                limits.HEARTBEAT_INTERVAL_S, self._check_heartbeat
            )

    def on_received(self) -> None:
        """Note a message or heartbeat of the server."""
        self._silent = 0

    def is_heartbeat_due(self) -> bool:
        """Whether the server sends heartbeats now."""
        return True

    def _check_heartbeat(self) -> None:
        self._silent = self._silent + 1 if self.is_heartbeat_due() else 0
        if self._silent < limits.MISSED_HEARTBEATS:
            self.expect_heartbeats()
        else:
            self.fail(f"{limits.MISSED_HEARTBEATS} heartbeats were missing")

    def take(self, max_messages: int, max_bytes: int) -> list[Message]:
        messages = self.messages
        taken = [messages.popleft()]
        size = len(taken[0].payload)
        while messages and len(taken) < max_messages:
            size += len(messages[0].payload)
            if size > max_bytes:
                break
            taken.append(messages.popleft())
        return taken


class SubscribedBuffer(MessageBuffer):
    """A buffer that a subscription of its own fills. It breaks when the connection is interrupted."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._subscription: Subscription | None = None
        self._forget = connection.when_reconnected(lambda: self.fail("reconnected"))

    def close(self) -> None:
        self._forget()
        self.fail("closed")
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._connection.closed.is_set():
            self._connection.later(subscription.unsubscribe())
