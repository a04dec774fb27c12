"""Ordered consumer: an ephemeral push consumer with flow control, and the buffers of received messages.

An ordered consumer delivers a stream in order and without gaps until anything is in doubt. Then the consumer is broken,
and the reader creates another consumer. Readers take messages from the buffer without an await each; flow control
bounds the buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from remuda_bus import limits
from remuda_bus.bus import Headers, Message
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.untrusted import Malformed, number_in, shortened

NANOSECOND = 1_000_000_000


class MessageBuffer:
    """Received messages, and one task that may wait for the first message. `broken`: the reason why no more messages
    will come; None: the buffer works. The buffer breaks when heartbeats of the server are missing."""

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
        """Remove the first messages up to the limits, at least one. The buffer must hold a message."""
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
    """A buffer that a subscription of its own fills. The buffer breaks when the connection is interrupted."""

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


def stream_position(reply: str) -> tuple[int, int, int, int]:
    """(stream sequence, consumer sequence, time of storing in ns, number of pending messages behind it) from a
    JetStream reply subject. Raises Malformed."""
    fields = reply.split(".")
    at = 5 if len(fields) == 9 else 7  # the longer form names domain and account as well
    try:
        return int(fields[at]), int(fields[at + 1]), int(fields[at + 2]), int(fields[at + 3])
    except (IndexError, ValueError):
        raise Malformed(f"reply subject {shortened(reply)!r}: expected that of a consumer") from None


class OrderedConsumer(SubscribedBuffer):
    """One ephemeral push consumer, until it breaks. `config`: the part of JetStream's consumer configuration that
    selects messages. `pending`: the number of messages behind the last received message, as the server has reported."""

    def __init__(self, jetstream: JetStream, stream: str, config: Mapping[str, Any]) -> None:
        super().__init__(jetstream.connection)
        self._jetstream = jetstream
        self._stream = stream
        self._config = config
        self._received = 0
        self._answer_when_empty: list[str] = []
        self.pending = 0

    async def open(self) -> None:
        client = self._connection.client
        inbox = client.new_inbox()
        try:
            self._subscription = await client.subscribe(inbox, cb=self._arrived)
            answer = await self._jetstream.api(
                f"CONSUMER.CREATE.{self._stream}",
                {
                    "stream_name": self._stream,
                    "config": {
                        **self._config,
                        "deliver_subject": inbox,
                        "ack_policy": "none",
                        "max_deliver": 1,
                        "flow_control": True,
                        "idle_heartbeat": int(limits.HEARTBEAT_INTERVAL_S * NANOSECOND),
                        "mem_storage": True,
                        "num_replicas": 1,
                    },
                },
                limits.OPEN_TIMEOUT_S,
            )
        except BaseException:
            self.close()
            raise
        if self._received == 0:
            self.pending = int(answer["num_pending"])
        self.expect_heartbeats()

    def take(self, max_messages: int, max_bytes: int) -> list[Message]:
        taken = super().take(max_messages, max_bytes)
        if self._answer_when_empty and not self.messages:
            self._answer_flow_control()
        return taken

    async def _arrived(self, message: Msg) -> None:
        if self.broken is not None:
            return
        self.on_received()
        reply = message.reply
        if not reply.startswith("$JS.ACK."):
            self._control(message, message.headers or NO_HEADERS)
            return
        try:
            sequence, number, stored_ns, self.pending = stream_position(reply)
        except Malformed as problem:
            self.fail(str(problem))
        else:
            self._received += 1
            if number != self._received:
                self.fail(f"message {self._received} of the consumer is missing")
                return
            self.deliver(Message(message.subject, message.data, message.headers or NO_HEADERS, sequence, stored_ns))

    def deliver(self, message: Message) -> None:
        self.messages.append(message)
        self.wake()

    def _control(self, message: Msg, headers: Headers) -> None:
        if headers.get("Status") != "100":
            self.fail(shortened(f"{headers.get('Status')} {headers.get('Description')}"))
            return
        try:
            last = number_in(headers, "Nats-Last-Consumer", self._received)
        except Malformed as problem:
            self.fail(str(problem))
            return
        if last != self._received:
            self.fail(f"{last - self._received} messages are missing before a heartbeat")
            return
        answer = message.reply or headers.get("Nats-Consumer-Stalled")
        if answer:
            self._answer_when_empty.append(answer)
            if not self.messages:
                self._answer_flow_control()

    def _answer_flow_control(self) -> None:
        answers, self._answer_when_empty = self._answer_when_empty, []
        for answer in answers:
            self._connection.later(self._connection.client.publish(answer))
