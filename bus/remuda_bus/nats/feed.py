"""Ordered reading of a stream: an ephemeral push consumer with flow control, made anew after the last message whenever
anything about it is in doubt.

A `Feed` is one life of such a consumer; a `StreamReader` is a reading across lives. Messages wait in a buffer, so that
`batch()` takes what is there without an await per message; flow control bounds the buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from remuda_bus import limits
from remuda_bus.bus import Message, Unanswered, Unreadable
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.jetstream import NO_HEADERS, JetStream
from remuda_bus.past import digest_of, reaches, witness

log = structlog.get_logger()

NANOSECOND = 1_000_000_000


def stream_position(reply: str) -> tuple[int, int, int]:
    """(stream sequence, number within the consumer, messages pending behind it) out of a JetStream reply subject."""
    fields = reply.split(".")
    at = 5 if len(fields) == 9 else 7  # the longer form names domain and account as well
    return int(fields[at]), int(fields[at + 1]), int(fields[at + 3])


class Buffer:
    """Messages that have come and wait to be taken, and one task that may wait for the first. Broken when the server
    keeps silent."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.broken: str | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._silent = 0
        self._listening: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Returns when there is a message or it is broken."""
        while not self.messages and self.broken is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, why: str) -> None:
        if self.broken is None:
            self.broken = why
        if self._listening is not None:
            self._listening.cancel()
        self.wake()

    def listen(self) -> None:
        """From now on the server has to say that it is there."""
        if self.broken is None:
            self._listening = asyncio.get_running_loop().call_later(limits.HEARTBEAT_S, self._listened)

    def heard(self) -> None:
        self._silent = 0

    def expects_word(self) -> bool:
        return True

    def _listened(self) -> None:
        self._silent = self._silent + 1 if self.expects_word() else 0
        if self._silent < limits.SILENT_HEARTBEATS:
            self.listen()
        else:
            self.fail(f"{limits.SILENT_HEARTBEATS} heartbeats were missing")

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


class Feed(Buffer):
    """One life of an ephemeral push consumer. `config` says what it delivers, as JetStream's consumer configuration."""

    def __init__(self, jetstream: JetStream, stream: str, config: Mapping[str, Any]) -> None:
        super().__init__()
        self._jetstream = jetstream
        self._connection: Connection = jetstream.connection
        self._stream = stream
        self._config = config
        self._subscription: Subscription | None = None
        self._received = 0
        self._answer_when_empty: list[str] = []
        self._forget = self._connection.when_reconnected(lambda: self.fail("reconnected"))
        self.pending = 0  # messages behind the last one received, as the server told with it

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
                        "idle_heartbeat": int(limits.HEARTBEAT_S * NANOSECOND),
                        "mem_storage": True,
                        "num_replicas": 1,
                    },
                },
                limits.BEGUN_WITHIN_S,
            )
        except BaseException:
            self.close()
            raise
        if self._received == 0:
            self.pending = int(answer["num_pending"])
        self.listen()

    def close(self) -> None:
        self._forget()
        self.fail("closed")
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._connection.closed.is_set():
            self._connection.later(subscription.unsubscribe())

    def take(self, max_messages: int, max_bytes: int) -> list[Message]:
        taken = super().take(max_messages, max_bytes)
        if self._answer_when_empty and not self.messages:
            self._answer_flow_control()
        return taken

    async def _arrived(self, message: Msg) -> None:
        if self.broken is not None:
            return
        self.heard()
        reply = message.reply
        if reply.startswith("$JS.ACK."):
            sequence, number, self.pending = stream_position(reply)
            self._received += 1
            if number != self._received:
                self.fail(f"message {self._received} of the consumer is missing")
                return
            self.messages.append(Message(message.subject, message.data, message.headers or NO_HEADERS, sequence))
            self.wake()
        else:
            self._control(message, message.headers or {})

    def _control(self, message: Msg, headers: dict[str, str]) -> None:
        if headers.get("Status") != "100":
            self.fail(f"{headers.get('Status')} {headers.get('Description')}")
            return
        last = headers.get("Nats-Last-Consumer")
        if last is not None and int(last) != self._received:
            self.fail(f"{int(last) - self._received} messages are missing before a heartbeat")
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


class StreamReader:
    """`remuda_bus.bus.Reader` over a stream. Between lives it goes on after the last message it gave out, if the stream
    still holds that."""

    def __init__(self, jetstream: JetStream, stream: str, subject: str, after: int, digest: bytes) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._subject = subject
        self._after = after
        self._digest = digest  # of the message at `after`, as far as it is known
        self._last: Message | None = None  # given out
        self._feed: Feed | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Raises Unreadable, ChangedPast. Whoever stops waiting does not stop the opening: short timeouts would
        never get there."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        try:
            await asyncio.shield(self._opening)
        finally:
            if self._opening.done():
                self._opening = None

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        if self._feed is None or not self._feed.messages:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_some()
            except TimeoutError:
                return []
        assert self._feed is not None
        taken = self._feed.take(max_messages, max_bytes)
        self._last = taken[-1]
        self._after = self._last.seq
        return taken

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        if self._feed is not None:
            self._feed.close()

    async def _until_some(self) -> None:
        while True:
            if self._closed:
                raise Unreadable(f"the reading of {self._subject} is closed")
            if self._feed is None:
                await self.open()
            elif self._feed.messages:
                return
            elif self._feed.broken is not None:
                log.info("reading anew", subject=self._subject, after=self._after, because=self._feed.broken)
                self._feed.close()
                self._feed = None
            else:
                await self._feed.wait()

    async def _open(self) -> None:
        """Tries until it can; raises Unreadable when there is no such stream, ChangedPast when it has lost what was
        read."""
        while True:
            await self._jetstream.connection.until_up()
            try:
                await self._check_past()
                feed = Feed(self._jetstream, self._stream, self._config())
                await feed.open()
            except Unanswered as error:
                log.warning("cannot read yet", subject=self._subject, error=str(error))
                await asyncio.sleep(limits.RETRY_S)
            else:
                self._feed = feed
                return

    async def _check_past(self) -> None:
        if self._last is not None:
            subject, digest = self._last.subject, digest_of(self._last.payload)
            await witness(self._jetstream, self._stream, subject, self._after, digest)
        elif self._after:
            await reaches(self._jetstream, self._stream, self._subject, self._after, self._digest)

    def _config(self) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": "all"}
        if self._after:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": self._after + 1}
        return {**start, "filter_subject": self._subject}
