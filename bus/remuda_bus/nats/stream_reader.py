"""Ordered reading of a stream, across the failures of consumers and connections.

Whenever its consumer is in doubt, the reader continues behind the last message it returned, with another consumer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from remuda_bus import limits
from remuda_bus.bus import Message, Unanswered, Unreadable
from remuda_bus.nats.jetstream import JetStream
from remuda_bus.nats.ordered_consumer import OrderedConsumer
from remuda_bus.nats.shared_consumer import ReaderGroup, SharedSubscription
from remuda_bus.retry import Backoff
from remuda_bus.streams.history_check import check_message, check_position, digest_of

log = structlog.get_logger()


class StreamReader:
    """`remuda_bus.bus.Reader`. Before it continues with another consumer, it checks that the stream still holds the
    last message it returned."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        subject: str,
        after: int,
        digest: bytes,
        group: ReaderGroup | None = None,
    ) -> None:
        """`group`: the group of readers with which it may share a consumer; None: it always has its own."""
        self._jetstream = jetstream
        self._stream = stream
        self._subject = subject
        self._after = after
        self._digest = digest  # of the message at `after`; b"": unknown
        self._last: Message | None = None  # the last returned message
        self._group = group
        self._consumer: OrderedConsumer | SharedSubscription | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Start reading. A caller that stops waiting does not stop the opening: with short timeouts it would never
        succeed. Raises Unreadable, HistoryChanged."""
        if self._group is not None and not self._closed:
            self._group.add_reader(self, self._restart)
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
        if self._consumer is None or not self._consumer.messages:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wait_for_messages()
            except TimeoutError:
                return []
        assert self._consumer is not None
        taken = self._consumer.take(max_messages, max_bytes)
        self._last = taken[-1]
        self._after = self._last.seq
        return taken

    async def close(self) -> None:
        self._closed = True
        if self._group is not None:
            self._group.remove_reader(self)
        if self._opening is not None:
            self._opening.cancel()
        if self._consumer is not None:
            self._consumer.close()

    async def _wait_for_messages(self) -> None:
        while True:
            if self._closed:
                raise Unreadable(f"the reader of {self._subject} is closed")
            if self._consumer is None:
                await self.open()
            elif self._consumer.messages:
                return
            elif self._consumer.broken is not None:
                # The shared consumer has logged its own failure once.
                report = log.debug if isinstance(self._consumer, SharedSubscription) else log.info
                report("reading anew", subject=self._subject, after=self._after, because=self._consumer.broken)
                self._consumer.close()
                self._consumer = None
            else:
                await self._consumer.wait()

    async def _open(self) -> None:
        """Open a consumer, with retries through outages. Raises Unreadable when there is no such stream, HistoryChanged
        when the stream has lost messages that were read."""
        backoff = Backoff(limits.OPEN_RETRY)
        while True:
            await self._jetstream.connection.until_up()
            try:
                self._consumer = await (self._open_shared() if self._shares else self._open_own())
                return
            except Unanswered as error:
                log.warning("cannot read yet", subject=self._subject, error=str(error))
                await backoff.pause()

    @property
    def _shares(self) -> bool:
        return self._group is not None and self._group.shared

    async def _open_shared(self) -> SharedSubscription:
        assert self._group is not None
        async with self._group.slots:
            await self._check_history()
        return await self._group.subscribe(self._subject, self._after)

    async def _open_own(self) -> OrderedConsumer:
        await self._check_history()
        consumer = OrderedConsumer(self._jetstream, self._stream, self._config())
        await consumer.open()
        if self._shares:
            consumer.fail("the consumer is shared from now on")
        return consumer

    def _restart(self, why: str) -> None:
        if self._consumer is not None:
            self._consumer.fail(why)

    async def _check_history(self) -> None:
        if self._last is not None:
            subject, digest = self._last.subject, digest_of(self._last.payload)
            await check_message(self._jetstream, self._stream, subject, self._after, digest)
        elif self._after:
            await check_position(self._jetstream, self._stream, self._subject, self._after, self._digest)

    def _config(self) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": "all"}
        if self._after:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": self._after + 1}
        return {**start, "filter_subject": self._subject}
