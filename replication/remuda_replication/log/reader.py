"""Reads the log of one RM: commits in force, in order; and checks that the log still holds what has been read of it,
and what callbacks and events were derived from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, LogTrimmed, Message, Reader
from remuda_bus.metrics import VOID_MESSAGES, rm_label
from remuda_bus.streams.history_check import check_message
from remuda_bus.untrusted import Malformed
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log.chain import START, Chain, LogEntry, Position

log = structlog.get_logger()


class LogReader:
    """Follows the log of one RM. `position`: the last commit in force. `last_seq`: the stream sequence of the last
    message read, valid or void."""

    def __init__(
        self, bus: Bus, rm_id: str, reader: Reader, after: Position | None, commit_class: type[log_pb2.Commit]
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._subject = subjects.log(rm_id)
        self._reader = reader
        self._chain = Chain(after, commit_class)
        VOID_MESSAGES.labels(rm_label(rm_id))  # 0 until there are some
        self.last_seq = after.seq if after is not None else 0
        # Commits that the chain has accepted and no caller has received: a caller may be cancelled in between.
        self._accepted: list[LogEntry] = []
        self._is_head_checked = True

    @classmethod
    async def open(
        cls,
        bus: Bus,
        rm_id: str,
        after: Position | None = START,
        *,
        inclusive: bool = False,
        behind: int = 0,
        commit_class: type[log_pb2.Commit] = log_pb2.Commit,
    ) -> LogReader:
        """Read the commits behind the commit `after` (None: from the oldest one that the log holds). `inclusive`: yield
        the commit `after` first. `behind`: with None, from the first commit behind this stream sequence; `batch` raises
        HistoryChanged where that is void. `commit_class`: another generated class for the same bytes. Raises
        HistoryChanged when the log does not hold that commit, and with `inclusive` LogTrimmed when the log was trimmed
        beyond it."""
        stream, subject = subjects.log_stream(rm_id), subjects.log(rm_id)
        if inclusive and after is not None and after.seq:
            await check_retained(bus, rm_id, after)
            _, commit = await first_part(bus, rm_id, after.seq)
            before = Position(commit.parent, commit.parent_hash)
            return cls(bus, rm_id, await bus.read(stream, subject, before.seq), before, commit_class)
        if after is None:
            return cls(bus, rm_id, await bus.read(stream, subject, behind), None, commit_class)
        return cls(bus, rm_id, await bus.read(stream, subject, after.seq, after.hash), after, commit_class)

    @property
    def position(self) -> Position:
        return self._chain.head

    @property
    def voided(self) -> int:
        return self._chain.voided

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[LogEntry]:
        """The commits in force among the available messages. Waits for the first one, at most `timeout_s` (then [];
        None: no limit). A call that is cancelled loses no commit. Raises HistoryChanged, LogTrimmed, Unreadable."""
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while True:
            left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
            entries = await self._some(max_messages, left)
            if entries or (left is not None and left <= 0.0):
                return entries

    async def read_to_end(self, max_messages: int = 1_000) -> AsyncIterator[list[LogEntry]]:
        """Yield all commits that were in the log at the time of the call. Afterwards a writer has to expect
        `last_seq`."""
        end = await self._bus.last_message(subjects.log_stream(self._rm_id), self._subject)
        while self._accepted or (end is not None and self.last_seq < end.seq):
            yield await self._some(max_messages, None)

    async def close(self) -> None:
        await self._reader.close()

    async def _some(self, max_messages: int, timeout_s: float | None) -> list[LogEntry]:
        if not self._accepted:
            await self._accept(await self._reader.batch(max_messages, timeout_s=timeout_s))
        if not self._is_head_checked:
            await self._check_head()
            self._is_head_checked = True
        entries, self._accepted = self._accepted, []
        return entries

    async def _accept(self, messages: list[Message]) -> None:
        voided = self._chain.voided
        try:
            self._accepted = [entry for message in messages if (entry := self._chain.accept(message)) is not None]
        except HistoryChanged:
            await self._check_head()
            if not self.position.seq and (parent := await first_parent(self._bus, self._rm_id)):
                raise LogTrimmed(f"{self._subject} has been trimmed up to {parent}, before it was read") from None
            raise
        if messages:
            self.last_seq = messages[-1].seq
        if self._chain.voided > voided:
            VOID_MESSAGES.labels(rm_label(self._rm_id)).inc(self._chain.voided - voided)
            log.warning("void messages in the log", subject=self._subject, count=self._chain.voided - voided)
            self._is_head_checked = False

    async def _check_head(self) -> None:
        """Check that the log still holds the head. Called where a message does not have the head as its parent."""
        head = self.position
        await check_commit(self._bus, self._rm_id, head)
        if head.seq and await first_parent(self._bus, self._rm_id) > head.seq:
            raise LogTrimmed(f"{self._subject} has been trimmed beyond {head.seq}, up to which it was read")


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
