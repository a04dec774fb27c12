"""Writes an archive of a bus in memory, without the archive's process: segments as `remuda_archive` encodes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from remuda_archive.holdings import segment_name, snapshot_name
from remuda_archive.segments import (
    INBOX,
    LOG,
    At,
    Header,
    Record,
    SnapshotHeader,
    digest_behind,
    encode,
    encode_snapshot,
)
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_replication.log import START, Chain

COMMITS_OF_A_SEGMENT = 200


class Recorder:
    """What becomes durable of one RM, as it comes: streams may be trimmed behind it."""

    def __init__(self, bus: MemoryBus, rm: str) -> None:
        self.rm = rm
        self.log: list[Message] = []
        self.inbox: list[Message] = []
        self._bus = bus

    async def follow(self) -> None:
        await asyncio.gather(
            self._follow(subjects.log_stream(self.rm), subjects.log(self.rm), self.log),
            self._follow(subjects.inbox_stream(self.rm), subjects.inbox(self.rm), self.inbox),
        )

    async def _follow(self, stream: str, subject: str, into: list[Message]) -> None:
        reader = await self._bus.read(stream, subject)
        while True:
            into += await reader.batch()

    async def write(self, store: Store) -> None:
        for header, records in segments(self.rm, self.log, self.inbox):
            name = segment_name(self.rm, header.since_ms, header.first, header.end.seq)
            await store.put(name, encode(header, records))


def segments(rm: str, log: Sequence[Message], inbox: Sequence[Message]) -> list[tuple[Header, list[Record]]]:
    """The messages of a log that begins with its first commit, COMMITS_OF_A_SEGMENT in each."""
    found: list[tuple[Header, list[Record]]] = []
    chain, after, inbox_after, waiting = Chain(START), At(), At(), list(inbox)
    chain_end, commits = Chain(START), list[int]()
    records: list[Record] = []
    since_ms = until_ms = inbox_seq = 0
    ends = [one.seq for one in log if chain_end.accept(one) is not None]
    for message in log:
        records.append(Record.of(LOG, message))
        if (entry := chain.accept(message)) is not None:
            commits.append(entry.seq)
            inbox_seq = max(inbox_seq, entry.commit.inbox_seq)
            since_ms, until_ms = since_ms or entry.commit.now_ms, entry.commit.now_ms
        if entry is None or (len(commits) < COMMITS_OF_A_SEGMENT and entry.seq != ends[-1]):
            continue
        read = [Record.of(INBOX, one) for one in waiting if one.seq <= inbox_seq]
        waiting = waiting[len(read) :]
        inbox_end = At(max([inbox_seq, *(one.seq for one in read)]), digest_behind(inbox_after.digest, read))
        header = Header(
            rm=rm, first=records[0].seq, after=after, end=At.of(chain.head), inbox_after=inbox_after,
            inbox_end=inbox_end, since_ms=since_ms, until_ms=until_ms, commits=len(commits),
            messages=len(read) + len(records),
        )  # fmt: skip
        found.append((header, read + records))
        after, inbox_after, commits, records, since_ms = header.end, inbox_end, [], [], 0
    return found


async def write_snapshot(store: Store, rm: str, seq: int, now_ms: int, state: bytes) -> None:
    await store.put(snapshot_name(rm, now_ms, seq), encode_snapshot(SnapshotHeader(rm=rm, seq=seq), state))
