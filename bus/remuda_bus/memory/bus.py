"""The verbs of the bus in memory: streams, buckets, requests and listeners without a server."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import structlog

from remuda_bus import health, limits, metrics, subjects
from remuda_bus.bus import (
    Consumer,
    ConsumerGone,
    ConsumerState,
    Entry,
    Full,
    Handler,
    Headers,
    Listener,
    Message,
    NoResponders,
    Outgoing,
    Reader,
    Refused,
    Reply,
    Serving,
    StreamState,
    Unanswered,
    Unreadable,
)
from remuda_bus.memory.stream import Bell, Clock, Durable, MemoryConsumer, MemoryReader, MemoryStream, matches, size_of
from remuda_bus.streams.history_check import check_position


class MemoryBus:
    """A `remuda_bus.bus.Bus` in memory: a server, and a connection to it. `max_payload`: in bytes. `clock` returns a
    time in seconds."""

    def __init__(
        self,
        clock: Clock = time.monotonic,
        max_payload: int = 8 * 1024 * 1024,
        streams: Iterable[subjects.Stream] = subjects.STREAMS,
        buckets: Iterable[subjects.Bucket] = subjects.BUCKETS,
    ) -> None:
        self._clock = clock
        self._max_payload = max_payload
        self._streams = {stream.name: MemoryStream(stream, clock) for stream in streams}
        self._buckets = {bucket.name: MemoryBucket(bucket) for bucket in buckets}
        self._objects: dict[str, dict[str, bytes]] = {bucket.name: {} for bucket in subjects.OBJECT_BUCKETS}
        self._listeners: list[tuple[str, asyncio.Queue[Message]]] = []
        self._handlers: list[MemoryServing] = []
        self._own_listeners: list[tuple[str, asyncio.Queue[Message]]] = []
        self._own_handlers: list[MemoryServing] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def connect(self) -> MemoryBus:
        """Another connection to this server. `close` ends its subscriptions and endpoints alone."""
        other = copy(self)
        other._own_listeners, other._own_handlers, other._tasks = [], [], set()
        return other

    @property
    def max_payload(self) -> int:
        return self._max_payload

    @property
    def connection_count(self) -> int:
        return 1

    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        message = self._outgoing(subject, payload, headers)
        stream = self._owner(subject)
        if stream is not None:
            try:
                stream.check([message])
            except Full:
                return  # the publisher does not wait for an acknowledgement
            stream.append(message)
        self._notify_listeners(message)

    async def subscribe(self, subject: str, listener: Listener) -> None:
        queue: asyncio.Queue[Message] = asyncio.Queue()
        self._own_listeners.append((subject, queue))
        self._listeners.append(self._own_listeners[-1])
        self._start(listen(subject, queue, listener))

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        message = self._outgoing(subject, payload, headers)
        there = [one for one in self._handlers if matches(one.subject, subject)]
        if not there:
            raise NoResponders(f"{subject}: no responders")
        asked = Message(subject, payload, dict(message.headers))
        first = next(([one] for one in there if one.answers is None), [])
        asked_all = [*first, *(one for one in there if one.answers is not None and one.is_asked(subject))]
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._first_answer(
                    [(one, one.start(handle_request(one.handler, asked))) for one in asked_all]
                )
                if isinstance(answer, Reply):
                    return Message(subject, answer.payload, dict(answer.headers))
                return Message(subject, answer)
        except TimeoutError:
            raise Unanswered(f"{subject}: no answer within {timeout_s} s") from None

    async def request_all(
        self, subject: str, payload: bytes = b"", *, within_s: float, quiet_s: float | None = None
    ) -> list[Message]:
        asked = Message(subject, payload, self._outgoing(subject, payload, None).headers)
        there = [one for one in self._handlers if matches(one.subject, subject)]
        asked_all = [one for one in there if one.is_asked(subject)]
        tasks = [one.start(handle_request(one.handler, asked)) for one in asked_all]
        done, _ = await asyncio.wait(tasks, timeout=within_s) if tasks else (set(), set())
        answers = [task.result() for task in done if not task.cancelled() and task.exception() is None]
        return [
            Message(subject, one.payload, dict(one.headers)) if isinstance(one, Reply) else Message(subject, one)
            for one in answers
        ]

    async def _first_answer(self, asked: list[tuple[MemoryServing, asyncio.Task[Any]]]) -> bytes | Reply:
        """The first answer among the processes that may still answer when they have it."""
        waiting = {task: one for one, task in asked}
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                one = waiting.pop(task)
                if task.cancelled():  # the connection of the responder was closed
                    continue
                if one.answers is None or one.answers():
                    found: bytes | Reply = task.result()
                    return found
        await asyncio.Event().wait()
        raise AssertionError

    async def serve(
        self,
        subject: str,
        handler: Handler,
        name: str,
        answers: Callable[[], bool] | None = None,
        *,
        mine: Callable[[str], bool] | None = None,
        at_once: int = 0,
    ) -> Serving:
        serving = MemoryServing(subject, handler, self._handlers, self._start, answers, mine)
        self._own_handlers.append(serving)
        self._handlers.append(serving)
        return serving

    async def append(
        self,
        subject: str,
        payload: bytes,
        headers: Headers | None = None,
        *,
        msg_id: str | None = None,
        expect_last: int | None = None,
        timeout_s: float = 5.0,
    ) -> int:
        message = self._outgoing(subject, payload, headers, msg_id)
        stream = self._owner(subject)
        if stream is None:
            raise Unanswered(f"{subject}: no responders")
        if (seq := stream.repeated(message)) is not None:
            return seq
        stream.check([message], expect_last)
        seq = stream.append(message).seq
        self._notify_listeners(message)
        return seq

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if not 0 < len(messages) <= limits.BATCH_MESSAGES:
            raise ValueError(f"a batch of {len(messages)} messages, expected 1 to {limits.BATCH_MESSAGES}")
        if len(messages) == 1:
            return await self.append(messages[0].subject, messages[0].payload, messages[0].headers)
        checked = [self._outgoing(message.subject, message.payload, message.headers) for message in messages]
        stream = self._owner(messages[0].subject)
        if stream is None:
            raise Unanswered(f"{messages[0].subject}: no responders")
        if not stream.settings.allow_atomic_batch or not all(stream.owns(message.subject) for message in messages):
            raise Refused(f"{stream.settings.name}: atomic publish is disabled, or not for all of these subjects")
        if any(stream.repeated(message) is not None for message in checked):
            raise Refused(f"{stream.settings.name}: batch contains a repeated message ID")
        stream.check(checked)
        for message in checked:
            stream.append(message)
            self._notify_listeners(message)
        return stream.last_seq

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        found = self._stream(stream)
        if after:
            await check_position(self, stream, subject, after, digest)
        return MemoryReader(found, subject, after)

    async def message_at(self, stream: str, seq: int) -> Message | None:
        beyond = self._stream(stream).beyond(seq - 1)
        return beyond[0] if beyond and beyond[0].seq == seq else None

    async def first_message(self, stream: str, subject: str) -> Message | None:
        return next((one for one in self._stream(stream).messages if matches(subject, one.subject)), None)

    async def last_sequence(self, stream: str) -> int:
        return self._stream(stream).last_seq

    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consumer:
        found = self._stream(stream)
        return MemoryConsumer(found, found.durables.setdefault(durable, Durable(subject)))

    async def create_consumer(self, stream: str, subject: str, durable: str, after: int, metadata: Headers) -> None:
        found = self._stream(stream)
        before = found.durables.get(durable)
        if before is not None:
            before.gone = True
        found.durables[durable] = Durable(subject, dict(metadata), given=after)
        found.bell.ring()

    async def delete_consumer(self, stream: str, durable: str) -> None:
        found = self._stream(stream)
        before = found.durables.pop(durable, None)
        if before is not None:
            before.gone = True
            found.bell.ring()

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consumer:
        found = self._stream(stream)
        there = found.durables.get(durable)
        if there is None or not metadata.items() <= there.metadata.items():
            instead = None if there is None else there.metadata
            raise ConsumerGone(f"{durable}: there is no consumer with {dict(metadata)}", instead)
        return MemoryConsumer(found, there)

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        found = self._stream(stream)
        there = found.durables.get(durable)
        if there is None:
            return None
        beyond = sum(matches(there.subject, message.subject) for message in found.beyond(there.given))
        return ConsumerState(there.acknowledged(), beyond + len(there.pending), there.metadata)

    async def last_message(self, stream: str, subject: str) -> Message | None:
        newest_first = reversed(self._stream(stream).messages)
        return next((message for message in newest_first if matches(subject, message.subject)), None)

    async def trim(self, stream: str, subject: str, below: int) -> None:
        self._trim(stream, subjects.check_one_rm(subject), below)

    async def trim_all(self, stream: str, below: int) -> None:
        self._trim(stream, ">", below)

    def _trim(self, stream: str, subject: str, below: int) -> None:
        found = self._stream(stream)
        found.remove(
            message.seq for message in found.messages if message.seq < below and matches(subject, message.subject)
        )

    async def delete_messages(self, stream: str, seqs: Sequence[int]) -> None:
        self._stream(stream).remove(seqs)

    async def first_sequence_since(self, stream: str, subject: str, age_s: float) -> int | None:
        return self._stream(stream).first_sequence_since(subject, self._clock() - age_s)

    async def fullness(self, stream: str) -> float:
        return self._stream(stream).fullness

    async def stream_state(self, stream: str) -> StreamState:
        return self._stream(stream).state

    async def message_count(self, stream: str, subject: str) -> int:
        return sum(matches(subject, message.subject) for message in self._stream(stream).messages)

    async def acknowledged_sequence(self, stream: str, durable: str) -> int:
        found = self._stream(stream).durables.get(durable)
        return found.acknowledged() if found is not None else 0

    async def get(self, bucket: str, key: str) -> Entry | None:
        self.tick()
        found = self._bucket(bucket).entries.get(subjects.check_key(key))
        return found[0] if found is not None else None

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        self.tick()
        found = self._bucket(bucket)
        check_revision(found, key, revision)
        put = found.set(key, value, self._clock())
        if found.settings.ttl_s:
            asyncio.get_running_loop().call_later(found.settings.ttl_s + 0.001, self.tick)
        return put

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        self.tick()
        found = self._bucket(bucket)
        check_revision(found, key, revision)
        found.set(key, None, self._clock())

    async def entries(self, bucket: str) -> list[Entry]:
        self.tick()
        current = [entry for entry, _ in self._bucket(bucket).entries.values() if entry.value is not None]
        return sorted(current, key=lambda entry: entry.key)

    async def watch(self, bucket: str) -> AsyncIterator[Entry]:
        found = self._bucket(bucket)
        self.tick()
        changes = deque(entry for entry, _ in sorted(found.entries.values(), key=lambda put: put[0].revision))
        bell = Bell()
        watcher = (changes, bell)
        found.watchers.append(watcher)
        try:
            while True:
                while changes:
                    yield changes.popleft()
                await bell.wait()
        finally:
            found.watchers = [other for other in found.watchers if other is not watcher]

    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        payload = b"".join([part async for part in parts])
        self._objects[bucket][name] = payload

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        return self._objects[bucket].get(name)

    async def object_names(self, bucket: str) -> list[str]:
        return sorted(self._objects[bucket])

    async def delete_object(self, bucket: str, name: str) -> None:
        self._objects[bucket].pop(name, None)

    def tick(self) -> None:
        """Expire the entries that are due by the clock."""
        now = self._clock()
        for bucket in self._buckets.values():
            ttl_s = bucket.settings.ttl_s
            due = [key for key, (_, put) in bucket.entries.items() if ttl_s and now - put >= ttl_s]
            for key in due:
                bucket.set(key, None, now)

    def resize(self, stream: str, max_bytes: int) -> None:
        """Set the byte limit of a stream, so that a test can fill it."""
        self._stream(stream).max_bytes = max_bytes

    async def declare(self) -> None:
        """Does nothing: all streams and buckets exist from the start."""

    async def close(self) -> None:
        for serving in self._own_handlers:
            await serving.close()
        for listener in self._own_listeners:
            if listener in self._listeners:
                self._listeners.remove(listener)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _outgoing(self, subject: str, payload: bytes, headers: Headers | None, msg_id: str | None = None) -> Outgoing:
        message = Outgoing(subject, payload, dict(headers or {}) | ({subjects.MSG_ID: msg_id} if msg_id else {}))
        size = size_of(message) - len(subject)
        if size > self._max_payload:
            raise ValueError(
                f"{subject}: {size} bytes (payload {len(payload)}, headers {size - len(payload)}), "
                f"the server takes at most {self._max_payload}"
            )
        return message

    def _owner(self, subject: str) -> MemoryStream | None:
        return next((stream for stream in self._streams.values() if stream.owns(subject)), None)

    def _stream(self, name: str) -> MemoryStream:
        if name not in self._streams:
            raise Unreadable(f"stream {name} not found")
        return self._streams[name]

    def _bucket(self, name: str) -> MemoryBucket:
        if name not in self._buckets:
            raise Unreadable(f"bucket {name} not found")
        return self._buckets[name]

    def _notify_listeners(self, message: Outgoing) -> None:
        for pattern, queue in self._listeners:
            if matches(pattern, message.subject):
                queue.put_nowait(Message(message.subject, message.payload, message.headers))

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class MemoryBucket:
    """A key-value bucket in memory. `watchers`: the changes that each watcher has not taken, and the bell that wakes
    it."""

    def __init__(self, settings: subjects.Bucket) -> None:
        self.settings = settings
        self.entries: dict[str, tuple[Entry, float]] = {}  # with the time of the last put
        self.revision = 0
        self.watchers: list[tuple[deque[Entry], Bell]] = []

    def set(self, key: str, value: bytes | None, now: float) -> int:
        """Set an entry, or delete it with the value None. Returns its revision."""
        self.revision += 1
        entry = Entry(key, value, self.revision)
        if value is None:
            if self.entries.pop(key, None) is None:
                return self.revision
        else:
            self.entries[key] = (entry, now)
        for changes, bell in self.watchers:
            changes.append(entry)
            bell.ring()
        return self.revision


def check_revision(bucket: MemoryBucket, key: str, revision: int | None) -> None:
    found = bucket.entries.get(key)
    current = found[0].revision if found is not None else 0
    if revision is not None and revision != current:
        raise Refused(f"{key}: wrong last sequence: {current}, expected {revision}")


log = structlog.get_logger()


@dataclass(eq=False)
class MemoryServing:
    """A `remuda_bus.bus.Serving`. `start` starts a task of the connection that serves."""

    subject: str
    handler: Handler
    handlers: list[MemoryServing]
    start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]
    answers: Callable[[], bool] | None = None
    mine: Callable[[str], bool] | None = None

    def is_asked(self, subject: str) -> bool:
        """Whether this process takes the request."""
        return (self.answers is None or self.answers()) and (self.mine is None or self.mine(subject))

    async def close(self) -> None:
        if self in self.handlers:
            self.handlers.remove(self)


async def listen(subject: str, queue: asyncio.Queue[Message], listener: Listener) -> None:
    """Call the listener with each message on the subject, without end."""
    kind = metrics.listener_label(subject)
    while True:
        message = await queue.get()
        try:
            await listener(message)
        except Exception as error:
            log.exception("a listener failed", subject=message.subject)
            metrics.LISTENER_ERRORS.labels(kind).inc()
            health.PROCESS_HEALTH.listener_failed(kind, message.subject, error)


async def handle_request(handler: Handler, message: Message) -> bytes | Reply:
    """The answer of a handler. Raises Refused."""
    try:
        return await handler(message)
    except Refused:
        raise
    except Exception as error:
        log.exception("a request could not be answered", subject=message.subject)
        raise Refused(f"{type(error).__name__}: {error}", 500) from error
