"""Ordered consumer: an ephemeral push consumer with flow control.

It delivers a stream in order and without gaps until anything is in doubt. Then it is broken, and the reader creates
another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nats.aio.msg import Msg

from remuda_bus import limits
from remuda_bus.bus import Headers, Message
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.nats.message_buffer import SubscribedBuffer
from remuda_bus.untrusted import Malformed, number_in, shortened

NANOSECOND = 1_000_000_000


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
    """One ephemeral push consumer, until it breaks. `config`: JetStream's consumer configuration of what it delivers.
    `pending`: the number of messages behind the last received one, as the server reported with it."""

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
