"""One pull subscription to a durable consumer, until anything is in doubt."""

from __future__ import annotations

import asyncio
import json

from nats.aio.msg import Msg

from remuda_bus import limits
from remuda_bus.bus import Headers, Message
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.nats.message_buffer import SubscribedBuffer
from remuda_bus.nats.ordered_consumer import NANOSECOND, stream_position
from remuda_bus.untrusted import Malformed, number_in, shortened

PENDING = "Nats-Pending-Messages"


class PullSubscription(SubscribedBuffer):
    """A pull subscription, from the moment the consumer is joined until it breaks.

    A pull request is always waiting at the server, so a message arrives as soon as it is stored. `delivered`: the
    consumer sequence of the last delivery before, where no other process may pull from the consumer; then a missing
    number breaks it. `over_at`: the loop's time at which the server has forgotten all pull requests."""

    def __init__(self, jetstream: JetStream, stream: str, durable: str, delivered: int | None) -> None:
        super().__init__(jetstream.connection)
        self._next = f"{jetstream.connection.access.api}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = ""
        self._asked = 0
        self.over_at = 0.0
        self._delivered = delivered
        self.replies: dict[int, str] = {}  # by stream sequence: the subject of the acknowledgement

    async def open(self) -> None:
        self._inbox = self._connection.client.new_inbox()
        self._subscription = await self._connection.client.subscribe(self._inbox, cb=self._arrived)
        self.expect_heartbeats()
        await self.ask()

    def fail(self, why: str) -> None:
        super().fail(why)
        self.messages.clear()  # the server delivers them again, in order

    async def ask(self) -> None:
        if self._asked + len(self.messages) >= limits.PULL_BELOW_MESSAGES or self.broken is not None:
            return
        self._asked += limits.PULL_MESSAGES
        request = {
            "batch": limits.PULL_MESSAGES,
            "max_bytes": 4 * self._connection.client.max_payload,
            "expires": int(limits.PULL_TIMEOUT_S * NANOSECOND),
            "idle_heartbeat": int(limits.HEARTBEAT_INTERVAL_S * NANOSECOND),
        }
        self.over_at = asyncio.get_running_loop().time() + limits.PULL_TIMEOUT_S
        await self._connection.send(self._next, json.dumps(request).encode(), reply=self._inbox)

    async def _arrived(self, message: Msg) -> None:
        if self.broken is not None:
            return
        self.on_received()
        try:
            if message.reply.startswith("$JS.ACK."):
                self._take_in(message)
            else:
                await self._control(message.headers or NO_HEADERS)
        except Malformed as problem:
            self.fail(str(problem))

    def _take_in(self, message: Msg) -> None:
        self._asked -= 1
        sequence, number, stored_ns, _ = stream_position(message.reply)
        if self._delivered is not None:
            self._delivered += 1
            if number != self._delivered:
                self.fail(f"another has taken {number - self._delivered} messages of the same consumer")
                return
        self.replies[sequence] = message.reply
        self.messages.append(Message(message.subject, message.data, message.headers or NO_HEADERS, sequence, stored_ns))
        self.wake()

    async def _control(self, headers: Headers) -> None:
        status = headers.get("Status")
        if status == "100":
            return
        if status in ("408", "409") and PENDING in headers:  # a pull request expired, or reached its limit of bytes
            self._asked -= number_in(headers, PENDING, most=limits.PULL_MESSAGES)
            await self.ask()
        else:
            self.over_at = 0.0  # the consumer, or its leader, has forgotten the requests
            self.fail(shortened(f"{status} {headers.get('Description')}"))

    def is_heartbeat_due(self) -> bool:
        """Only a waiting pull request makes the server send heartbeats."""
        return self._asked > 0
