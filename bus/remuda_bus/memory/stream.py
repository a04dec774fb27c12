"""A stream in memory, with its durable consumers."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from remuda_bus import subjects
from remuda_bus.bus import Full, Headers, Message, Outgoing, Refused, StreamState
from remuda_bus.memory.bell import Bell
from remuda_bus.memory.matching import matches

Clock = Callable[[], float]


class MemoryStream:
    def __init__(self, settings: subjects.Stream, clock: Clock) -> None:
        self.settings = settings
        self.max_bytes = settings.max_bytes
        self.messages: list[Message] = []
        self.times: dict[int, float] = {}  # by sequence: the time of the append
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
        seq, at = self._ids.get(message.headers.get(subjects.MSG_ID, ""), (0, 0.0))
        return seq if seq and self._clock() - at < self.settings.duplicate_window_s else None

    def check(self, messages: Sequence[Outgoing], expect_last: int | None = None) -> None:
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
        return self.messages[bisect_right(self.messages, seq, key=attrgetter("seq")) :]


def size_of(message: Message | Outgoing) -> int:
    headers = sum(len(key) + len(value) + 4 for key, value in message.headers.items())
    return len(message.subject) + len(message.payload) + headers


@dataclass
class Durable:
    subject: str
    metadata: Headers = field(default_factory=dict)
    gone: bool = False
    given: int = 0  # messages up to here were delivered
    pending: set[int] = field(default_factory=set)  # the delivered messages that are not acknowledged

    def acknowledged(self) -> int:
        return min(self.pending) - 1 if self.pending else self.given
