"""Checks that the log still holds what has been read of it, and what callbacks and events were derived from."""

from __future__ import annotations

import asyncio

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, LogTrimmed, Message
from remuda_bus.streams.history_check import check_message
from remuda_bus.untrusted import Malformed
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log.chain import Position


async def first_parent(bus: Bus, rm_id: str) -> int:
    """The parent of the oldest commit that the log holds; 0: the log was never trimmed."""
    first = await bus.first_message(subjects.log_stream(rm_id), subjects.log(rm_id))
    try:
        return 0 if first is None else log_pb2.Envelope.FromString(first.payload).parent
    except DecodeError:
        return 0


async def check_commit(bus: Bus, rm_id: str, position: Position) -> None:
    """Check that the log holds the commit, or was trimmed beyond it (then the oldest commit has this one or a later one
    as its parent). Raises HistoryChanged otherwise."""
    stream, subject = subjects.log_stream(rm_id), subjects.log(rm_id)
    if position.seq and not await check_message(bus, stream, subject, position.seq, position.hash):
        first = await bus.first_message(stream, subject)
        if first is not None and not _may_follow(log_pb2.Envelope.FromString(first.payload), position):
            raise HistoryChanged(f"{subject} begins at {first.seq}, but had been read up to {position.seq}")


def _may_follow(first: log_pb2.Envelope, position: Position) -> bool:
    if first.parent != position.seq:
        return first.parent > position.seq
    return not position.hash or first.parent_hash == position.hash


async def check_retained(bus: Bus, rm_id: str, position: Position) -> None:
    """Check that the log holds the commit, and was not trimmed beyond it. Raises HistoryChanged, LogTrimmed."""
    await check_commit(bus, rm_id, position)
    if position.seq and await bus.message_at(subjects.log_stream(rm_id), position.seq) is None:
        raise LogTrimmed(
            f"{subjects.log(rm_id)} has been trimmed beyond {position.seq}, from which it was to be read on"
        )


async def first_part(bus: Bus, rm_id: str, seq: int) -> tuple[int, log_pb2.Envelope]:
    """The stream sequence of the first part of the commit that has a part at `seq`, and that part. Raises LogTrimmed
    when the log no longer holds one of the parts up to `seq`."""
    while True:
        message = await bus.message_at(subjects.log_stream(rm_id), seq)
        if message is None:
            raise LogTrimmed(f"{subjects.log(rm_id)} has been trimmed beyond {seq}, which is part of a commit it holds")
        part = log_pb2.Envelope.FromString(message.payload)
        if part.part == 0:
            return seq, part
        seq = part.parent


async def check_published(bus: Bus, rm_id: str) -> None:
    """Check that the log holds the commits of the newest callbacks and of the newest event. Raises HistoryChanged."""
    published = [(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS]
    published.append((subjects.EVENTS.name, subjects.event(rm_id)))
    newest = await asyncio.gather(*(bus.last_message(stream, subject) for stream, subject in published))
    # Not a set: its order differs from process to process, and a simulated run shows it.
    positions = dict.fromkeys(_position(one) for one in newest if one is not None and subjects.LOG_SEQ in one.headers)
    await asyncio.gather(*(check_commit(bus, rm_id, position) for position in positions))


def _position(message: Message) -> Position:
    """The commit from which a callback or an event was derived. Raises HistoryChanged when its headers are
    unreadable."""
    try:
        return Position.of(message.headers)
    except Malformed as problem:
        raise HistoryChanged(
            f"the message at {message.seq} on {message.subject} was not written by this scheduler: {problem}"
        ) from None
