"""Ordered reading of a stream, across the failures of consumers and connections.

Whenever its consumer is in doubt, the reader continues behind the last message it returned, with another consumer.

A stream has a subject per RM, and a consumer costs the server more than a message. The first `limits.OWN_CONSUMERS`
readers have a consumer each, so a tool that reads one subject receives nothing else. Beyond that, all readers of the
process share one consumer of the whole stream, which passes each message to the readers of its subject. A reader of an
idle RM costs an entry in a dictionary.

A reader fetches the messages between its own position and that of the shared consumer in chunks. The shared consumer
never waits for a reader: when too much is buffered, the reader that has waited longest drops its buffer and fetches the
messages again later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from remuda_bus import limits
from remuda_bus.bus import Message, Unanswered, Unreadable
from remuda_bus.nats.jetstream import JetStream
from remuda_bus.nats.ordered_consumer import MessageBuffer, OrderedConsumer
from remuda_bus.retry import Backoff
from remuda_bus.streams.history_check import check_message, check_position, digest_of

log = structlog.get_logger()


class StreamReader:
    """A `remuda_bus.bus.Reader`. Before it continues with another consumer, it checks that the stream still holds the
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
        """`group`: the readers with which this reader may share a consumer; None: it always has a consumer of its
        own."""
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


class SharedConsumer(OrderedConsumer):
    """An ordered consumer of a whole stream, until it breaks. `position`: the stream sequence up to which its messages
    were passed on."""

    def __init__(self, jetstream: JetStream, stream: str, begin: int, group: ReaderGroup) -> None:
        super().__init__(jetstream, stream, {"deliver_policy": "by_start_sequence", "opt_start_seq": begin + 1})
        self.position = begin
        self._group = group

    def deliver(self, message: Message) -> None:
        self.position = message.seq
        self._group.deliver(message)

    def fail(self, why: str) -> None:
        broke = self.broken is None
        super().fail(why)
        if broke:
            self._group.on_broken(self, why)


class ReaderGroup:
    """The readers of single subjects of one stream in this process. `shared`: whether they share a consumer."""

    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self.jetstream = jetstream
        self.stream = stream
        self.shared = False
        self.slots = asyncio.Semaphore(limits.FETCHES_AT_ONCE)
        self._open: dict[object, Callable[[str], None]] = {}  # by reader: the function that makes it start anew
        self._by_subject: dict[str, list[SharedSubscription]] = {}
        self._holding: dict[SharedSubscription, None] = {}  # with buffered messages, the longest waiting first
        self._bytes = 0
        self._consumer: SharedConsumer | None = None
        self._opening: asyncio.Task[SharedConsumer] | None = None

    def add_reader(self, reader: object, restart: Callable[[str], None]) -> None:
        self._open[reader] = restart
        if not self.shared and len(self._open) > limits.OWN_CONSUMERS:
            self.shared = True
            log.debug("readers share a consumer", stream=self.stream, readers=len(self._open))
            for other in list(self._open.values()):
                other("the consumer is shared from now on")

    def remove_reader(self, reader: object) -> None:
        self._open.pop(reader, None)
        if self.shared and len(self._open) <= limits.OWN_CONSUMERS // 2:
            self.shared = False
            if self._opening is not None:
                self._opening.cancel()
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    async def subscribe(self, subject: str, after: int) -> SharedSubscription:
        """Subscribe to the messages behind `after` on the subject. Raises Unanswered, Unreadable."""
        consumer = await self._current()
        if consumer.broken is not None:  # since it was opened
            raise Unanswered(f"{self.stream}: {consumer.broken}")
        subscription = SharedSubscription(self, subject, after, consumer.position)
        self._by_subject.setdefault(subject, []).append(subscription)
        try:
            await subscription.begin()
        except BaseException:
            subscription.close()
            raise
        return subscription

    def unsubscribe(self, subscription: SharedSubscription) -> None:
        self.count_taken(subscription, subscription.bytes)
        there = self._by_subject.get(subscription.subject, [])
        if subscription in there:
            there.remove(subscription)
        if not there:
            self._by_subject.pop(subscription.subject, None)

    def deliver(self, message: Message) -> None:
        for subscription in self._by_subject.get(message.subject, ()):
            subscription.offer(message)

    def count_buffered(self, subscription: SharedSubscription, size: int) -> None:
        """Count `size` bytes that the subscription buffers. Beyond limits.BUFFERED_BYTES, the subscription that has
        waited longest drops its buffer."""
        self._bytes += size
        self._holding.setdefault(subscription, None)
        while self._bytes > limits.BUFFERED_BYTES and self._holding:
            next(iter(self._holding)).drop_buffer()

    def count_taken(self, subscription: SharedSubscription, size: int) -> None:
        self._bytes -= size
        self._holding.pop(subscription, None)

    def on_broken(self, consumer: SharedConsumer, why: str) -> None:
        if consumer is not self._consumer:
            return
        self._consumer = None
        consumer.close()
        log.info("reading the stream anew", stream=self.stream, because=why, readers=len(self._open))
        broken, self._by_subject = self._by_subject, {}
        for some in broken.values():
            for one in some:
                one.fail(why)

    async def _current(self) -> SharedConsumer:
        """The open shared consumer. A caller that stops waiting does not stop the opening."""
        if self._consumer is not None:
            return self._consumer
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._begin())
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise Unanswered(f"{self.stream}: the shared consumer is closed") from None
            raise
        finally:
            if opening.done() and self._opening is opening:
                self._opening = None

    async def _begin(self) -> SharedConsumer:
        consumer = SharedConsumer(self.jetstream, self.stream, await self.jetstream.last_sequence(self.stream), self)
        await consumer.open()
        if consumer.broken is not None:  # meanwhile
            consumer.close()
            raise Unanswered(f"{self.stream}: {consumer.broken}")
        self._consumer = consumer
        return consumer


class SharedSubscription(MessageBuffer):
    """A reader's subscription to the shared consumer, until it breaks. Messages up to `mark` have to be fetched; the
    shared consumer delivers those behind it."""

    def __init__(self, group: ReaderGroup, subject: str, after: int, mark: int) -> None:
        super().__init__()
        self.subject = subject
        self.bytes = 0
        self._group = group
        self._taken_to = after
        self._fetched_to = after
        self._mark = mark
        self._missing = True
        self._live: deque[Message] = deque()  # behind the mark, while messages before it are missing
        self._fetching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Check whether messages before the mark are missing. For an idle RM there are none."""
        self._add_fetched(await self._ask(self._group.jetstream.next_of))

    async def wait(self) -> None:
        while not self.messages and self.broken is None:
            if not self._missing:
                await self.woken()  # by a message, or because the buffer was dropped again
                continue
            if self._fetching is None:
                self._fetching = asyncio.get_running_loop().create_task(self._fetch())
            fetching = self._fetching
            try:
                await asyncio.shield(fetching)
            except Unanswered as error:
                self.fail(str(error))
            except asyncio.CancelledError:
                if not fetching.cancelled():
                    raise
            finally:
                if fetching.done():
                    self._fetching = None

    def take(self, max_messages: int, max_bytes: int) -> list[Message]:
        taken = super().take(max_messages, max_bytes)
        self._taken_to = taken[-1].seq
        size = sum(map(_size, taken))
        self._group.count_taken(self, size)
        self.bytes -= size
        if self.bytes:
            self._group.count_buffered(self, 0)
        return taken

    def offer(self, message: Message) -> None:
        """Receive a message from the shared consumer."""
        if self.broken is not None or message.seq <= self._fetched_to:
            return
        (self._live if self._missing else self.messages).append(message)
        self._count([message])
        if not self._missing:
            self.wake()

    def drop_buffer(self) -> None:
        """Drop the buffered messages. They are fetched again when the reader waits for them."""
        self._group.count_taken(self, self.bytes)
        self.bytes = 0
        newest = (self._live or self.messages)[-1].seq
        self.messages.clear()
        self._live.clear()
        self._fetched_to = self._taken_to
        self._mark = max(self._mark, newest)
        self._missing = True
        self.wake()

    def close(self) -> None:
        self._group.unsubscribe(self)
        self.bytes = 0
        self.messages.clear()
        self.fail("closed")
        if self._fetching is not None:
            self._fetching.cancel()

    async def _fetch(self) -> None:
        """Fetch a chunk of the missing messages, from any replica; when that has none, from the stream's leader."""
        begun = self._fetched_to
        jetstream = self._group.jetstream
        chunk = await self._ask(jetstream.behind) or await self._ask(jetstream.next_of)
        if begun == self._fetched_to:
            self._add_fetched(chunk)

    async def _ask(self, question: Callable[[str, str, int], Awaitable[list[Message]]]) -> list[Message]:
        async with self._group.slots:
            return await question(self._group.stream, self.subject, self._fetched_to)

    def _add_fetched(self, chunk: list[Message]) -> None:
        """Add a chunk of fetched messages. An empty one means that nothing is missing."""
        before = [message for message in chunk if message.seq <= self._mark]
        self.messages.extend(before)
        if before:
            self._fetched_to = before[-1].seq
        if not chunk or len(before) < len(chunk):
            self._missing = False
            self.messages.extend(self._live)
            self._live.clear()
        self._count(before)

    def _count(self, messages: Sequence[Message]) -> None:
        if messages:
            size = sum(map(_size, messages))
            self.bytes += size
            self._group.count_buffered(self, size)


def _size(message: Message) -> int:
    return len(message.payload) + limits.MESSAGE_OVERHEAD_BYTES
