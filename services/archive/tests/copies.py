"""What tests of the archive write into the streams of an RM, copy, and read from a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from remuda_archive import limits
from remuda_archive.copying import Copying
from remuda_archive.holdings import Holdings, holdings_of, prefix_of
from remuda_archive.segments import INBOX, LOG, Header, Record, decode
from remuda_archive.store import Store
from remuda_archive.verify import Finding, Verified, verify
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogReader, LogWriter
from tests.patience import PATIENCE

RM = "rm:1"
HOUR = limits.HOUR_MS
NOON = 1_800_000_000_000 // HOUR * HOUR


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20.0 * PATIENCE):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def write(bus: Bus, *times_ms: int, rm: str = RM) -> None:
    """A command into the inbox, and the commit that has read it, for each time."""
    reader = await LogReader.open(bus, rm)
    async for _ in reader.read_to_end():
        pass
    await reader.close()
    writer = LogWriter(bus, rm, reader.position, reader.last_seq)
    for now_ms in times_ms:
        command = await bus.append(subjects.inbox(rm), f"command at {now_ms}".encode())
        commit = log_pb2.Commit(now_ms=now_ms, inbox_seq=command)
        commit.decisions.add(command="Tick", inbox_seq=command)
        await writer.append(commit)


async def streams(bus: Bus, rm: str = RM) -> list[tuple[int, int, bytes]]:
    """What the streams of the RM have: stream, sequence, payload."""
    found = []
    for kind, stream, subject in (
        (INBOX, subjects.inbox_stream(rm), subjects.inbox(rm)),
        (LOG, subjects.log_stream(rm), subjects.log(rm)),
    ):
        reader = await bus.read(stream, subject)
        while messages := await reader.batch(timeout_s=0.0):
            found += [(kind, one.seq, one.payload) for one in messages]
        await reader.close()
    return sorted(found)


async def held(store: Store, rm: str = RM) -> Holdings:
    return holdings_of(rm, await store.names(prefix_of(rm)))


async def segments(store: Store, rm: str = RM) -> list[tuple[Header, list[Record]]]:
    return [decode(await store.get(one.name) or b"") for one in (await held(store, rm)).segments]


async def archived(store: Store, rm: str = RM) -> list[tuple[int, int, bytes]]:
    return sorted((one.stream, one.seq, one.payload) for _, some in await segments(store, rm) for one in some)


async def findings(store: Store, rm: str = RM) -> list[Finding]:
    return [one async for one in verify(store, rm, Verified())]


@asynccontextmanager
async def copying(bus: Bus, store: Store, write_s: float = 0.0) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(Copying(bus, RM, store, write_s).run())
    try:
        yield task
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def copied(bus: Bus, store: Store) -> None:
    """Copy until the archive has the newest commit."""
    last = await bus.last_message(subjects.log_stream(RM), subjects.log(RM))
    assert last is not None
    async with copying(bus, store) as task:
        await until(lambda: reaches(store, last.seq, task))


async def reaches(store: Store, seq: int, task: asyncio.Task[None]) -> bool:
    if task.done():
        return True
    found = (await held(store)).segments
    return bool(found) and found[-1].end >= seq
