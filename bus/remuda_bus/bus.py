"""The verbs of the bus, as the services see them. `nats.py` does them over JetStream, `memory.py` in RAM.

Every failure is one of four kinds, because callers must treat them differently:

- `Refused`: the other side understood and said no (a wrong expectation, a service error). Nothing happened.
- `Full`: a stream is at its limit and refused. Nothing happened; try again later.
- `Unanswered`: nobody listens, or no answer came in time. For `request` that is an outage; for `append` the fate of the
  message is **unknown**, and whoever must not do it twice has to die or find out.
- `Unreadable`: what was read breaks a promise (a gap in an ordered reading, a missing stream).

`ChangedPast` is none of these: what was durable is gone or another, and no waiting helps.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Headers = Mapping[str, str]


class BusError(Exception):
    """An outage or refusal of the bus; the shell's kind of wrong."""


class Refused(BusError):
    def __init__(self, reason: str, code: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Full(BusError):
    pass


class Unanswered(BusError):
    pass


class NobodyListens(Unanswered):
    """The server says that nobody takes requests on that subject now."""


class Unreadable(BusError):
    pass


class Gone(Unreadable):
    """The consumer that was joined is not there any more, or has been made anew."""


class ChangedPast(Exception):
    """A stream is shorter than, or different from, what has been read of it or is known of it. No outage, so nothing
    that waits for outages to pass catches it: nobody may go on with that RM."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `seq` is its stream sequence, 0 when it was not read from a stream."""

    subject: str
    payload: bytes
    headers: Headers = field(default_factory=dict)
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Outgoing:
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


class Reader(Protocol):
    """An ordered reading of a stream from a position on, without gaps, without acknowledgements."""

    async def batch(
        self, max_messages: int = 1_000, max_bytes: int = 4_000_000, timeout_s: float | None = None
    ) -> list[Message]:
        """All that is there, up to the limits; waits for the first message (at most `timeout_s`, then []).
        At least one message is returned even if it alone exceeds `max_bytes`."""
        ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """A durable consumer with explicit acknowledgement; unacknowledged messages are delivered again, in order."""

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[Message]:
        """As `Reader.batch`; the messages have to be acknowledged."""
        ...

    async def ack(self, messages: Sequence[Message]) -> None:
        """Acknowledge all of them (they must have come from this consumer)."""
        ...

    async def close(self) -> None: ...


class Serving(Protocol):
    """Requests that are being answered on a subject."""

    async def close(self) -> None:
        """Take no more of them. Those that have come are still answered."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """`acknowledged`: the stream sequence up to which everything is. `waiting`: how many messages are not, whether they
    were delivered or not."""

    acknowledged: int
    waiting: int
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a bucket; `value` None when it was deleted or has expired."""

    key: str
    value: bytes | None
    revision: int


class Bus(Protocol):
    @property
    def max_payload(self) -> int:
        """Largest payload the server takes, bytes (headers count too: leave room)."""
        ...

    @property
    def connections(self) -> int:
        """How often a connection was made: who compares it with what it was knows whether there was an outage."""
        ...

    # plain and request / reply
    async def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None: ...

    async def subscribe(self, subject: str, listener: Listener) -> None: ...

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, timeout_s: float = 5.0
    ) -> Message:
        """Raises Refused (the responder's service error, its code), NobodyListens or another Unanswered."""
        ...

    async def serve(self, subject: str, handler: Handler, name: str) -> Serving:
        """Answer requests as an endpoint `name` of this process's NATS micro service (`nats micro info`) until it is
        closed; of several that serve a subject one gets the request. What the handler raises as Refused goes back as a
        service error; anything else as code 500, and is logged."""
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
        """Append to the stream that owns the subject; returns once it is durable, with its stream sequence. `msg_id`:
        the server drops a repetition inside the stream's duplicate window (the first one's sequence is returned).
        `expect_last`: refuse unless this is the stream sequence of the last message on the subject (0: none yet).
        Raises Refused, Full, Unanswered; ValueError when it is larger than the server takes."""
        ...

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        """Append 1 to 1,000 to one stream that allows atomic batches: all or none. The sequence of the last."""
        ...

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        """From behind the sequence `after` on. `digest`: SHA-256 of the payload there, where it is known. Whenever the
        reading begins, also after an outage, it looks whether the stream still holds what was read last: raises
        ChangedPast, here and from `batch`. (What has been trimmed since is no change.)"""
        ...

    async def message(self, stream: str, seq: int) -> Message | None:
        """The message at that sequence, whatever its subject, as the stream's leader has it."""
        ...

    async def first(self, stream: str, subject: str) -> Message | None:
        """The oldest message of a stream on a subject."""
        ...

    async def end(self, stream: str) -> int:
        """The last sequence of a stream, which may have been of a message that is gone; 0: there was none. Raises
        Unreadable when there is no such stream."""
        ...

    async def consumer(self, stream: str, subject: str, durable: str, ack_wait_s: float = 30.0) -> Consumer:
        """Make (idempotently) or join the durable pull consumer."""
        ...

    async def make_consumer(
        self, stream: str, subject: str, durable: str, after: int, metadata: Mapping[str, str]
    ) -> None:
        """A durable consumer of what lies behind the stream sequence `after`. One of that name goes first, with its
        position."""
        ...

    async def join_consumer(self, stream: str, durable: str, metadata: Mapping[str, str]) -> Consumer:
        """The durable consumer that somebody has made with this metadata. Raises Gone, here and from `batch`, when
        there is none."""
        ...

    async def consumer_state(self, stream: str, durable: str) -> ConsumerState | None:
        """None: there is no such consumer."""
        ...

    async def last(self, stream: str, subject: str) -> Message | None:
        """The newest message of a stream on a subject (wildcards allowed)."""
        ...

    async def trim(self, stream: str, subject: str, below: int) -> None:
        """Delete messages on the subject with a stream sequence below."""
        ...

    async def first_since(self, stream: str, subject: str, age_s: float) -> int | None:
        """Stream sequence of the first message on the subject that is at most so old; None: all are older."""
        ...

    async def fullness(self, stream: str) -> float:
        """How much of what it may hold the stream holds, from 0 to 1."""
        ...

    async def acknowledged(self, stream: str, durable: str) -> int:
        """Stream sequence up to which a durable consumer has acknowledged everything."""
        ...

    # buckets
    async def get(self, bucket: str, key: str) -> Entry | None: ...

    async def put(self, bucket: str, key: str, value: bytes, revision: int | None = None) -> int:
        """New revision. `revision`: only if this is the current one (0: only if there is none); else Refused."""
        ...

    async def delete(self, bucket: str, key: str, revision: int | None = None) -> None: ...

    def watch(self, bucket: str) -> AsyncIterator[Entry]:
        """Every current entry, then every change, for ever."""
        ...

    # object buckets
    async def put_object(self, bucket: str, name: str, parts: AsyncIterable[bytes]) -> None:
        """Visible once all of it is there, and never in part; takes the place of the one of this name. What a dead
        upload of the same owner (the name up to its first '.') has left is removed: an owner has one at a time."""
        ...

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        """None: there is none. Raises Unreadable when it is damaged."""
        ...

    async def objects(self, bucket: str) -> list[str]:
        """The names of all, sorted."""
        ...

    async def delete_object(self, bucket: str, name: str) -> None:
        """Nothing where there is none."""
        ...

    async def declare(self) -> None:
        """Create or update every stream and bucket of `subjects` (idempotent, safe from several processes at once)."""
        ...

    async def close(self) -> None: ...
