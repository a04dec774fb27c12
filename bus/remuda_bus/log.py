"""The log of one RM: commits that form a chain, and everyone who reads them agrees which are in force.

A commit names its parent: the stream sequence of the commit it was decided on, and the SHA-256 of that commit's
last payload, which names what it hangs on in turn: one hash stands for the whole past. Whatever does not hang on the
reader's head is void, for every reader alike, so two leaders at once cannot both be heard. A commit too large for one
message comes in parts; it is in force when the last one is there. Parts whose leader died before the end are void,
because the next commit hangs on the last complete one again.

What is void must be explained by a leader that was too late: it hangs on an older commit of the same chain, or it is a
further part of a commit that was given up. Anything else was written by somebody who takes another history for the
truth, and then nobody may go on (ChangedPast)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import limits, subjects
from remuda_bus.bus import (
    Bus,
    BusError,
    ChangedPast,
    Headers,
    Message,
    NobodyListens,
    Reader,
    Refused,
    Unanswered,
    Unreadable,
)
from remuda_bus.past import digest_of, witness
from remuda_proto.remuda.v1 import log_pb2

log = structlog.get_logger()


class LostLeadership(BusError):
    """A commit was refused, or nobody knows whether it was written: whoever decided it must not go on deciding."""


@dataclass(frozen=True, slots=True)
class Position:
    """A commit in force: stream sequence and SHA-256 of its last message. (0, b"") is before the first."""

    seq: int = 0
    hash: bytes = b""

    def headers(self) -> dict[str, str]:
        """For a message that tells of this commit: whoever has it can tell whether the log still holds the commit."""
        return {subjects.LOG_SEQ: str(self.seq), subjects.LOG_HASH: self.hash.hex()}

    @classmethod
    def of(cls, headers: Headers) -> Position:
        """Raises ValueError that names what was expected."""
        seq, digest = headers.get(subjects.LOG_SEQ, ""), headers.get(subjects.LOG_HASH, "")
        try:
            return cls(int(seq), bytes.fromhex(digest))
        except ValueError:
            raise ValueError(
                f"{subjects.LOG_SEQ} {seq!r}, {subjects.LOG_HASH} {digest!r}: expected a number and hexadecimal digits"
            ) from None


START = Position()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A commit in force, its parts joined. `seq` and `headers` are those of its last message."""

    seq: int
    commit: log_pb2.Commit
    position: Position
    headers: Headers


class Chain:
    """Judges one message after the other. Pure: no bus, no clock. `head` is the last commit in force; None to begin
    with: the first one that is there, whatever it hangs on, since a log may have been trimmed."""

    def __init__(self, head: Position | None, read_as: type[log_pb2.Commit] = log_pb2.Commit) -> None:
        self.head = head or START
        self._read_as = read_as
        self.voided = 0  # messages found void, those of parts given up included
        self._anywhere = head is None
        self._parts: list[log_pb2.Commit] = []
        self._tip = self.head  # what the next part hangs on
        self._older: deque[Position] = deque(maxlen=limits.REMEMBERED_COMMITS)  # before the head, in order

    def accept(self, message: Message) -> LogEntry | None:
        """The commit that is in force with this message, or None: it is void, or more parts are to come. Raises
        ChangedPast. Messages have to come in the order of their sequence, without gaps."""
        try:
            commit = self._read_as.FromString(message.payload)
        except DecodeError:
            self.voided += 1
            return None
        if self._anywhere and commit.part == 0:
            self._anywhere, self.head = False, Position(commit.parent, commit.parent_hash)
        if not self._hangs(commit):
            self._explain(commit, message.seq)
            self.voided += 1
            return None
        if commit.part == 0:
            self.voided += len(self._parts)
            self._parts = []
        position = Position(message.seq, digest_of(message.payload))
        self._parts.append(commit)
        self._tip = position
        if commit.more:
            return None
        self._older.append(self.head)
        parts, self._parts, self.head = self._parts, [], position
        return LogEntry(message.seq, join(parts), position, message.headers)

    def _hangs(self, commit: log_pb2.Commit) -> bool:
        """A first part hangs on the head, a further one on the part before it."""
        if commit.part != 0 and commit.part != len(self._parts):
            return False
        parent = self.head if commit.part == 0 else self._tip
        if commit.parent != parent.seq:
            return False
        if commit.parent_hash != parent.hash:
            raise ChangedPast(
                f"a commit hangs on {commit.parent} with hash {commit.parent_hash.hex() or 'none'}, "
                f"but what was read there has {parent.hash.hex() or 'none'}"
            )
        return True

    def _explain(self, commit: log_pb2.Commit, seq: int) -> None:
        """Why it is void: its leader had not seen the head, or had died. Raises ChangedPast when it is neither."""
        if commit.part:
            return
        parent = Position(commit.parent, commit.parent_hash)
        remembered = self._older[0].seq if self._older else self.head.seq
        if commit.parent < remembered or parent in self._older:
            return
        raise ChangedPast(
            f"the commit at {seq} hangs on {commit.parent}, which is not in force: whoever wrote it has read another "
            f"log than this one, whose head is {self.head.seq}"
        )


def join(parts: list[log_pb2.Commit]) -> log_pb2.Commit:
    """Parts concatenate by decisions. A decision without a command at the start of a further part continues the last
    one."""
    whole = parts[0]
    for part in parts[1:]:
        decisions = part.decisions
        if decisions and not decisions[0].command and whole.decisions:
            whole.decisions[-1].facts.extend(decisions[0].facts)
            whole.decisions.extend(decisions[1:])
        else:
            whole.decisions.extend(decisions)
    whole.more = False
    return whole


def cut(commit: log_pb2.Commit, limit: int) -> Iterator[log_pb2.Commit]:
    """The parts of a commit, each at most `limit` bytes once it is chained; the commit itself when it is not larger.
    Raises ValueError when one fact alone is too large."""
    if commit.ByteSize() + limits.CHAIN_ROOM_BYTES <= limit:
        yield commit
        return
    room = limit - limits.CHAIN_ROOM_BYTES
    part, left = _empty(commit), room
    for decision in commit.decisions:
        size = decision.ByteSize() + limits.AROUND_FACT_BYTES
        if left < size <= room:
            yield part
            part, left = _empty(commit), room
        if size <= left:
            part.decisions.append(decision)
            left -= size
            continue
        piece, left = _open(part, decision, first=True), left - _frame(decision)
        for fact in decision.facts:
            size = fact.ByteSize() + limits.AROUND_FACT_BYTES
            if size > left:
                yield part
                part = _empty(commit)
                piece, left = _open(part, decision, first=False), room - limits.AROUND_FACT_BYTES
                if size > left:
                    raise ValueError(
                        f"a fact of {size - limits.AROUND_FACT_BYTES} bytes does not fit into a commit of {limit} bytes"
                    )
            piece.facts.append(fact)
            left -= size
    yield part


def _empty(commit: log_pb2.Commit) -> log_pb2.Commit:
    return log_pb2.Commit(inbox_seq=commit.inbox_seq, now_ms=commit.now_ms, epoch=commit.epoch)


def _frame(decision: log_pb2.Decision) -> int:
    """Bytes of a decision without its facts."""
    texts = (decision.command, decision.correlation_id, decision.traceparent)
    return limits.AROUND_FACT_BYTES * 5 + sum(len(text.encode()) for text in texts)


def _open(part: log_pb2.Commit, decision: log_pb2.Decision, first: bool) -> log_pb2.Decision:
    if not first:
        return part.decisions.add(inbox_seq=0)
    return part.decisions.add(
        inbox_seq=decision.inbox_seq,
        command=decision.command,
        correlation_id=decision.correlation_id,
        traceparent=decision.traceparent,
        request_seq=decision.request_seq,
        request_part=decision.request_part,
    )


class LogReader:
    """Follows the log of one RM. `position` is the last commit in force, `last_seq` the last message read, valid or
    void."""

    def __init__(
        self, bus: Bus, rm_id: str, reader: Reader, after: Position | None, read_as: type[log_pb2.Commit]
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._subject = subjects.log(rm_id)
        self._reader = reader
        self._chain = Chain(after, read_as)
        self.last_seq = after.seq if after is not None else 0

    @classmethod
    async def open(
        cls,
        bus: Bus,
        rm_id: str,
        after: Position | None = START,
        *,
        again: bool = False,
        read_as: type[log_pb2.Commit] = log_pb2.Commit,
    ) -> LogReader:
        """What follows the commit `after`; with `again`, that one first. None: from the first that is there. `read_as`:
        another class for the same bytes. Raises ChangedPast when the log does not hold that commit any more."""
        stream, subject = subjects.LOG.name, subjects.log(rm_id)
        if again and after is not None and after.seq:
            before = await _before(bus, rm_id, after)
            return cls(bus, rm_id, await bus.read(stream, subject, before.seq), before, read_as)
        known = after or START
        return cls(bus, rm_id, await bus.read(stream, subject, known.seq, known.hash), after, read_as)

    @property
    def position(self) -> Position:
        return self._chain.head

    @property
    def voided(self) -> int:
        return self._chain.voided

    async def batch(self, max_messages: int = 1_000, timeout_s: float | None = None) -> list[LogEntry]:
        """Commits in force, from the messages that are there; waits for the first (at most `timeout_s`, then []).
        Raises ChangedPast, Unreadable."""
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while True:
            left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
            entries = await self._some(max_messages, left)
            if entries or (left is not None and left <= 0.0):
                return entries

    async def to_end(self, max_messages: int = 1_000) -> AsyncIterator[list[LogEntry]]:
        """All that was in the log when this was called; afterwards `last_seq` is what a writer has to expect."""
        end = await self._bus.last(subjects.LOG.name, self._subject)
        while end is not None and self.last_seq < end.seq:
            yield await self._some(max_messages, None)

    async def close(self) -> None:
        await self._reader.close()

    async def _some(self, max_messages: int, timeout_s: float | None) -> list[LogEntry]:
        messages = await self._reader.batch(max_messages, timeout_s=timeout_s)
        voided = self._chain.voided
        try:
            entries = [entry for message in messages if (entry := self._chain.accept(message)) is not None]
        except ChangedPast:
            await self._check_head()
            if not self.position.seq and (parent := await beginning(self._bus, self._rm_id)):
                raise Unreadable(f"{self._subject} has been trimmed up to {parent}, before it was read") from None
            raise
        if messages:
            self.last_seq = messages[-1].seq
        if self._chain.voided > voided:
            log.warning("void messages in the log", subject=self._subject, count=self._chain.voided - voided)
            await self._check_head()
        return entries

    async def _check_head(self) -> None:
        """When something does not hang on it: that may be because it is gone."""
        head = self.position
        await check_commit(self._bus, self._rm_id, head)
        if head.seq and await self._bus.message(subjects.LOG.name, head.seq) is None:
            raise Unreadable(f"{self._subject} has been trimmed beyond {head.seq}, up to which it was read")


async def beginning(bus: Bus, rm_id: str) -> int:
    """The commit on which the first one hangs; 0: the log is whole. (It is never trimmed up to what is no commit.)"""
    first = await bus.first(subjects.LOG.name, subjects.log(rm_id))
    try:
        return 0 if first is None else log_pb2.Commit.FromString(first.payload).parent
    except DecodeError:
        return 0


async def check_commit(bus: Bus, rm_id: str, position: Position) -> None:
    """Raises ChangedPast when the log does not hold that commit, and has not just been trimmed beyond it."""
    stream, subject = subjects.LOG.name, subjects.log(rm_id)
    if position.seq and not await witness(bus, stream, subject, position.seq, position.hash):
        first = await bus.first(stream, subject)
        if first is not None and log_pb2.Commit.FromString(first.payload).parent == 0:
            raise ChangedPast(f"{subject} begins at {first.seq}, but had been read up to {position.seq}")


async def check_told(bus: Bus, rm_id: str) -> None:
    """Raises ChangedPast when callbacks or events tell of what the log does not hold."""
    told = [(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS]
    told.append((subjects.EVENTS.name, subjects.event(rm_id)))
    newest = await asyncio.gather(*(bus.last(stream, subject) for stream, subject in told))
    positions = {Position.of(one.headers) for one in newest if one is not None and subjects.LOG_SEQ in one.headers}
    await asyncio.gather(*(check_commit(bus, rm_id, position) for position in positions))


async def _before(bus: Bus, rm_id: str, position: Position) -> Position:
    """The commit on which that one hangs. Raises ChangedPast, Unreadable."""
    await check_commit(bus, rm_id, position)
    seq = position.seq
    while True:
        message = await bus.message(subjects.LOG.name, seq)
        if message is None:
            raise Unreadable(f"{subjects.log(rm_id)} has been trimmed beyond {seq}, from which it was to be read on")
        part = log_pb2.Commit.FromString(message.payload)
        if part.part == 0:
            return Position(part.parent, part.parent_hash)
        seq = part.parent


class LogWriter:
    """Appends commits of the leader of one RM. `position` is the commit in force they hang on, `last_seq` the last
    message on the subject, valid or void (`LogReader.last_seq` after `to_end()`). One append at a time."""

    def __init__(self, bus: Bus, rm_id: str, position: Position, last_seq: int | None = None) -> None:
        self._bus = bus
        self._subject = subjects.log(rm_id)
        self._limit = bus.max_payload - limits.HEADER_ROOM_BYTES
        self._last_seq = position.seq if last_seq is None else last_seq
        self._lost: str | None = None
        self.position = position

    async def append(self, commit: log_pb2.Commit, headers: Headers | None = None) -> Position:
        """Fills in parent, parent_hash, part and more; returns once the commit is durable and in force. Raises
        LostLeadership, from then on always; Full or NobodyListens, after which the same commit may be tried again;
        ValueError when a fact is too large for a message."""
        if self._lost is not None:
            raise LostLeadership(self._lost)
        parts = list(cut(commit, self._limit))
        tip = self.position
        for number, part in enumerate(parts):
            part.parent, part.parent_hash = tip.seq, tip.hash
            part.part, part.more = number, number < len(parts) - 1
            payload = part.SerializeToString()
            tip = Position(await self._write(payload, headers), digest_of(payload))
        self.position = tip
        return tip

    async def _write(self, payload: bytes, headers: Headers | None) -> int:
        try:
            self._last_seq = await self._bus.append(
                self._subject, payload, headers, expect_last=self._last_seq, timeout_s=limits.ANSWER_WITHIN_S
            )
        except Refused as error:
            self._lost = f"{self._subject}: someone else has written after {self._last_seq} ({error.reason})"
            raise LostLeadership(self._lost) from error
        except NobodyListens:
            raise  # it has reached no stream: nothing is in doubt
        except Unanswered as error:
            self._lost = (
                f"{self._subject}: whether the commit after {self._last_seq} was written is not known ({error})"
            )
            raise LostLeadership(self._lost) from error
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                self._lost = f"{self._subject}: an append was cancelled"
            raise
        return self._last_seq
