"""One consumer of a stream, shared by all readers in this process that read single subjects of it.

A stream has a subject per RM, and a consumer costs the server more than a message. The first `limits.OWN_CONSUMERS`
readers have a consumer each, so a tool that reads one subject receives nothing else. Beyond that, all readers share one
consumer of the whole stream, which passes each message to the readers of its subject. A reader of an idle RM costs an
entry in a dictionary.

A reader fetches the messages between its own position and that of the shared consumer in chunks. The shared consumer
never waits for a reader: when too much is buffered, the reader that has waited longest drops its buffer and fetches it
again later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from remuda_bus import limits
from remuda_bus.bus import Message, Unanswered
from remuda_bus.nats.jetstream import JetStream
from remuda_bus.nats.message_buffer import MessageBuffer
from remuda_bus.nats.ordered_consumer import OrderedConsumer

log = structlog.get_logger()


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
