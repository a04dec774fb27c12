"""The bus as services see it: its verbs, its messages and its errors.

`remuda_bus.nats` implements the protocol `Bus` over JetStream, `remuda_bus.memory` in memory, for tests.

Callers treat the four kinds of errors differently:

- `Refused`: the other side understood the request and refused it (a wrong expectation, a service error). Nothing
  happened.
- `Full`: a stream is at its limit and refused the message. Nothing happened; a later attempt may succeed.
- `Unanswered`: no answer came in time. After a `request` the caller may ask again. After an `append` it is **unknown**
  whether the message is stored: a caller that must not append twice has to check first, or to end.
- `Unreadable`: a stream, a consumer or a message breaks a promise (a gap in an ordered reading, a missing stream).

`HistoryChanged` is of no such kind: durable messages are gone or have changed, and no waiting helps.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Bus(Protocol):
    """The verbs of the bus. Every verb may raise `Unanswered`; the others are named with the verb."""

    @property
    def max_payload(self) -> int:
        """The largest payload that the server accepts, in bytes. Headers count too: leave room for them."""
        ...

    @property
    def connection_count(self) -> int:
        """The number of connections made so far. It grows with every outage of the connection."""
        ...

    # plain and request / reply
    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        """Publish a message without waiting for an acknowledgement."""
        ...

    async def subscribe(self, subject: str, listener: Listener) -> None:
        """Call `listener` with each message on the subject (wildcards allowed), one after the other. An error of the
        listener is shown by the health and the metrics of this process, and the listener gets the next message."""
        ...

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        """Send a request and return its answer. Raises Refused (the responder's service error with its code),
        NoResponders or another Unanswered."""
        ...

    async def request_all(
        self, subject: str, payload: bytes = b"", *, within_s: float, quiet_s: float | None = None
    ) -> list[Message]:
        """Send a request that several processes answer. Returns the answers that arrive within `within_s`. `quiet_s`:
        and no longer than so long after the newest answer."""
        ...

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
        """Answer requests on the subject as endpoint `name` of this process's NATS micro service (`nats micro info`),
        until the result is closed. A handler that raises Refused answers with a service error. Any other exception is
        logged and answered with code 500. `at_once`: how many requests of this endpoint are answered at the same time,
        besides those of the process; 0: it shares the bound of the process (REQUESTS_AT_ONCE).

        Several processes may serve a subject. Without `answers`, the server gives each request to one of them, even to
        one that hangs. With `answers`, each of them gets it. It answers only where `answers()` is true both when the
        request arrives and when the answer is sent, so a process whose lease expired meanwhile stays silent. The first
        answer counts. `mine`: whether the request on this subject is for this process, where each of them can tell.
        It is asked once, when the request arrives; another process is silent, also one that could only refuse."""
        ...

    # streams
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
        """Append to the stream that owns the subject. Returns the stream sequence once the message is durable.

        `msg_id`: within the stream's duplicate window the server drops a repetition and answers with the sequence of
        the first message. `expect_last`: refuse unless this is the stream sequence of the last message on the subject
        (0: there is none). Raises Refused, Full, Unanswered; ValueError when the message is larger than the server
        accepts."""
        ...

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        """Append 1 to 1,000 messages as one atomic batch, to a stream that allows it: all or none. Returns the stream
        sequence of the last one. Raises as `append`."""
        ...

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        """A reader of the messages on the subject behind the stream sequence `after`.

        `digest`: SHA-256 of the payload at `after`, where it is known. Whenever the reading starts, also after an
        outage, it checks that the stream still holds the message read last. Raises HistoryChanged otherwise, here and
        from `batch`; a message that was trimmed meanwhile is no change."""
        ...

    async def message_at(self, stream: str, seq: int) -> Message | None:
        """The message at a stream sequence, on whatever subject, as the stream's leader has it; None: there is none."""
        ...

    async def first_message(self, stream: str, subject: str) -> Message | None:
        """The oldest message on a subject; None: there is none."""
        ...

    async def last_message(self, stream: str, subject: str) -> Message | None:
        """The newest message on a subject (wildcards allowed); None: there is none."""
        ...

    async def last_sequence(self, stream: str) -> int:
        """The last sequence that the stream has assigned, even if that message is deleted; 0: none. Raises Unreadable
        when there is no such stream."""
        ...

    async def first_sequence_since(self, stream: str, subject: str, age_s: float) -> int | None:
        """The stream sequence of the first message on the subject that is at most `age_s` old; None: all are older."""
        ...

    async def message_count(self, stream: str, subject: str) -> int:
        """The number of messages on a subject (wildcards allowed)."""
        ...

    async def fullness(self, stream: str) -> float:
        """The used part of the stream's byte limit, from 0 to 1."""
        ...

    async def stream_state(self, stream: str) -> StreamState:
        """The numbers of a stream. Raises Unreadable when the stream does not exist."""
        ...

    async def trim(self, stream: str, subject: str, below: int) -> None:
        """Delete the messages on the subject with a stream sequence below `below`. Raises ValueError unless the subject
        names exactly one RM."""
        ...

    async def trim_all(self, stream: str, below: int) -> None:
        """Delete the messages of all RMs with a stream sequence below `below`."""
        ...

    async def delete_messages(self, stream: str, seqs: Sequence[int]) -> None:
        """Delete single messages by their sequences. Sequences without a message are skipped."""
        ...

    # durable consumers
    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consumer:
        """Create the durable pull consumer, or join it where it exists."""
        ...

    async def create_consumer(
        self, stream: str, subject: str, durable: str, after: int, metadata: Mapping[str, str]
    ) -> None:
        """Create a durable consumer of the messages behind the stream sequence `after`. A consumer of the same name is
        deleted first, with its position."""
        ...

    async def delete_consumer(self, stream: str, durable: str) -> None:
        """Delete a durable consumer. Does nothing where there is none."""
        ...

    async def join_consumer(self, stream: str, durable: str, metadata: Mapping[str, str]) -> Consumer:
        """Join the durable consumer that was created with this metadata. Raises ConsumerGone, here and from `batch`,
        when there is none."""
        ...

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        """The state of a durable consumer; None: there is none."""
        ...

    async def acknowledged_sequence(self, stream: str, durable: str) -> int:
        """The stream sequence up to which a durable consumer has acknowledged all messages."""
        ...

    # key-value buckets
    async def get(self, bucket: str, key: str) -> Entry | None:
        """The entry of a key; None: there is none."""
        ...

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        """Set a key and return its new revision. `revision`: refuse unless this is the current one (0: there is no
        entry; None: do not check)."""
        ...

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None:
        """Delete a key. `revision` as in `put`."""
        ...

    async def entries(self, bucket: str) -> list[Entry]:
        """All current entries, ordered by key. Raises Unanswered unless they are complete."""
        ...

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        """Yield every current entry, then every change, without end. It waits through outages."""
        ...

    # object buckets
    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        """Upload an object; it replaces one of the same name. Readers see it once it is complete, never in part.

        The owner of an object is its name up to the first '.'. An owner uploads one object at a time: leftovers of an
        interrupted upload of the same owner are deleted."""
        ...

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        """The content of an object; None: there is none. Raises Unreadable when it is damaged."""
        ...

    async def object_names(self, bucket: str) -> list[str]:
        """The names of all objects, sorted."""
        ...

    async def delete_object(self, bucket: str, name: str) -> None:
        """Delete an object. Does nothing where there is none."""
        ...

    async def declare(self) -> None:
        """Create or update every stream and bucket of `subjects`. Idempotent; several processes may do so at once."""
        ...

    async def close(self) -> None: ...


class Reader(Protocol):
    """Reads a stream in order from a position on, without gaps and without acknowledgements."""

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        """The available messages, up to the limits. Waits for the first one, at most `timeout_s` (then []; None: no
        limit). Returns at least one message, even if it alone exceeds `max_bytes`."""
        ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """A durable consumer with explicit acknowledgement. Unacknowledged messages are delivered again, in order."""

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        """The available messages, as `Reader.batch`. The caller acknowledges each of them."""
        ...

    async def ack(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages that came from this consumer."""
        ...

    async def close(self) -> None: ...


class Serving(Protocol):
    """A subject on which this process answers requests."""

    async def close(self) -> None:
        """Accept no more requests. Requests that have arrived are still answered."""
        ...


Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. `seq`: its stream sequence; 0 when it was not read from a stream. `stored_ns`: when the
    server stored it, in ns since 1970; 0 when that is not known."""

    subject: str
    payload: bytes
    headers: Headers = field(default_factory=dict)
    seq: int = 0
    stored_ns: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to append to a stream."""

    subject: str
    payload: bytes
    headers: Headers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with headers."""

    payload: bytes
    headers: Headers


Handler = Callable[[Message], Awaitable[bytes | Reply]]
Listener = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """The state of a durable consumer. `acknowledged`: the stream sequence up to which all messages are acknowledged.
    `waiting`: the number of messages that are not acknowledged, delivered or not."""

    acknowledged: int
    waiting: int
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamState:
    """The numbers of a stream. `leader`: the server that leads it; "": none does. `behind`: how many of the other
    replicas are not up to date, and `lag`: how many messages the last of them lacks."""

    messages: int
    bytes: int
    max_bytes: int
    last_seq: int
    consumers: int
    leader: str = ""
    behind: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a bucket. `value`: None when the key was deleted or has expired."""

    key: str
    value: bytes | None
    revision: int


class BusError(Exception):
    """An outage or a refusal of the bus."""


class Refused(BusError):
    """The other side refused the request. `code`: as in HTTP (400 unless the responder gave one)."""

    def __init__(self, reason: str, code: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Full(BusError):
    """A stream is at its limit. `of_subject`: only the limit of the subject is reached, so other RMs have room."""

    def __init__(self, reason: str, of_subject: bool = False) -> None:
        super().__init__(reason)
        self.of_subject = of_subject


class Unanswered(BusError):
    """No answer came in time, or the connection broke."""


class NoResponders(Unanswered):
    """The server reports that no process subscribes to the subject. Nothing happened."""


class Unreadable(BusError):
    """A stream, a consumer or a message cannot be read as promised."""


class ConsumerGone(Unreadable):
    """The durable consumer was deleted, or replaced by one with other metadata. `metadata`: that of the one that is
    there instead; None: there is none, or its metadata is not known."""

    def __init__(self, reason: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.metadata = metadata


class UnsuitableServer(BusError):
    """The NATS server is too old, or does not take messages of the size that is needed."""


class LogTrimmed(Unreadable):
    """The log was trimmed beyond the position from which it was to be read."""


class HistoryChanged(Exception):
    """A stream is shorter than, or differs from, what has been read of it or is known of it.

    Not a BusError: a loop that waits for the end of an outage must not catch it. All services stop their work for the
    RM (`remuda_replication.rms.halts`)."""
