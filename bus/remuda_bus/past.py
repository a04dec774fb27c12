"""Whether a stream still holds what was read of it. JetStream may lose what it has acknowledged, and split."""

from __future__ import annotations

import hashlib
from typing import Protocol

from remuda_bus import subjects
from remuda_bus.bus import ChangedPast, Message, Unreadable


class Source(Protocol):
    """What of a bus is needed to look."""

    async def message(self, stream: str, seq: int) -> Message | None: ...

    async def first(self, stream: str, subject: str) -> Message | None: ...

    async def end(self, stream: str) -> int: ...


def digest_of(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


async def witness(source: Source, stream: str, subject: str, seq: int, digest: bytes = b"") -> bytes:
    """Looks at a sequence that is known to hold a message on the subject, with that digest (b"": not known). The
    digest of what is there; b"" when it has been trimmed, as the oldest messages of a subject are. Raises ChangedPast,
    Unanswered."""
    try:
        found = await source.message(stream, seq)
        if found is None:
            await _check_trimmed(source, stream, subject, seq)
            return b""
    except Unreadable as error:
        raise ChangedPast(f"stream {stream}, which had been read up to {seq}: {error}") from error
    if found.subject != subject:
        raise ChangedPast(f"stream {stream} holds a message of {found.subject} at {seq}, where one of {subject} was")
    there = digest_of(found.payload)
    if digest and there != digest:
        raise ChangedPast(
            f"{subject} holds another message at {seq} than was read: {_short(there)}, not {_short(digest)}"
        )
    return there


async def reaches(source: Source, stream: str, subject: str, seq: int, digest: bytes) -> None:
    """What a reading that begins behind `seq` has to look at: the message there where its digest is known; else that
    the stream does not end before it. Raises ChangedPast, Unanswered; Unreadable when there is no such stream."""
    if digest:
        await witness(source, stream, subject, seq, digest)
    elif (end := await source.end(stream)) < seq:
        raise ChangedPast(f"stream {stream} ends at {end}, but had been read up to {seq}")


async def _check_trimmed(source: Source, stream: str, subject: str, seq: int) -> None:
    """What is trimmed goes from the front, and the stream's end stays. A log is never trimmed to nothing."""
    end = await source.end(stream)
    if end < seq:
        raise ChangedPast(f"stream {stream} ends at {end}, but had been read up to {seq}")
    first = await source.first(stream, subject)
    if first is not None and first.seq < seq:
        raise ChangedPast(f"{subject} has lost its message {seq}, though it still has {first.seq}")
    if first is None and stream == subjects.LOG.name:
        raise ChangedPast(f"{subject} has lost its message {seq}, and all others")


def _short(digest: bytes) -> str:
    return digest.hex()[:16]
