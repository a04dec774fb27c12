"""A stream in memory, its durable consumers and its readers."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from remuda_bus import subjects
from remuda_bus.bus import ConsumerGone, Full, Headers, Message, Outgoing, Refused, StreamState, Unreadable

Clock = Callable[[], float]


class MemoryStream:
    """A stream in memory, with the limits of its settings. `times`: by sequence, when the message was appended, in s of
    the clock. `bell` rings at every change. `durables`: its durable consumers, by name."""

    def __init__(self, settings: subjects.Stream, clock: Clock) -> None:
        self.settings = settings
        self.max_bytes = settings.max_bytes
        self.messages: list[Message] = []
        self.times: dict[int, float] = {}
        self.last_seq = 0
        self.bell = Bell()
        self.durables: dict[str, Durable] = {}
        self._bytes = 0
        self._last: dict[str, int] = {}
        self._counts: Counter[str] = Counter()  # messages, by subject
        self._ids: dict[str, tuple[int, float]] = {}
        self._clock = clock

    def owns(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.settings.subjects)

    def repeated(self, message: Outgoing) -> int | None:
        """The sequence of an earlier message with the same message ID within the duplicate window; None: there is
        none."""
        seq, at = self._ids.get(message.headers.get(subjects.MSG_ID, ""), (0, 0.0))
        return seq if seq and self._clock() - at < self.settings.duplicate_window_s else None

    def check(self, messages: Sequence[Outgoing], expect_last: int | None = None) -> None:
        """Check that the stream takes the messages. Raises Refused, Full."""
        if expect_last is None and subjects.EXPECTED_LAST in messages[0].headers:
            expect_last = int(messages[0].headers[subjects.EXPECTED_LAST])
        if expect_last is not None:
            last = self._last.get(messages[0].subject, 0)
            if last != expect_last:
                raise Refused(f"{messages[0].subject}: wrong last sequence: {last}, expected {expect_last}")
        if self.settings.discard == "old":
            return
        most = self.settings.max_msgs_per_subject
        for subject, more in Counter(message.subject for message in messages).items() if most > 0 else ():
            if self._counts[subject] + more > most:
                raise Full(f"{subject}: maximum messages per subject exceeded (others have room)", of_subject=True)
        if self._bytes + sum(size_of(message) for message in messages) > self.max_bytes:
            raise Full(f"{self.settings.name}: maximum bytes exceeded (the limit of the whole stream)")

    def append(self, message: Outgoing) -> Message:
        self.last_seq += 1
        now_s = self._clock()
        stored = Message(
            message.subject, message.payload, dict(message.headers), self.last_seq, round(now_s * 1_000_000_000)
        )
        self.messages.append(stored)
        self.times[stored.seq] = now_s
        self._bytes += size_of(stored)
        self._last[stored.subject] = stored.seq
        if subjects.MSG_ID in message.headers:
            self._ids[message.headers[subjects.MSG_ID]] = (stored.seq, self._clock())
        self._counts[stored.subject] += 1
        while self._bytes > self.max_bytes:
            self.remove({self.messages[0].seq})
        if 0 < self.settings.max_msgs_per_subject < self._counts[stored.subject]:
            self.remove({next(one.seq for one in self.messages if one.subject == stored.subject)})
        self.bell.ring()
        return stored

    def remove(self, sequences: Iterable[int]) -> None:
        gone = set(sequences)
        for message in self.messages:
            if message.seq in gone:
                self._bytes -= size_of(message)
                self._counts[message.subject] -= 1
                if self._last.get(message.subject) == message.seq:
                    del self._last[message.subject]
        self.messages = [message for message in self.messages if message.seq not in gone]
        for seq in gone:
            self.times.pop(seq, None)

    def first_sequence_since(self, subject: str, at: float) -> int | None:
        young = (m.seq for m in self.messages if self.times[m.seq] >= at and matches(subject, m.subject))
        return next(young, None)

    @property
    def state(self) -> StreamState:
        return StreamState(
            len(self.messages), self._bytes, self.max_bytes, self.last_seq, len(self.durables), "the only server"
        )

    @property
    def fullness(self) -> float:
        return self._bytes / self.max_bytes

    def beyond(self, seq: int) -> list[Message]:
        """The messages with a sequence above `seq`."""
        return self.messages[bisect_right(self.messages, seq, key=attrgetter("seq")) :]


def size_of(message: Message | Outgoing) -> int:
    """The size by which limits count a message, in bytes: subject, payload and headers."""
    headers = sum(len(key) + len(value) + 4 for key, value in message.headers.items())
    return len(message.subject) + len(message.payload) + headers


@dataclass
class Durable:
    """A durable consumer. `gone`: it was deleted or replaced. `given`: the sequence up to which messages were
    delivered. `pending`: the sequences of delivered messages that are not acknowledged."""

    subject: str
    metadata: Headers = field(default_factory=dict)
    gone: bool = False
    given: int = 0
    pending: set[int] = field(default_factory=set)

    def acknowledged(self) -> int:
        """The sequence up to which all messages are acknowledged."""
        return min(self.pending) - 1 if self.pending else self.given


class MemoryReader:
    """A `remuda_bus.bus.Reader` of the messages behind `after` on the subject."""

    def __init__(self, stream: MemoryStream, subject: str, after: int) -> None:
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
            raise Unreadable(f"the reader of {self._subject} is closed")
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


class MemoryConsumer:
    """A `remuda_bus.bus.Consumer`, joined to a durable."""

    def __init__(self, stream: MemoryStream, durable: Durable) -> None:
        self._stream = stream
        self._durable = durable
        # A consumer that is joined delivers unacknowledged messages again, first and in order.
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
            subject, others = self._durable.subject, self._stream.durables.values()
            instead = next((other.metadata for other in others if other.subject == subject), None)
            raise ConsumerGone(f"the consumer of {subject} is gone", instead)
        taken: list[Message] = []
        for message in self._stream.beyond(self._durable.given):
            if len(taken) == max_messages:
                break
            self._durable.given = message.seq
            if matches(self._durable.subject, message.subject):
                taken.append(message)
        self._durable.pending.update(message.seq for message in taken)
        return taken


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern with `*` (one token) and `>` (one or more tokens at the end)."""
    if pattern in (subject, ">"):
        return True
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1] if len(given) >= len(wanted) else []
    return len(wanted) == len(given) and all(one in ("*", two) for one, two in zip(wanted, given, strict=True))


class Bell:
    """Wakes all tasks that wait for the next change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(rung)
        await rung

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for rung in waiting:
            if not rung.done():
                rung.set_result(None)
