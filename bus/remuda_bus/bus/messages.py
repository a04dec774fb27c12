"""The messages and entries that the verbs of the bus take and return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

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
