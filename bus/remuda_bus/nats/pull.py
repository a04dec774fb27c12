"""Durable pull consumers with explicit acknowledgement.

A request for more is always waiting at the server, so a message comes the moment it is there. Order matters more than
anything here: when a consumer is joined, or the connection was lost, it is set back to the first message that was not
acknowledged, so that what is delivered again comes in order and before what is new. That is meant for one process at a
time per durable; a second one that joins gets what the first still works on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from remuda_bus import limits
from remuda_bus.bus import Gone, Headers, Message, Unanswered, Unreadable
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.feed import NANOSECOND, Buffer, stream_position
from remuda_bus.nats.jetstream import CONSUMER_NOT_FOUND, NO_HEADERS, JetStream, JetStreamError

log = structlog.get_logger()

UNLIMITED_BYTES = 1 << 62


def consumer_config(durable: str, subject: str, ack_wait_s: float) -> dict[str, Any]:
    return {
        "name": durable,
        "durable_name": durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * NANOSECOND),
        "max_ack_pending": limits.MAX_ACK_PENDING_MESSAGES,
        "filter_subject": subject,
    }


async def make_consumer(
    jetstream: JetStream, stream: str, subject: str, durable: str, after: int, metadata: Headers
) -> None:
    """Raises Refused when another makes it at the same time."""
    try:
        await jetstream.api(f"CONSUMER.DELETE.{stream}.{durable}")
    except JetStreamError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise
    config = {
        **consumer_config(durable, subject, limits.ACK_WAIT_S),
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "metadata": dict(metadata),
    }
    await jetstream.api(
        f"CONSUMER.CREATE.{stream}.{durable}.{subject}", {"stream_name": stream, "config": config, "action": "create"}
    )


class Pull(Buffer):
    """One life of a pull subscription: from (re)joining the consumer until anything about it is in doubt. `delivered`:
    the number of the last delivery before it, where nobody else may take from the consumer: then a number that is left
    out is a doubt."""

    def __init__(self, jetstream: JetStream, stream: str, durable: str, delivered: int | None) -> None:
        super().__init__()
        self._connection: Connection = jetstream.connection
        self._next = f"{jetstream.connection.access.api}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._asked = 0
        self.over_at = 0.0  # the loop's time when the server has forgotten all that it was asked for
        self._delivered = delivered
        self._forget = self._connection.when_reconnected(lambda: self.fail("reconnected"))
        self.replies: dict[int, str] = {}  # stream sequence -> where to acknowledge

    async def open(self) -> None:
        self._inbox = self._connection.client.new_inbox()
        self._subscription = await self._connection.client.subscribe(self._inbox, cb=self._arrived)
        self.listen()
        await self.ask()

    def close(self) -> None:
        self._forget()
        self.fail("closed")
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._connection.closed.is_set():
            self._connection.later(subscription.unsubscribe())

    def fail(self, why: str) -> None:
        super().fail(why)
        self.messages.clear()  # they come again, in order

    async def ask(self) -> None:
        if self._asked + len(self.messages) >= limits.ASK_BELOW_MESSAGES or self.broken is not None:
            return
        self._asked += limits.ASK_FOR_MESSAGES
        request = {
            "batch": limits.ASK_FOR_MESSAGES,
            "max_bytes": 4 * self._connection.client.max_payload,
            "expires": int(limits.EXPIRES_S * NANOSECOND),
            "idle_heartbeat": int(limits.HEARTBEAT_S * NANOSECOND),
        }
        self.over_at = asyncio.get_running_loop().time() + limits.EXPIRES_S
        await self._connection.send(self._next, json.dumps(request).encode(), reply=self._inbox)

    async def _arrived(self, message: Msg) -> None:
        if self.broken is not None:
            return
        self.heard()
        reply = message.reply
        if reply.startswith("$JS.ACK."):
            self._asked -= 1
            sequence, number, _ = stream_position(reply)
            if self._delivered is not None:
                self._delivered += 1
                if number != self._delivered:
                    self.fail(f"another has taken {number - self._delivered} messages of the same consumer")
                    return
            self.replies[sequence] = reply
            self.messages.append(Message(message.subject, message.data, message.headers or NO_HEADERS, sequence))
            self.wake()
            return
        headers = message.headers or {}
        status, left = headers.get("Status"), headers.get("Nats-Pending-Messages")
        if status == "100":
            return
        if status in ("408", "409") and left is not None:  # that request is over: in time, or at its limit of bytes
            self._asked -= int(left)
            await self.ask()
        else:
            self.over_at = 0.0  # with the consumer, or its leader
            self.fail(f"{status} {headers.get('Description')}")

    def expects_word(self) -> bool:
        """Only a waiting request makes the server send heartbeats."""
        return self._asked > 0


class DurableConsumer:
    """`remuda_bus.bus.Consumer`. As long as this process lives, what it was given is not given again: messages that
    wait to be acknowledged are reported as in progress."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        subject: str,
        durable: str,
        ack_wait_s: float,
        metadata: Headers | None = None,
    ) -> None:
        """`metadata`: it is only joined, if it has this."""
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._stream = stream
        self._subject = subject
        self._durable = durable
        self._ack_wait_s = ack_wait_s
        self._metadata = metadata
        self._pull: Pull | None = None
        self._over_at = 0.0  # what earlier lives have asked for
        self._joining: asyncio.Task[None] | None = None
        self._closed = False
        self._seen_before: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._confirming: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make or update the consumer and start pulling."""
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
        # What was delivered in an earlier life is not there: it is going to be delivered again.
        known = [reply for message in messages if (reply := replies.pop(message.seq, None)) is not None]
        for reply in known[:-1]:
            await publish(reply, b"+ACK")
        if known:
            # The answer to the last one says that the server has taken all of them; only close() waits for it.
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
        """Whoever stops waiting does not stop the joining: short timeouts would never get there."""
        if self._joining is None:
            self._joining = asyncio.get_running_loop().create_task(self._join_at_last())
        try:
            await asyncio.shield(self._joining)
        finally:
            if self._joining.done():
                self._joining = None

    async def _join_at_last(self) -> None:
        while self._pull is None:
            await asyncio.sleep(self._over_at - asyncio.get_running_loop().time())
            await self._connection.until_up()
            try:
                await self._join()
            except Gone:
                raise
            except (Unanswered, Unreadable) as error:  # a stream that is not there may be put back
                log.warning("cannot consume yet", consumer=self._durable, error=str(error))
                await asyncio.sleep(limits.RETRY_S)

    async def _join(self) -> None:
        info = await (self._made() if self._metadata is None else self._found(self._metadata))
        if info["num_ack_pending"]:
            info = await self._set_back() or info
        delivered = None if self._metadata is None else info["delivered"]["consumer_seq"]
        pull = Pull(self._jetstream, self._stream, self._durable, delivered)
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
            limits.BEGUN_WITHIN_S,
        )

    async def _found(self, metadata: Headers) -> dict[str, Any]:
        try:
            call = f"CONSUMER.INFO.{self._stream}.{self._durable}"
            info = await self._jetstream.api(call, timeout_s=limits.BEGUN_WITHIN_S)
        except JetStreamError as error:
            if error.err_code == CONSUMER_NOT_FOUND:
                raise Gone(f"there is no consumer {self._durable}") from None
            raise
        there = info["config"].get("metadata") or {}
        if not metadata.items() <= there.items():
            raise Gone(f"the consumer {self._durable} is not the one with {dict(metadata)}, but has {there}")
        return info

    async def _set_back(self) -> dict[str, Any] | None:
        """As it is then; None where there is none."""
        try:
            call = f"CONSUMER.RESET.{self._stream}.{self._durable}"
            return await self._jetstream.api(call, timeout_s=limits.BEGUN_WITHIN_S)
        except JetStreamError as error:
            if error.err_code != CONSUMER_NOT_FOUND:
                raise
            return None

    def _in_progress(self) -> None:
        """Tell the server about what has waited for a whole round, a third of the acknowledgement time."""
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
