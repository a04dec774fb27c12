"""Reads the log of one RM: commits in force, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, LogTrimmed, Message, Reader
from remuda_bus.metrics import VOID_MESSAGES, rm_label
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log.chain import START, Chain, LogEntry, Position
from remuda_replication.log.checks import check_commit, check_retained, first_parent, first_part

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
