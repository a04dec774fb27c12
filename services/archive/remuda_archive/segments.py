"""The format of the objects that the archive stores. Pure: bytes to values and back.

A *segment* holds the messages of one RM's log from one commit to another, void ones too, and the messages of the inbox
that these commits have read. It is one object, and never changes:

```
remuda1\n | length of the header, 4 bytes | header, JSON | body, packed by zlib | SHA-256 of all before, 32 bytes
```

Two chains connect segments. That of the log is the log's own: each commit names its parent's hash. The inbox has none,
so the archive computes one: the digest behind a message is SHA-256(digest before it, sequence, payload). A header holds
both ends of both chains, so a segment that was removed, replaced or changed is found from its neighbours.

A *snapshot* is the same with the packed bytes of a state, and a header of its own.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec

from remuda_bus.bus import Headers, Message
from remuda_replication.log import Position

MAGIC: Final = b"remuda1\n"
_DIGEST: Final = hashlib.sha256().digest_size
_LENGTH: Final = 4
LOG, INBOX = 0, 1


class Damaged(ValueError):
    """The bytes of an object are not what the archive wrote. The text says what is wrong."""


class At(msgspec.Struct, frozen=True):
    """A place in a chain: a stream sequence, and the digest there in hexadecimal. (0, ""): before the first message."""

    seq: int = 0
    digest: str = ""

    @classmethod
    def of(cls, position: Position) -> At:
        return cls(position.seq, position.hash.hex())

    @property
    def position(self) -> Position:
        """The segment's position in the log's chain."""
        return Position(self.seq, bytes.fromhex(self.digest))


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of a segment.

    `first`: the stream sequence of the first message of the log. `after`, `end`: the last commit in force before the
    segment, and in it. `inbox_after`, `inbox_end`: the same of the inbox. `since_ms`, `until_ms`: the earliest and the
    latest time of its commits, in ms since 1970. `commits`, `messages`: how many it has; messages are those of the log
    and of the inbox. `lost_after`: the log was trimmed before it was read, and what is missing begins behind this
    sequence; 0: nothing is missing. `inbox_lost`: messages of the inbox were trimmed before they were read."""

    rm: str
    first: int
    after: At
    end: At
    inbox_after: At
    inbox_end: At
    since_ms: int
    until_ms: int
    commits: int
    messages: int
    lost_after: int = 0
    inbox_lost: bool = False

    @property
    def begins(self) -> bool:
        """Whether the log begins here: the RM is new, was forgotten, or its log was rebuilt."""
        return not self.after.seq


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True):
    """`seq`: the commit at which the state was taken."""

    rm: str
    seq: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A message of a stream. `stream`: LOG or INBOX. `stored_ns`: when the server stored it, in ns since 1970."""

    stream: int
    seq: int
    stored_ns: int
    headers: dict[str, str]
    payload: bytes

    @classmethod
    def of(cls, stream: int, message: Message) -> Record:
        return cls(stream, message.seq, message.stored_ns, dict(message.headers), message.payload)

    def message(self, subject: str) -> Message:
        headers: Headers = self.headers
        return Message(subject, self.payload, headers, self.seq, self.stored_ns)


H = TypeVar("H", Header, SnapshotHeader)
_PACK: Final = msgspec.msgpack.Encoder()
_UNPACK: Final = msgspec.msgpack.Decoder(list[Record])


def encode(header: Header, records: Sequence[Record]) -> bytes:
    return _sealed(header, _PACK.encode(records))


def decode(content: bytes) -> tuple[Header, list[Record]]:
    """Raises Damaged."""
    header, body = _opened(content, Header)
    try:
        records = _UNPACK.decode(body)
    except msgspec.MsgspecError as error:
        raise Damaged(f"the messages cannot be read: {error}") from None
    if len(records) != header.messages:
        raise Damaged(f"there are {len(records)} messages, and the header names {header.messages}")
    return header, records


def encode_snapshot(header: SnapshotHeader, state: bytes) -> bytes:
    return _sealed(header, state)


def decode_snapshot(content: bytes) -> tuple[SnapshotHeader, bytes]:
    """Raises Damaged."""
    return _opened(content, SnapshotHeader)


def header_of(beginning: bytes) -> Header:
    """The header of a segment of which at least the first HEADER_BYTES are given. It is not checked against the digest
    at the end of the object. Raises Damaged."""
    return _header(beginning, Header)[0]


def next_digest(before: str, record: Record) -> str:
    """The digest of the inbox's chain behind a message."""
    digest = hashlib.sha256(bytes.fromhex(before))
    digest.update(record.seq.to_bytes(8, "big"))
    digest.update(record.payload)
    return digest.hexdigest()


def digest_behind(before: str, records: Iterable[Record]) -> str:
    for record in records:
        if record.stream == INBOX:
            before = next_digest(before, record)
    return before


def joined(parts: Sequence[tuple[Header, list[Record]]]) -> tuple[Header, list[Record]]:
    """Consecutive segments as one. Raises ValueError where one does not follow the one before."""
    first, last = parts[0][0], parts[-1][0]
    for (one, _), (following, _) in pairwise(parts):
        if one.end != following.after or one.inbox_end != following.inbox_after or following.begins:
            raise ValueError(f"the segment behind {following.after.seq} does not follow that up to {one.end.seq}")
    header = msgspec.structs.replace(
        first, end=last.end, inbox_end=last.inbox_end, since_ms=min(header.since_ms for header, _ in parts),
        until_ms=max(header.until_ms for header, _ in parts), commits=sum(header.commits for header, _ in parts),
        messages=sum(header.messages for header, _ in parts), inbox_lost=any(header.inbox_lost for header, _ in parts),
    )  # fmt: skip
    return header, [record for _, records in parts for record in records]


def _sealed(header: Header | SnapshotHeader, body: bytes) -> bytes:
    said = msgspec.json.encode(header)
    content = b"".join((MAGIC, len(said).to_bytes(_LENGTH, "big"), said, zlib.compress(body)))
    return content + hashlib.sha256(content).digest()


def _opened(content: bytes, kind: type[H]) -> tuple[H, bytes]:
    header, at = _header(content, kind)
    body, digest = content[at:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(content[:-_DIGEST]).digest() != digest:
        raise Damaged("the content does not have the digest that ends it: it was cut off or changed")
    try:
        return header, zlib.decompress(body)
    except zlib.error as error:
        raise Damaged(f"the body cannot be unpacked: {error}") from None


def _header(content: bytes, kind: type[H]) -> tuple[H, int]:
    """The header, and where the body begins."""
    if content[: len(MAGIC)] != MAGIC:
        raise Damaged(f"it begins with {content[: len(MAGIC)]!r}: expected {MAGIC!r}")
    start = len(MAGIC) + _LENGTH
    at = start + int.from_bytes(content[len(MAGIC) : start], "big")
    try:
        return msgspec.json.decode(content[start:at], type=kind), at
    except msgspec.MsgspecError as error:
        raise Damaged(f"the header cannot be read: {error}") from None
