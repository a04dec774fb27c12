"""The verbs of the bus in RAM, for tests: one object is server and client at once. Deterministic, nothing is durable.

Every stream and bucket of `subjects` is there from the start. What a JetStream server does by itself in time (entries
that expire) is done by `tick()`, which a timer calls; with a clock of your own, call it yourself.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import (
    Consumer,
    ConsumerState,
    Entry,
    Full,
    Gone,
    Handler,
    Headers,
    Listener,
    Message,
    NobodyListens,
    Outgoing,
    Reader,
    Refused,
    Reply,
    Serving,
    Unanswered,
    Unreadable,
)
from remuda_bus.past import reaches

log = structlog.get_logger()

Clock = Callable[[], float]


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one of those a pattern with `*` and `>` names."""
    if pattern in (subject, ">"):
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1] if len(given) >= len(wanted) else []
    return len(wanted) == len(given) and all(one in ("*", two) for one, two in zip(wanted, given, strict=True))


class _Bell:
    """Wakes every task that waits for something to happen."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(heard)
        await heard

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for heard in waiting:
            if not heard.done():
                heard.set_result(None)


class _Stream:
    def __init__(self, settings: subjects.Stream, clock: Clock) -> None:
        self.settings = settings
        self.max_bytes = settings.max_bytes
        self.messages: list[Message] = []
        self.times: dict[int, float] = {}  # when each was appended
        self.last_seq = 0
        self.bell = _Bell()
        self.durables: dict[str, _Durable] = {}
        self._bytes = 0
        self._last: dict[str, int] = {}
        self._ids: dict[str, tuple[int, float]] = {}
        self._clock = clock

    def owns(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.settings.subjects)

    def repeated(self, message: Outgoing) -> int | None:
        seq, at = self._ids.get(message.headers.get(subjects.MSG_ID, ""), (0, 0.0))
        return seq if seq and self._clock() - at < self.settings.duplicate_window_s else None

    def check(self, messages: Sequence[Outgoing], expect_last: int | None = None) -> None:
        if expect_last is None and subjects.EXPECTED_LAST in messages[0].headers:
            expect_last = int(messages[0].headers[subjects.EXPECTED_LAST])
        if expect_last is not None:
            last = self._last.get(messages[0].subject, 0)
            if last != expect_last:
                raise Refused(f"{messages[0].subject}: wrong last sequence: {last}, expected {expect_last}")
        more = sum(_size(message) for message in messages)
        if self.settings.discard == "new" and self._bytes + more > self.max_bytes:
            raise Full(f"{self.settings.name}: maximum bytes exceeded")

    def append(self, message: Outgoing) -> Message:
        self.last_seq += 1
        stored = Message(message.subject, message.payload, dict(message.headers), self.last_seq)
        self.messages.append(stored)
        self.times[stored.seq] = self._clock()
        self._bytes += _size(stored)
        self._last[stored.subject] = stored.seq
        if subjects.MSG_ID in message.headers:
            self._ids[message.headers[subjects.MSG_ID]] = (stored.seq, self._clock())
        while self._bytes > self.max_bytes:
            self.remove({self.messages[0].seq})
        self.bell.ring()
        return stored

    def remove(self, sequences: Iterable[int]) -> None:
        gone = set(sequences)
        for message in self.messages:
            if message.seq in gone:
                self._bytes -= _size(message)
                if self._last[message.subject] == message.seq:
                    del self._last[message.subject]
        self.messages = [message for message in self.messages if message.seq not in gone]
        for seq in gone:
            self.times.pop(seq, None)

    def first_since(self, subject: str, at: float) -> int | None:
        young = (m.seq for m in self.messages if self.times[m.seq] >= at and matches(subject, m.subject))
        return next(young, None)

    @property
    def fullness(self) -> float:
        return self._bytes / self.max_bytes

    def beyond(self, seq: int) -> list[Message]:
        return self.messages[bisect_right(self.messages, seq, key=attrgetter("seq")) :]


def _size(message: Message | Outgoing) -> int:
    headers = sum(len(key) + len(value) + 4 for key, value in message.headers.items())
    return len(message.subject) + len(message.payload) + headers


@dataclass
class _Durable:
    subject: str
    metadata: Headers = field(default_factory=dict)
    gone: bool = False
    given: int = 0  # up to here messages have been given out
    pending: set[int] = field(default_factory=set)  # and these not acknowledged

    def acknowledged(self) -> int:
        return min(self.pending) - 1 if self.pending else self.given


class _Reader:
    """A reading: what lies behind `after` on the subject."""

    def __init__(self, stream: _Stream, subject: str, after: int) -> None:
        self._stream = stream
        self._subject = subject
        self._after = after
        self._closed = False

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        try:
            async with asyncio.timeout(timeout_s):
                while not (taken := self._take(max_messages, max_bytes)):
                    await self._stream.bell.wait()
        except TimeoutError:
            return []
        return taken

    async def close(self) -> None:
        self._closed = True
        self._stream.bell.ring()

    def _take(self, max_messages: int, max_bytes: int) -> list[Message]:
        if self._closed:
            raise Unreadable(f"the reading of {self._subject} is closed")
        taken: list[Message] = []
        size = 0
        for message in self._stream.beyond(self._after):
            if matches(self._subject, message.subject):
                size += len(message.payload)
                if taken and (size > max_bytes or len(taken) == max_messages):
                    break
                taken.append(message)
            self._after = message.seq
        return taken


class _Consumer:
    def __init__(self, stream: _Stream, durable: _Durable) -> None:
        self._stream = stream
        self._durable = durable
        # To join is to be given again, first and in order, what was not acknowledged.
        durable.given = durable.acknowledged()
        durable.pending.clear()
        self._closed = False

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        try:
            async with asyncio.timeout(timeout_s):
                while not (taken := self._take(max_messages)):
                    await self._stream.bell.wait()
        except TimeoutError:
            return []
        return taken

    async def ack(self, messages: Sequence[Message]) -> None:
        self._durable.pending.difference_update(message.seq for message in messages)

    async def close(self) -> None:
        self._closed = True
        self._stream.bell.ring()

    def _take(self, max_messages: int) -> list[Message]:
        if self._closed:
            raise Unreadable(f"the consumer of {self._durable.subject} is closed")
        if self._durable.gone:
            raise Gone(f"the consumer of {self._durable.subject} is gone")
        taken: list[Message] = []
        for message in self._stream.beyond(self._durable.given):
            if len(taken) == max_messages:
                break
            self._durable.given = message.seq
            if matches(self._durable.subject, message.subject):
                taken.append(message)
        self._durable.pending.update(message.seq for message in taken)
        return taken


class _Bucket:
    def __init__(self, settings: subjects.Bucket) -> None:
        self.settings = settings
        self.entries: dict[str, tuple[Entry, float]] = {}  # with the time of the last put
        self.revision = 0
        self.watchers: list[tuple[deque[Entry], _Bell]] = []

    def set(self, key: str, value: bytes | None, now: float) -> int:
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


@dataclass(eq=False)
class _Serving:
    subject: str
    handler: Handler
    handlers: list[_Serving]

    async def close(self) -> None:
        self.handlers.remove(self)


class MemoryBus:
    """`remuda_bus.bus.Bus`. `max_payload` in bytes; `clock` in seconds."""

    def __init__(
        self,
        clock: Clock = time.monotonic,
        max_payload: int = 8 * 1024 * 1024,
        streams: Iterable[subjects.Stream] = subjects.STREAMS,
        buckets: Iterable[subjects.Bucket] = subjects.BUCKETS,
    ) -> None:
        self._clock = clock
        self._max_payload = max_payload
        self._streams = {stream.name: _Stream(stream, clock) for stream in streams}
        self._buckets = {bucket.name: _Bucket(bucket) for bucket in buckets}
        self._objects: dict[str, dict[str, bytes]] = {bucket.name: {} for bucket in subjects.OBJECT_BUCKETS}
        self._listeners: list[tuple[str, asyncio.Queue[Message]]] = []
        self._handlers: list[_Serving] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def max_payload(self) -> int:
        return self._max_payload

    @property
    def connections(self) -> int:
        return 1

    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        message = self._outgoing(subject, payload, headers)
        stream = self._owner(subject)
        if stream is not None:
            try:
                stream.check([message])
            except Full:
                return  # nobody asked whether it was stored
            stream.append(message)
        self._tell(message)

    async def subscribe(self, subject: str, listener: Listener) -> None:
        queue: asyncio.Queue[Message] = asyncio.Queue()
        self._listeners.append((subject, queue))
        self._start(_listen(queue, listener))

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        message = self._outgoing(subject, payload, headers)
        handler = next((one.handler for one in self._handlers if matches(one.subject, subject)), None)
        if handler is None:
            raise NobodyListens(f"{subject}: nobody listens")
        asked = Message(subject, payload, dict(message.headers))
        try:
            async with asyncio.timeout(timeout_s):
                answer = await asyncio.shield(self._start(_answer(handler, asked)))
                if isinstance(answer, Reply):
                    return Message(subject, answer.payload, dict(answer.headers))
                return Message(subject, answer)
        except TimeoutError:
            raise Unanswered(f"{subject}: no answer within {timeout_s} s") from None

    async def serve(self, subject: str, handler: Handler, name: str) -> Serving:
        serving = _Serving(subject, handler, self._handlers)
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
            raise Unanswered(f"{subject}: nobody listens")
        if (seq := stream.repeated(message)) is not None:
            return seq
        stream.check([message], expect_last)
        seq = stream.append(message).seq
        self._tell(message)
        return seq

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if not 0 < len(messages) <= limits.BATCH_MESSAGES:
            raise ValueError(f"a batch of {len(messages)} messages, expected 1 to {limits.BATCH_MESSAGES}")
        if len(messages) == 1:
            return await self.append(messages[0].subject, messages[0].payload, messages[0].headers)
        checked = [self._outgoing(message.subject, message.payload, message.headers) for message in messages]
        stream = self._owner(messages[0].subject)
        if stream is None:
            raise Unanswered(f"{messages[0].subject}: nobody listens")
        if not stream.settings.allow_atomic_batch or not all(stream.owns(message.subject) for message in messages):
            raise Refused(f"{stream.settings.name}: atomic publish is disabled, or not for all of these subjects")
        if any(stream.repeated(message) is not None for message in checked):
            raise Refused(f"{stream.settings.name}: batch contains a repeated message ID")
        stream.check(checked)
        for message in checked:
            stream.append(message)
            self._tell(message)
        return stream.last_seq

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        found = self._stream(stream)
        if after:
            await reaches(self, stream, subject, after, digest)
        return _Reader(found, subject, after)

    async def message(self, stream: str, seq: int) -> Message | None:
        beyond = self._stream(stream).beyond(seq - 1)
        return beyond[0] if beyond and beyond[0].seq == seq else None

    async def first(self, stream: str, subject: str) -> Message | None:
        return next((one for one in self._stream(stream).messages if matches(subject, one.subject)), None)

    async def end(self, stream: str) -> int:
        return self._stream(stream).last_seq

    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consumer:
        found = self._stream(stream)
        return _Consumer(found, found.durables.setdefault(durable, _Durable(subject)))

    async def make_consumer(self, stream: str, subject: str, durable: str, after: int, metadata: Headers) -> None:
        found = self._stream(stream)
        before = found.durables.get(durable)
        if before is not None:
            before.gone = True
        found.durables[durable] = _Durable(subject, dict(metadata), given=after)
        found.bell.ring()

    async def join_consumer(self, stream: str, durable: str, metadata: Headers) -> Consumer:
        found = self._stream(stream)
        there = found.durables.get(durable)
        if there is None or not metadata.items() <= there.metadata.items():
            raise Gone(f"{durable}: there is no consumer with {dict(metadata)}")
        return _Consumer(found, there)

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        found = self._stream(stream)
        there = found.durables.get(durable)
        if there is None:
            return None
        beyond = sum(matches(there.subject, message.subject) for message in found.beyond(there.given))
        return ConsumerState(there.acknowledged(), beyond + len(there.pending), there.metadata)

    async def last(self, stream: str, subject: str) -> Message | None:
        newest_first = reversed(self._stream(stream).messages)
        return next((message for message in newest_first if matches(subject, message.subject)), None)

    async def trim(self, stream: str, subject: str, below: int) -> None:
        found = self._stream(stream)
        found.remove(
            message.seq for message in found.messages if message.seq < below and matches(subject, message.subject)
        )

    async def first_since(self, stream: str, subject: str, age_s: float) -> int | None:
        return self._stream(stream).first_since(subject, self._clock() - age_s)

    async def fullness(self, stream: str) -> float:
        return self._stream(stream).fullness

    async def acknowledged(self, stream: str, durable: str) -> int:
        found = self._stream(stream).durables.get(durable)
        return found.acknowledged() if found is not None else 0

    async def get(self, bucket: str, key: str) -> Entry | None:
        self.tick()
        found = self._bucket(bucket).entries.get(key)
        return found[0] if found is not None else None

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        self.tick()
        found = self._bucket(bucket)
        _check_revision(found, key, revision)
        put = found.set(key, value, self._clock())
        if found.settings.ttl_s:
            asyncio.get_running_loop().call_later(found.settings.ttl_s + 0.001, self.tick)
        return put

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        self.tick()
        found = self._bucket(bucket)
        _check_revision(found, key, revision)
        found.set(key, None, self._clock())

    async def watch(self, bucket: str) -> AsyncIterator[Entry]:
        found = self._bucket(bucket)
        self.tick()
        changes = deque(entry for entry, _ in sorted(found.entries.values(), key=lambda put: put[0].revision))
        bell = _Bell()
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

    async def objects(self, bucket: str) -> list[str]:
        return sorted(self._objects[bucket])

    async def delete_object(self, bucket: str, name: str) -> None:
        self._objects[bucket].pop(name, None)

    def tick(self) -> None:
        """Let expire what is due by the clock."""
        now = self._clock()
        for bucket in self._buckets.values():
            ttl_s = bucket.settings.ttl_s
            due = [key for key, (_, put) in bucket.entries.items() if ttl_s and now - put >= ttl_s]
            for key in due:
                bucket.set(key, None, now)

    def resize(self, stream: str, max_bytes: int) -> None:
        """Set the limit of a stream, to see what happens when it is full."""
        self._stream(stream).max_bytes = max_bytes

    async def declare(self) -> None:
        """Everything is there from the start."""

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _outgoing(self, subject: str, payload: bytes, headers: Headers | None, msg_id: str | None = None) -> Outgoing:
        message = Outgoing(subject, payload, dict(headers or {}) | ({subjects.MSG_ID: msg_id} if msg_id else {}))
        size = _size(message) - len(subject)
        if size > self._max_payload:
            raise ValueError(
                f"{subject}: {size} bytes (payload {len(payload)}, headers {size - len(payload)}), "
                f"the server takes at most {self._max_payload}"
            )
        return message

    def _owner(self, subject: str) -> _Stream | None:
        return next((stream for stream in self._streams.values() if stream.owns(subject)), None)

    def _stream(self, name: str) -> _Stream:
        if name not in self._streams:
            raise Unreadable(f"stream {name} not found")
        return self._streams[name]

    def _bucket(self, name: str) -> _Bucket:
        if name not in self._buckets:
            raise Unreadable(f"bucket {name} not found")
        return self._buckets[name]

    def _tell(self, message: Outgoing) -> None:
        for pattern, queue in self._listeners:
            if matches(pattern, message.subject):
                queue.put_nowait(Message(message.subject, message.payload, message.headers))

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _listen(queue: asyncio.Queue[Message], listener: Listener) -> None:
    while True:
        message = await queue.get()
        try:
            await listener(message)
        except Exception:
            log.exception("a listener failed", subject=message.subject)


async def _answer(handler: Handler, message: Message) -> bytes | Reply:
    try:
        return await handler(message)
    except Refused:
        raise
    except Exception as error:
        log.exception("a request could not be answered", subject=message.subject)
        raise Refused(f"{type(error).__name__}: {error}", 500) from error


def _check_revision(bucket: _Bucket, key: str, revision: int | None) -> None:
    found = bucket.entries.get(key)
    current = found[0].revision if found is not None else 0
    if revision is not None and revision != current:
        raise Refused(f"{key}: wrong last sequence: {current}, expected {revision}")
