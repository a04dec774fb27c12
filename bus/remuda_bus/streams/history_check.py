"""Checks that a stream still holds what was read of it.

JetStream may lose messages that it has acknowledged (a disk restored from a copy, a split cluster). Every reader
remembers the position and the SHA-256 of what it read last, and compares (docs/adr/halts-and-faults.md)."""

from __future__ import annotations

import hashlib
from typing import Protocol

from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Message, Unreadable


class MessageSource(Protocol):
    """The verbs of a bus that the checks need."""

    async def message_at(self, stream: str, seq: int) -> Message | None: ...

    async def first_message(self, stream: str, subject: str) -> Message | None: ...

    async def last_sequence(self, stream: str) -> int: ...


def digest_of(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


async def check_message(source: MessageSource, stream: str, subject: str, seq: int, digest: bytes = b"") -> bytes:
    """Check that the stream holds a message on the subject at the sequence, with this digest (b"": unknown).

    Returns the digest of the message; b"" when it was trimmed. Trimming deletes the oldest messages of a subject, and
    keeps the last sequence of the stream. Raises HistoryChanged, Unanswered."""
    try:
        found = await source.message_at(stream, seq)
        if found is None:
            await _check_trimmed(source, stream, subject, seq)
            return b""
    except Unreadable as error:
        raise HistoryChanged(f"stream {stream}, which had been read up to {seq}: {error}") from error
    if found.subject != subject:
        raise HistoryChanged(f"stream {stream} holds a message of {found.subject} at {seq}, where one of {subject} was")
    there = digest_of(found.payload)
    if digest and there != digest:
        raise HistoryChanged(
            f"{subject} holds another message at {seq} than was read: {_short(there)}, not {_short(digest)}"
        )
    return there


async def check_position(source: MessageSource, stream: str, subject: str, seq: int, digest: bytes) -> None:
    """Check the start of a reading behind `seq`: the message at `seq` where its digest is known, else that the stream
    does not end before it. Raises HistoryChanged, Unanswered; Unreadable when there is no such stream."""
    if digest:
        await check_message(source, stream, subject, seq, digest)
    elif (end := await source.last_sequence(stream)) < seq:
        raise HistoryChanged(f"stream {stream} ends at {end}, but had been read up to {seq}")


async def _check_trimmed(source: MessageSource, stream: str, subject: str, seq: int) -> None:
    """Check that the missing message was trimmed and not lost: the stream does not end before it, and the subject has
    no older message. A log is never trimmed to nothing."""
    end = await source.last_sequence(stream)
    if end < seq:
        raise HistoryChanged(f"stream {stream} ends at {end}, but had been read up to {seq}")
    first = await source.first_message(stream, subject)
    if first is not None and first.seq < seq:
        raise HistoryChanged(f"{subject} has lost its message {seq}, though it still has {first.seq}")
    if first is None and stream == subjects.LOG.name:
        raise HistoryChanged(f"{subject} has lost its message {seq}, and all others")


def _short(digest: bytes) -> str:
    return digest.hex()[:16]
