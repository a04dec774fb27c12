"""Copies the log and the inbox of one RM into the archive.

The last commit in the store is where the copy goes on: nothing else is remembered, so a process that is killed at any
step loses nothing that the log still has. A segment is closed when it is large, when it is old, and at the end of an
hour. Messages that were written twice are in one segment that lies within another, or in two of one name."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left

import structlog

from remuda_archive import limits, metrics
from remuda_archive.holdings import Segment, holdings_of, hour_of, prefix_of, segment_name, snapshot_name
from remuda_archive.segments import (
    INBOX,
    LOG,
    At,
    Damaged,
    Header,
    Record,
    SnapshotHeader,
    digest_behind,
    encode,
    encode_snapshot,
    header_of,
)
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_bus.metrics import rm_label
from remuda_replication.log import START, Chain, Position, first_parent
from remuda_replication.snapshots import SnapshotListing, name_of

log = structlog.get_logger()


class Copying:
    """The copy of one RM. A run that has ended with an error begins anew with what the store has by then. `first`: a
    commit, and the sequence up to which the inbox was read there: an empty copy begins behind them; None: with the
    oldest commit of the log."""

    def __init__(
        self, bus: Bus, rm_id: str, store: Store, write_s: float, listing: SnapshotListing | None = None,
        first: tuple[Position, int] | None = None,
    ) -> None:  # fmt: skip
        self._bus = bus
        self._rm_id = rm_id
        self._store = store
        self._write_s = write_s
        self._listing = listing or SnapshotListing(bus)
        self._first = first
        self._label = rm_label(rm_id)
        self._snapshots: set[str] = set()  # the hours that have one

    async def run(self) -> None:
        """Copy what is missing between segments, where the log still has it, and then follow the log until cancelled.
        Raises StoreFailed, BusError, HistoryChanged."""
        held = holdings_of(self._rm_id, await self._store.names(prefix_of(self._rm_id)))
        self._snapshots = {one.hour for one in held.snapshots}
        oldest = await self._bus.first_message(subjects.log_stream(self._rm_id), subjects.log(self._rm_id))
        # Nothing can be filled between segments before the log, of which an archive has thousands.
        known = bisect_left(held.segments, oldest.seq, key=lambda one: one.end) if oldest else len(held.segments)
        before: Header | None = None
        for segment in reversed(held.segments[:known]):
            if (before := await self._header(segment)) is not None:
                break
        for segment in held.segments[known:]:
            header = await self._header(segment)
            if header is not None:
                await self._fill(before, header)
                before = header
        await self._copy(before, None)

    async def _header(self, segment: Segment) -> Header | None:
        """None: the object is damaged, and what it held is copied again where the log still has it."""
        try:
            return header_of(await self._store.beginning(segment.name, segment.size, limits.HEADER_BYTES))
        except Damaged as error:
            log.error("a segment of the archive is damaged", rm=self._rm_id, name=segment.name, error=str(error))
            return None

    async def _fill(self, before: Header | None, behind: Header) -> None:
        end = At() if before is None else before.end
        if not behind.begins and behind.after != end:
            first = await self._bus.first_message(subjects.log_stream(self._rm_id), subjects.log(self._rm_id))
            if first is not None and first.seq < behind.first:
                await self._copy(before, behind)

    async def _copy(self, last: Header | None, until: Header | None) -> None:
        """Copy what follows the segment `last`, up to the segment `until`; None: without end."""
        begun = await self._begin(last)
        stream, subject = subjects.log_stream(self._rm_id), subjects.log(self._rm_id)
        reader = await self._bus.read(stream, subject, begun.read_behind.seq, begun.read_behind.hash)
        try:
            while True:
                messages = await reader.batch(limits.MESSAGES_AT_ONCE, timeout_s=begun.left_s(self._write_s))
                for message in messages:
                    if until is not None and message.seq >= until.first:
                        await self._write(begun)
                        return
                    begun.take(message)
                    if begun.is_full:
                        await self._write(begun)
                if begun.left_s(self._write_s) == 0.0:
                    await self._write(begun)
                metrics.LAG_SECONDS.labels(self._label).set(begun.lag_s())
        finally:
            await reader.close()

    async def _begin(self, last: Header | None) -> _Begun:
        """An empty segment behind `last`, or behind what was trimmed or deleted since."""
        after, inbox = (START, At()) if last is None else (last.end.position, last.inbox_end)
        if last is None and self._first is not None:
            after, inbox = self._first[0], At(self._first[1])
        first = await self._bus.first_message(subjects.log_stream(self._rm_id), subjects.log(self._rm_id))
        parent = await first_parent(self._bus, self._rm_id)
        if first is not None and parent == 0 and first.seq > after.seq:
            return _Begun(self._rm_id, START, inbox)  # an RM that is new, was forgotten, or was rebuilt
        if parent <= after.seq:
            return _Begun(self._rm_id, after, inbox)
        metrics.GAPS.labels(self._label).inc()
        log.error("the log was trimmed before it was archived", rm=self._rm_id, after=after.seq, up_to=parent)
        return _Begun(self._rm_id, None, inbox, lost_after=after.seq or 1)

    async def _write(self, begun: _Begun) -> None:
        """Write the segment up to the last commit in force, and begin the next one behind it."""
        if not begun.commits:
            return
        await self._take_snapshot(begun.until_ms)
        inbox, is_lost = await self._read_inbox(begun)
        header, records = begun.closed(inbox, is_lost)
        content = await asyncio.to_thread(encode, header, records)
        await self._store.put(segment_name(self._rm_id, header.since_ms, header.first, header.end.seq), content)
        metrics.BYTES.labels(self._label).inc(len(content))
        begun.go_on(header)

    async def _read_inbox(self, begun: _Begun) -> tuple[list[Record], bool]:
        """The messages of the inbox that the segment's commits have read, and whether some of them were trimmed."""
        after, up_to, found = begun.inbox.seq, begun.inbox_seq, list[Record]()
        if up_to <= after:
            return [], False
        stream, subject = subjects.inbox_stream(self._rm_id), subjects.inbox(self._rm_id)
        first = await self._bus.first_message(stream, subject)
        reader = await self._bus.read(stream, subject, after)
        try:
            while not found or found[-1].seq < up_to:
                messages = await reader.batch(limits.MESSAGES_AT_ONCE, timeout_s=limits.INBOX_WITHIN_S)
                found += (Record.of(INBOX, message) for message in messages if message.seq <= up_to)
                if not messages or messages[-1].seq > up_to:
                    break
        finally:
            await reader.close()
        reaches_up_to = bool(found) and found[-1].seq == up_to
        # The oldest message that the stream has may follow what was read last, or what was trimmed since.
        begins_late = begun.read_behind != START and first is not None and bool(found) and found[0].seq == first.seq
        before = await self._bus.message_at(stream, after) if begins_late and after else None
        return found, not reaches_up_to or (begins_late and before is None)

    async def _take_snapshot(self, now_ms: int) -> None:
        """Copy the newest snapshot, once an hour: a past state is restored from there."""
        hour = hour_of(now_ms)
        if hour in self._snapshots:
            return
        for seq in reversed(await self._listing.kept(self._rm_id)):
            state = await self._bus.get_object(subjects.snapshots_of(self._rm_id), name_of(self._rm_id, seq))
            if state is not None:
                content = await asyncio.to_thread(encode_snapshot, SnapshotHeader(rm=self._rm_id, seq=seq), state)
                await self._store.put(snapshot_name(self._rm_id, now_ms, seq), content)
                self._snapshots.add(hour)
                return


class _Begun:
    """A segment that is being filled. `after`: the commit before it; None: the log was trimmed, so the first commit's
    parent is. `inbox`: where the inbox was read up to."""

    def __init__(self, rm: str, after: Position | None, inbox: At, lost_after: int = 0) -> None:
        self.inbox = inbox
        self.inbox_seq = inbox.seq
        self.commits = 0
        self.is_full = False
        self._rm = rm
        self._chain = Chain(after)
        self._after = after
        self._lost_after = lost_after
        self._records: list[Record] = []  # up to the last commit in force
        self._waiting: list[Record] = []  # behind it: parts of the next commit, and void messages
        self._size = 0
        self._since_ms = self.until_ms = 0
        self._begun_s = 0.0

    @property
    def read_behind(self) -> Position:
        return self._after or START

    def take(self, message: Message) -> None:
        """Add a message. A commit of another hour than the first one is the last of its segment. Raises
        HistoryChanged."""
        entry = self._chain.accept(message)
        self._size += len(message.payload)
        self._waiting.append(Record.of(LOG, message))
        if entry is None:
            return
        if self._after is None:
            self._after = Position(entry.commit.parent, entry.commit.parent_hash)
        now_ms = entry.commit.now_ms
        if not self.commits:
            self._since_ms, self.until_ms, self._begun_s = now_ms, now_ms, _now()
        self._since_ms, self.until_ms = min(self._since_ms, now_ms), max(self.until_ms, now_ms)
        self.commits += 1
        self.inbox_seq = max(self.inbox_seq, entry.commit.inbox_seq)
        self._records += self._waiting
        self._waiting = []
        hours = {self._since_ms // limits.HOUR_MS, self.until_ms // limits.HOUR_MS}
        self.is_full = self._size >= limits.SEGMENT_BYTES or len(hours) > 1

    def left_s(self, write_s: float) -> float | None:
        """The time that the segment may wait for more commits, in seconds; None: the segment has no commits."""
        return max(0.0, self._begun_s + write_s - _now()) if self.commits else None

    def lag_s(self) -> float:
        return max(0.0, time.time() - self._since_ms / 1_000) if self.commits else 0.0

    def closed(self, inbox: list[Record], is_inbox_lost: bool) -> tuple[Header, list[Record]]:
        """The segment up to the last commit in force, with what these commits have read."""
        assert self._after is not None
        inbox_end = At(max([self.inbox_seq, *(one.seq for one in inbox)]), digest_behind(self.inbox.digest, inbox))
        records = inbox + self._records
        header = Header(
            rm=self._rm, first=self._records[0].seq, after=At.of(self._after), end=At.of(self._chain.head),
            inbox_after=self.inbox, inbox_end=inbox_end, since_ms=self._since_ms, until_ms=self.until_ms,
            commits=self.commits, messages=len(records), lost_after=self._lost_after, inbox_lost=is_inbox_lost,
        )  # fmt: skip
        return header, records

    def go_on(self, written: Header) -> None:
        """Begin the next segment behind the one that was written."""
        self._after, self.inbox = written.end.position, written.inbox_end
        self._lost_after, self.commits, self.is_full = 0, 0, False
        self._records, self._size = [], sum(len(one.payload) for one in self._waiting)


def _now() -> float:
    return asyncio.get_running_loop().time()
