"""Reads an archive: the commits of a log with what they have read of the inbox, and the state at any of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from remuda_archive import limits
from remuda_archive.holdings import Holdings, Segment, Snapshot, holdings_of, hour_of, prefix_of
from remuda_archive.segments import INBOX, LOG, Damaged, Header, Record, decode, decode_snapshot, header_of
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged, Message
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.wire import schema
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import START, Chain, LogEntry, Position
from remuda_replication.machine import TimeSlice


class NoPast(ValueError):
    """The archive does not have what was asked for. The text names what it has, or what is missing."""


@dataclass(frozen=True, slots=True)
class At:
    """A commit by its sequence, or the last one at a time in ms since 1970. Neither: the last commit of the archive."""

    seq: int | None = None
    ms: int | None = None

    @property
    def text(self) -> str:
        """The moment as `when.at_of` reads it; empty: the last commit."""
        if self.seq is not None:
            return str(self.seq)
        return "" if self.ms is None else datetime.fromtimestamp(self.ms / 1_000, UTC).isoformat()

    def includes(self, entry: LogEntry) -> bool:
        if self.seq is not None:
            return entry.seq <= self.seq
        return self.ms is None or entry.commit.now_ms <= self.ms


LAST = At()


@dataclass(frozen=True, slots=True)
class Step:
    """A commit, and the messages of the inbox that it is the first to have read. `lacks_inbox`: messages before this
    commit were trimmed before they were archived."""

    entry: LogEntry
    inbox: tuple[Message, ...]
    lacks_inbox: bool

    @property
    def is_whole(self) -> bool:
        """Whether the archive has each message that the commit answers."""
        if self.lacks_inbox:
            return False
        known = {message.seq for message in self.inbox}
        for decision in self.entry.commit.decisions:
            if decision.inbox_seq and decision.inbox_seq not in known:
                return False
        return True


@dataclass(slots=True)
class Restored:
    """A state at a commit. `read_behind`: the sequence behind which the next commit is. `commits`: how many were
    applied to a snapshot, or to nothing."""

    core: Core
    position: Position
    read_behind: int
    commits: int = 0

    @property
    def now_ms(self) -> int:
        return self.core.state.now_ms


class Past:
    """The past of one RM in an archive. Methods raise NoPast, Damaged, HistoryChanged, StoreFailed."""

    def __init__(self, store: Store, held: Holdings) -> None:
        if not held.segments:
            raise NoPast(f"the archive {store.where} has no log of {held.rm!r}")
        self.rm = held.rm
        self._store = store
        self._held = held
        self._headers: dict[str, Header] = {}
        self._decoded: tuple[str, tuple[Header, list[Record]]] | None = None  # the last one that was read

    @classmethod
    async def open(cls, store: Store, rm: str) -> Past:
        return cls(store, holdings_of(rm, await store.names(prefix_of(rm))))

    async def restore(self, at: At = LAST) -> Restored:
        """The state at a commit, from the nearest snapshot before it."""
        end = await self._segment_of(at)
        up_to = await self._last_seq(end, at)
        for snapshot in reversed(self._held.snapshots):
            if snapshot.seq <= up_to and (found := await self._restored(snapshot, end)) is not None:
                break
        else:
            found = await self._from_the_beginning(end)
        machine = CoreMachine(found.core)
        async for step in self.steps(found, At(seq=up_to), CoreMachine.commit_class):
            machine.apply(step.entry.commit)
            found.position, found.commits = step.entry.position, found.commits + 1
        found.read_behind = up_to
        return found

    async def stretches(self) -> AsyncIterator[tuple[Restored, At]]:
        """The oldest state of each part of the archive without a gap, and the last commit of the part. The state is
        empty where a log begins, else that of the oldest snapshot. Parts without a snapshot are left out."""
        before: Header | None = None
        for number, segment in enumerate(self._held.segments):
            header = await self._header(segment)
            begins_one = before is None or header.begins or header.after != before.end
            before = header
            if not begins_one:
                continue
            end = await self._end_of_stretch(number)
            if header.begins:
                yield Restored(Core(self.rm), START, segment.first - 1), At(seq=end)
            else:
                for snapshot in self._held.snapshots:
                    if header.after.seq <= snapshot.seq <= end and (found := await self._read(snapshot)) is not None:
                        yield found, At(seq=end)
                        break

    async def beginning(self, since: At | None) -> Restored:
        """The state at `since`; None: the oldest of the last part of the archive without a gap."""
        if since is not None:
            return await self.restore(since)
        begins = [begin async for begin, _ in self.stretches()]
        if not begins:
            first = self._held.segments[0].first
            raise NoPast(f"the archive has no snapshot of {self.rm!r}, and begins with commit {first}")
        return begins[-1]

    async def parts(self, since: At | None, until: At = LAST) -> AsyncIterator[tuple[Restored, At]]:
        """The period that begins at `since`, with its state and its end; None: each part of the archive without a
        gap, up to `until`."""
        if since is not None:
            yield await self.restore(since), until
            return
        async for begin, end in self.stretches():
            yield begin, end if until == LAST else until

    async def follow(self, begin: Restored, until: At = LAST) -> AsyncIterator[Step]:
        """The same as `steps`. Each commit is applied to the state `begin` before the next one is yielded."""
        async for step in self.steps(begin, until):
            yield step
            replay.apply(begin.core, schema.Commit.FromString(step.entry.commit.SerializeToString()))
            begin.position, begin.read_behind = step.entry.position, step.entry.seq

    async def _end_of_stretch(self, number: int) -> int:
        end = self._held.segments[number].end
        for segment in self._held.segments[number + 1 :]:
            header = await self._header(segment)
            if header.begins or header.after.seq != end:
                break
            end = segment.end
        return end

    async def steps(
        self, begin: Restored, until: At = LAST, commit_class: type[log_pb2.Commit] = log_pb2.Commit
    ) -> AsyncIterator[Step]:
        """The commits behind the state `begin`, up to `until`, in order. An RM that was forgotten, or whose log was
        rebuilt, ends the steps: another log begins. `begin` may change meanwhile."""
        chain, behind, inbox_after = Chain(begin.position, commit_class), begin.read_behind, begin.core.state.inbox_seq
        inbox: deque[Message] = deque()
        slice_ = TimeSlice()
        log_subject, inbox_subject = subjects.log(self.rm), subjects.inbox(self.rm)
        lacks = is_listed_anew = False
        while (segment := next((one for one in self._held.segments if one.end > behind), None)) is not None:
            if until.seq is not None and chain.head.seq >= until.seq:
                return
            try:
                header, records = await self._content(segment)
            except Damaged:
                if is_listed_anew:
                    raise
                is_listed_anew = True  # the archive may have made one segment of several meanwhile
                self._held = holdings_of(self.rm, await self._store.names(prefix_of(self.rm)))
                continue
            if header.begins and chain.head.seq and header.first > behind:
                return
            if header.after.seq > chain.head.seq:
                raise NoPast(f"the archive does not have the commits behind {chain.head.seq} before {header.first}")
            is_listed_anew = False
            lacks = lacks or header.inbox_lost
            inbox += (one.message(inbox_subject) for one in records if one.stream == INBOX and one.seq > inbox_after)
            inbox_after = max(inbox_after, header.inbox_end.seq)
            for record in records:
                if record.stream != LOG or record.seq <= behind:
                    continue
                await slice_.pause_when_over()
                entry = chain.accept(record.message(log_subject))
                if entry is None:
                    continue
                if not until.includes(entry):
                    return
                taken = []
                while inbox and inbox[0].seq <= entry.commit.inbox_seq:
                    taken.append(inbox.popleft())
                yield Step(entry, tuple(taken), lacks)
                lacks = False
            if chain.head != header.end.position:
                raise HistoryChanged(f"{segment.name}: its commits end at {chain.head.seq}, its header names another")
            behind = segment.end

    @property
    def first_seq(self) -> int:
        """The sequence of the first message of the archive."""
        return self._held.segments[0].first

    @property
    def last_seq(self) -> int:
        """The sequence of the last commit of the archive."""
        return self._held.segments[-1].end

    async def span(self) -> tuple[int, int]:
        """The times of the first and the last commit of the archive, in ms since 1970."""
        first, last = self._held.segments[0], self._held.segments[-1]
        return (await self._header(first)).since_ms, (await self._header(last)).until_ms

    # Finding

    async def _segment_of(self, at: At) -> int:
        """The number of the segment that has the commit."""
        segments = self._held.segments
        if at.seq is not None:
            if not segments[0].first <= at.seq <= segments[-1].end:
                raise NoPast(
                    f"commit {at.seq}: the archive has those from {segments[0].first} up to {segments[-1].end}"
                )
            return next(number for number, one in enumerate(segments) if at.seq <= one.end)
        if at.ms is None:
            return len(segments) - 1
        low, high = 0, len(segments) - 1
        while low < high:  # the last segment that begins at the time or before it
            middle = (low + high + 1) // 2
            if (await self._header(segments[middle])).since_ms <= at.ms:
                low = middle
            else:
                high = middle - 1
        if (first := await self._header(segments[low])).since_ms > at.ms:
            raise NoPast(f"the archive of {self.rm!r} begins at {hour_of(first.since_ms)} o'clock (UTC), after that")
        return low

    async def _last_seq(self, number: int, at: At) -> int:
        """The sequence of the last commit in force in the segment that `at` includes."""
        segment = self._held.segments[number]
        if at.seq is not None:
            return at.seq
        if at.ms is None:
            return segment.end
        header, records = await self._content(segment)
        chain, found = Chain(header.after.position, CoreMachine.commit_class), header.after.seq
        for record in records:
            if record.stream == LOG and (entry := chain.accept(record.message(subjects.log(self.rm)))) is not None:
                if entry.commit.now_ms > at.ms:
                    break
                found = entry.seq
        return found

    async def _restored(self, snapshot: Snapshot, end: int) -> Restored | None:
        """The state of a snapshot; None: it cannot be read, or commits between it and the segment are missing or of
        another log."""
        for segment in reversed(self._held.segments[: end + 1]):
            if segment.end <= snapshot.seq:
                break
            header = await self._header(segment)
            if header.after.seq <= snapshot.seq:
                break
            if header.begins or header.lost_after:
                return None
        return await self._read(snapshot)

    async def _from_the_beginning(self, end: int) -> Restored:
        for segment in reversed(self._held.segments[: end + 1]):
            header = await self._header(segment)
            if header.begins:
                return Restored(Core(self.rm), START, segment.first - 1)
            if header.lost_after:
                raise NoPast(f"the archive does not have the commits behind {header.lost_after} before {header.first}")
        first = self._held.segments[0]
        raise NoPast(f"the archive has no snapshot of {self.rm!r} before that; it begins with commit {first.first}")

    # Reading

    async def _read(self, snapshot: Snapshot) -> Restored | None:
        try:
            _, payload = decode_snapshot(await self._store.content(snapshot.name))
        except Damaged:
            return None
        core = Core(self.rm)
        try:
            position = await CoreMachine(core).restore(payload)
            return Restored(core, position, position.seq)
        except Exception:  # noqa: BLE001 - an unreadable snapshot: the one before it serves
            return None

    async def _header(self, segment: Segment) -> Header:
        if (known := self._headers.get(segment.name)) is None:
            known = header_of(await self._store.beginning(segment.name, segment.size, limits.HEADER_BYTES))
            self._headers[segment.name] = known
        return known

    async def _content(self, segment: Segment) -> tuple[Header, list[Record]]:
        if self._decoded is None or self._decoded[0] != segment.name:
            content = await self._store.content(segment.name)
            self._decoded = segment.name, await asyncio.to_thread(decode, content)
        return self._decoded[1]
