"""Durable pull consumers with explicit acknowledgement.

Messages are delivered in order. When a consumer is joined, or the connection was lost, it is reset to the first
unacknowledged message, so redelivered messages come in order and before new ones. This is meant for one process at a
time per consumer: a second process that joins receives the messages on which the first still works.

The consumer pulls by one subscription at a time, and replaces the subscription when anything about it is in doubt.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import structlog
from nats.aio.msg import Msg

from remuda_bus import limits
from remuda_bus.bus import ConsumerGone, Headers, Message, Unanswered, Unreadable
from remuda_bus.nats.jetstream import CONSUMER_NOT_FOUND, NO_HEADERS, JetStream, JetStreamError
from remuda_bus.nats.ordered_consumer import NANOSECOND, SubscribedBuffer, stream_position
from remuda_bus.retry import Backoff
from remuda_bus.untrusted import Malformed, number_in, shortened

log = structlog.get_logger()


UNLIMITED_BYTES = 1 << 62


class DurableConsumer:
    """A `remuda_bus.bus.Consumer`. Unacknowledged messages are reported as in progress, so the server does not
    redeliver them while this process lives."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        subject: str,
        durable: str,
        ack_wait_s: float,
        metadata: Headers | None = None,
    ) -> None:
        """`metadata`: join the existing consumer, which must have this metadata. None: create the consumer."""
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._stream = stream
        self._subject = subject
        self._durable = durable
        self._ack_wait_s = ack_wait_s
        self._metadata = metadata
        self._pull: PullSubscription | None = None
        self._over_at = 0.0  # the loop's time at which earlier pull requests are over
        self._joining: asyncio.Task[None] | None = None
        self._closed = False
        self._seen_before: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._confirming: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Create or join the consumer and start pulling. Raises ConsumerGone."""
        await self._joined()
        self._timer = asyncio.get_running_loop().call_later(self._ack_wait_s / 3, self._in_progress)

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        if self._pull is None or not self._pull.messages:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_some()
            except TimeoutError:
                return []
        assert self._pull is not None
        taken = self._pull.take(max_messages, UNLIMITED_BYTES)
        if not self._pull.messages:
            self._connection.later(self._pull.ask())
        return taken

    async def ack(self, messages: Sequence[Message]) -> None:
        if self._pull is None:
            return
        replies, publish = self._pull.replies, self._connection.client.publish
        await self._connection.until_up()
        # Messages of an earlier subscription are missing here: the server delivers them again.
        known = [reply for message in messages if (reply := replies.pop(message.seq, None)) is not None]
        for reply in known[:-1]:
            await publish(reply, b"+ACK")
        if known:
            # The reply to the last acknowledgement confirms all of them. Only close() waits for it.
            self._confirming = self._connection.later(self._connection.ask(known[-1], b"+ACK"))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._joining is not None:
            self._joining.cancel()
        if self._pull is not None:
            self._pull.close()
        if self._confirming is not None:
            await asyncio.wait([self._confirming])

    async def _until_some(self) -> None:
        while True:
            if self._closed:
                raise Unreadable(f"the consumer {self._durable} is closed")
            if self._pull is None:
                await self._joined()
            elif self._pull.messages:
                return
            elif self._pull.broken is not None:
                log.info("joining the consumer anew", consumer=self._durable, because=self._pull.broken)
                self._pull.close()
                self._over_at, self._pull = self._pull.over_at, None
            else:
                await self._pull.ask()
                await self._pull.wait()

    async def _joined(self) -> None:
        """Join the consumer. A caller that stops waiting does not stop the joining: with short timeouts it would never
        succeed."""
        if self._joining is None:
            self._joining = asyncio.get_running_loop().create_task(self._join_at_last())
        try:
            await asyncio.shield(self._joining)
        finally:
            if self._joining.done():
                self._joining = None

    async def _join_at_last(self) -> None:
        backoff = Backoff(limits.OPEN_RETRY)
        while self._pull is None:
            await asyncio.sleep(self._over_at - asyncio.get_running_loop().time())
            await self._connection.until_up()
            try:
                await self._join()
            except ConsumerGone:
                raise
            except (Unanswered, Unreadable) as error:  # a missing stream may be restored
                log.warning("cannot consume yet", consumer=self._durable, error=str(error))
                await backoff.pause()

    async def _join(self) -> None:
        info = await (self._made() if self._metadata is None else self._found(self._metadata))
        if info["num_ack_pending"]:
            info = await self._set_back() or info
        delivered = None if self._metadata is None else info["delivered"]["consumer_seq"]
        pull = PullSubscription(self._jetstream, self._stream, self._durable, delivered)
        try:
            await pull.open()
        except BaseException:
            pull.close()
            raise
        self._pull = pull

    async def _made(self) -> dict[str, Any]:
        config = consumer_config(self._durable, self._subject, self._ack_wait_s)
        return await self._jetstream.api(
            f"CONSUMER.CREATE.{self._stream}.{self._durable}.{self._subject}",
            {"stream_name": self._stream, "config": config},
            limits.OPEN_TIMEOUT_S,
        )

    async def _found(self, metadata: Headers) -> dict[str, Any]:
        try:
            call = f"CONSUMER.INFO.{self._stream}.{self._durable}"
            info = await self._jetstream.api(call, timeout_s=limits.OPEN_TIMEOUT_S)
        except JetStreamError as error:
            if error.err_code == CONSUMER_NOT_FOUND:
                raise ConsumerGone(f"there is no consumer {self._durable}") from None
            raise
        there = info["config"].get("metadata") or {}
        if not metadata.items() <= there.items():
            reason = f"the consumer {self._durable} is not the one with {dict(metadata)}, but has {there}"
            raise ConsumerGone(reason, there)
        return info

    async def _set_back(self) -> dict[str, Any] | None:
        """Reset the consumer to its first unacknowledged message. Returns its state; None: there is no consumer."""
        try:
            call = f"CONSUMER.RESET.{self._stream}.{self._durable}"
            return await self._jetstream.api(call, timeout_s=limits.OPEN_TIMEOUT_S)
        except JetStreamError as error:
            if error.err_code != CONSUMER_NOT_FOUND:
                raise
            return None

    def _in_progress(self) -> None:
        """Report the messages as in progress that were unacknowledged for a whole round, a third of the acknowledgement
        time."""
        self._timer = asyncio.get_running_loop().call_later(self._ack_wait_s / 3, self._in_progress)
        pull = self._pull
        if pull is None or pull.broken is not None:
            return
        waiting = [pull.replies[sequence] for sequence in self._seen_before if sequence in pull.replies]
        self._seen_before = set(pull.replies)
        if waiting:
            self._connection.later(self._report(waiting))

    async def _report(self, replies: list[str]) -> None:
        for reply in replies:
            await self._connection.client.publish(reply, b"+WPI")


PENDING = "Nats-Pending-Messages"


class PullSubscription(SubscribedBuffer):
    """A pull subscription, from the moment the consumer is joined until the subscription breaks.

    A pull request is always waiting at the server, so a message arrives as soon as it is stored. `delivered`: the
    consumer sequence of the last delivery before, where no other process may pull from the consumer: a gap in the
    sequences then breaks the subscription. `over_at`: the loop's time at which the server has forgotten all pull
    requests. `replies`: by stream sequence, the subject of the acknowledgement."""

    def __init__(self, jetstream: JetStream, stream: str, durable: str, delivered: int | None) -> None:
        super().__init__(jetstream.connection)
        self._next = f"{jetstream.connection.access.api}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = ""
        self._asked = 0
        self.over_at = 0.0
        self._delivered = delivered
        self.replies: dict[int, str] = {}

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
                self.fail(f"another process has taken {number - self._delivered} messages of the same consumer")
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


def consumer_config(durable: str, subject: str, ack_wait_s: float) -> dict[str, Any]:
    """JetStream's configuration of a durable consumer with explicit acknowledgement."""
    return {
        "name": durable,
        "durable_name": durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * NANOSECOND),
        "max_ack_pending": limits.MAX_ACK_PENDING_MESSAGES,
        "filter_subject": subject,
    }


async def delete_consumer(jetstream: JetStream, stream: str, durable: str) -> None:
    """Delete a durable consumer. Does nothing where there is none."""
    try:
        await jetstream.api(f"CONSUMER.DELETE.{stream}.{durable}")
    except JetStreamError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise


async def create_consumer(
    jetstream: JetStream, stream: str, subject: str, durable: str, after: int, metadata: Headers
) -> None:
    """Create a durable consumer behind the stream sequence `after`; a consumer of the same name is deleted first.
    Raises Refused when another process creates it at the same time."""
    await delete_consumer(jetstream, stream, durable)
    config = {
        **consumer_config(durable, subject, limits.ACK_WAIT_S),
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "metadata": dict(metadata),
    }
    await jetstream.api(
        f"CONSUMER.CREATE.{stream}.{durable}.{subject}", {"stream_name": stream, "config": config, "action": "create"}
    )
