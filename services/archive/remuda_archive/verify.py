"""Looks for damage in an archive: `remuda archive verify`.

Each object has to be what was written, each segment has to follow the one before in both chains, and the messages of a
segment have to be the chain that its header names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from remuda_archive.holdings import Holdings, holdings_of, prefix_of, segment_name, snapshot_name
from remuda_archive.segments import LOG, At, Damaged, Header, Record, decode, decode_snapshot, digest_behind
from remuda_archive.store import Store
from remuda_bus import subjects
from remuda_bus.bus import HistoryChanged
from remuda_replication.log import Chain


@dataclass(frozen=True, slots=True)
class Finding:
    """`name`: of the object, or of the one behind a gap. `is_gap`: messages that were trimmed before they were read, as
    the archive itself has said; everything else is damage."""

    name: str
    text: str
    is_gap: bool = False


@dataclass(slots=True)
class Verified:
    """The numbers of what was read so far."""

    segments: int = 0
    commits: int = 0
    snapshots: int = 0
    bytes: int = 0


async def verify(store: Store, rm: str, verified: Verified) -> AsyncIterator[Finding]:
    """Yield what is wrong with the archive of an RM, in the order of the log. Raises StoreFailed."""
    held = holdings_of(rm, await store.names(prefix_of(rm)))
    for name in held.foreign:
        yield Finding(name, "it does not have a name of the archive")
    before: Header | None = None
    for one in held.segments:
        verified.segments += 1
        verified.bytes += one.size
        try:
            header, records = await asyncio.to_thread(decode, await store.content(one.name))
        except Damaged as error:
            yield Finding(one.name, str(error))
            continue
        try:
            expected = segment_name(header.rm, header.since_ms, header.first, header.end.seq)
            _check_name(one.name, rm, header.rm, expected)
            await asyncio.to_thread(_check_chains, header, records)
        except (Damaged, HistoryChanged) as error:
            yield Finding(one.name, str(error))
        for finding in _between(one.name, before, header):
            yield finding
        before = header
        verified.commits += header.commits
    async for finding in _snapshots(store, held, verified):
        yield finding


def _check_name(name: str, rm: str, said_rm: str, expected: str) -> None:
    """`expected`: the name by the header, whose hour may be another one. Raises Damaged."""
    if said_rm != rm:
        raise Damaged(f"its header names the RM {said_rm}")
    if name.rpartition("/")[2] != expected.rpartition("/")[2]:
        raise Damaged(f"by its header, its name is {expected}")


def _check_chains(header: Header, records: list[Record]) -> None:
    """Raises Damaged, HistoryChanged."""
    chain = Chain(header.after.position)
    subject, commits, inbox_seq = subjects.log(header.rm), 0, 0
    for record in records:
        if record.stream == LOG and (entry := chain.accept(record.message(subject))) is not None:
            commits += 1
            inbox_seq = max(inbox_seq, entry.commit.inbox_seq)
    end = At.of(chain.head)
    if end != header.end or commits != header.commits:
        raise Damaged(
            f"its {commits} commits end at {end.seq}, and the header names {header.commits} up to {header.end.seq}"
        )
    if digest_behind(header.inbox_after.digest, records) != header.inbox_end.digest:
        raise Damaged("the messages of the inbox do not have the digest that the header names")
    if inbox_seq > header.inbox_end.seq:
        raise Damaged(
            f"its commits have read the inbox up to {inbox_seq}, and it has messages up to {header.inbox_end.seq}"
        )


def _between(name: str, before: Header | None, header: Header) -> list[Finding]:
    """The findings between two segments."""
    found = []
    if header.lost_after:
        found.append(Finding(name, f"the log between {header.lost_after} and {header.first} was trimmed before", True))
    elif before is not None and not header.begins and before.end != header.after:
        found.append(
            Finding(name, f"it follows {header.after.seq}, and the segment before it ends at {before.end.seq}")
        )
    if header.inbox_lost:
        found.append(Finding(name, "some messages of the inbox were trimmed before they were read", True))
    elif before is not None and before.inbox_end != header.inbox_after and before.end == header.after:
        found.append(Finding(name, "its inbox does not follow that of the segment before it"))
    return found


async def _snapshots(store: Store, held: Holdings, verified: Verified) -> AsyncIterator[Finding]:
    for one in held.snapshots:
        try:
            header, _ = await asyncio.to_thread(decode_snapshot, await store.content(one.name))
            _check_name(one.name, held.rm, header.rm, snapshot_name(header.rm, 0, header.seq))
        except Damaged as error:
            yield Finding(one.name, str(error))
        verified.snapshots += 1
        verified.bytes += one.size
