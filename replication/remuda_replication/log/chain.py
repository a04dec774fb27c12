"""The chain of commits: which messages of the log are in force. Pure: no bus, no clock.

A commit that is too large for one message is split into parts, and joined again. Commits may be of any class with the
envelope of `log_pb2.Commit`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Headers, HistoryChanged, Message
from remuda_bus.streams.history_check import digest_of
from remuda_bus.untrusted import Malformed, number_in, shortened
from remuda_proto.remuda.v1 import log_pb2

# The part of a commit that is left free for parent, parent_hash, part and the like.
CHAIN_ROOM_BYTES = 128
# Tag and length of a decision or a fact.
AROUND_FACT_BYTES = 8
# Commits whose positions a chain keeps. A commit with an older parent is rare, and void anyway.
REMEMBERED_COMMITS = 1_000

HASH = re.compile(r"([0-9a-fA-F]{2}){0,32}")


@dataclass(frozen=True, slots=True)
class Position:
    """A commit in force: the stream sequence and the SHA-256 of its last message. (0, b"") is before the first one."""

    seq: int = 0
    hash: bytes = b""

    def headers(self) -> dict[str, str]:
        """The headers of a message that is derived from this commit. With them a reader can check that the log still
        holds the commit."""
        return {subjects.LOG_SEQ: str(self.seq), subjects.LOG_HASH: self.hash.hex()}

    @classmethod
    def of(cls, headers: Headers) -> Position:
        """The position in the headers of a callback or an event. Raises Malformed, a ValueError that names the
        header."""
        seq, digest = number_in(headers, subjects.LOG_SEQ), headers.get(subjects.LOG_HASH, "")
        if not HASH.fullmatch(digest):
            raise Malformed(f"{subjects.LOG_HASH} {shortened(digest)!r}: expected at most 64 hexadecimal digits")
        return cls(seq, bytes.fromhex(digest))


START = Position()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A commit in force, with its parts joined. `seq` and `headers`: those of its last message."""

    seq: int
    commit: log_pb2.Commit
    position: Position
    headers: Headers


class Chain:
    """Judges the messages of a log one after the other.

    `head`: the last commit in force. None: the first message starts the chain, whatever its parent, because the log
    may have been trimmed. `commit_class`: the generated class that parses the payloads."""

    def __init__(self, head: Position | None, commit_class: type[log_pb2.Commit] = log_pb2.Commit) -> None:
        self.head = head or START
        self._commit_class = commit_class
        self.voided = 0  # void messages so far, including the parts of commits that were given up
        self._anywhere = head is None
        self._parts: list[log_pb2.Commit] = []
        self._tip = self.head  # the parent of the next part
        self._older: deque[Position] = deque(maxlen=REMEMBERED_COMMITS)  # before the head, in order

    def accept(self, message: Message) -> LogEntry | None:
        """Judge the next message, in stream order without gaps. Returns the commit that is in force with it; None: the
        message is void, or more parts are to come. Raises HistoryChanged."""
        try:
            commit = self._commit_class.FromString(message.payload)
        except DecodeError:
            self.voided += 1
            return None
        if self._anywhere and commit.part == 0:
            self._anywhere, self.head = False, Position(commit.parent, commit.parent_hash)
        if not self._has_valid_parent(commit):
            self._check_late_leader(commit, message.seq)
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
        return LogEntry(message.seq, join_parts(parts), position, message.headers)

    def _has_valid_parent(self, commit: log_pb2.Commit) -> bool:
        """Whether the commit has the right parent: the head for a first part, the part before for any other. Raises
        HistoryChanged when the parent's sequence is right and its hash is not."""
        if commit.part != 0 and commit.part != len(self._parts):
            return False
        parent = self.head if commit.part == 0 else self._tip
        if commit.parent != parent.seq:
            return False
        if commit.parent_hash != parent.hash:
            raise HistoryChanged(
                f"a commit has the parent {commit.parent} with hash {commit.parent_hash.hex() or 'none'}, "
                f"but the commit read there has {parent.hash.hex() or 'none'}"
            )
        return True

    def _check_late_leader(self, commit: log_pb2.Commit, seq: int) -> None:
        """Check that a leader that was too late explains the void commit. Raises HistoryChanged otherwise."""
        if commit.part:
            return
        parent = Position(commit.parent, commit.parent_hash)
        remembered = self._older[0].seq if self._older else self.head.seq
        if commit.parent < remembered or parent in self._older:
            return
        raise HistoryChanged(
            f"the commit at {seq} has the parent {commit.parent}, which is not in force: its writer read another "
            f"log than this one, whose head is {self.head.seq}"
        )


FACTS = "facts"  # the field of a decision with its facts


class FactTooLarge(ValueError):
    """One fact alone is larger than a commit may be. `inbox_seq`: the sequence of the command that led to the fact; 0:
    no command did."""

    def __init__(self, inbox_seq: int, size: int, limit: int) -> None:
        super().__init__(f"a fact of {size} bytes does not fit into a commit of {limit} bytes")
        self.inbox_seq = inbox_seq


def join_parts(parts: list[log_pb2.Commit]) -> log_pb2.Commit:
    """The commit that the parts make up. A decision without a command at the start of a further part continues the last
    decision of the part before. Changes the first part."""
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


def split_commit(commit: log_pb2.Commit, limit: int) -> Iterator[log_pb2.Commit]:
    """Yield the parts of a commit, each at most `limit` bytes once parent and hash are filled in. Yields the commit
    itself when it is not larger. Raises FactTooLarge when one fact alone is."""
    if commit.ByteSize() + CHAIN_ROOM_BYTES <= limit:
        yield commit
        return
    room = limit - CHAIN_ROOM_BYTES
    part, left = _empty(commit), room
    for decision in commit.decisions:
        size = decision.ByteSize() + AROUND_FACT_BYTES
        if left < size <= room:
            yield part
            part, left = _empty(commit), room
        if size <= left:
            part.decisions.append(decision)
            left -= size
            continue
        piece, left = _open(part, decision, first=True), left - _frame(decision)
        for fact in decision.facts:
            size = fact.ByteSize() + AROUND_FACT_BYTES
            if size > left:
                yield part
                part = _empty(commit)
                piece, left = _open(part, decision, first=False), room - AROUND_FACT_BYTES
                if size > left:
                    raise FactTooLarge(decision.inbox_seq, size - AROUND_FACT_BYTES, limit)
            piece.facts.append(fact)
            left -= size
    yield part


def _empty(commit: log_pb2.Commit) -> log_pb2.Commit:
    return type(commit)(inbox_seq=commit.inbox_seq, now_ms=commit.now_ms, epoch=commit.epoch)


def _frame(decision: log_pb2.Decision) -> int:
    """An upper bound of the bytes of a decision without its facts."""
    return AROUND_FACT_BYTES * 5 + sum(
        len(value.encode() if isinstance(value, str) else value)
        for _, value in decision.ListFields()
        if isinstance(value, str | bytes)
    )


def _open(part: log_pb2.Commit, decision: log_pb2.Decision, first: bool) -> log_pb2.Decision:
    if not first:
        return part.decisions.add(inbox_seq=0)
    values = {field.name: value for field, value in decision.ListFields() if field.name != FACTS}
    return part.decisions.add(**values)
