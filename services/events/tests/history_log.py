"""A log with something to tell, and the history that has to come of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_events.event_records import event_records_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter, Position

RM = "rm:1"
NOW_MS = 1_700_000_000_000
WITHIN_S = 60.0

Line = tuple[int, int, bytes]  # sequence of the commit, index in it, the record


def commit_of(allocations: int, number: int = 0) -> log_pb2.Commit:
    """Two records for each allocation; none at all is a commit of which nothing is told."""
    commit = log_pb2.Commit(now_ms=NOW_MS + number)
    facts = commit.decisions.add(command="Schedule").facts
    facts.add(configuration_applied=log_pb2.ConfigurationApplied(checksum="C"))
    for index in range(allocations):
        allocation = si.Allocation(
            UUID=f"u-{number}-{index}", allocationKey=f"k{index}", applicationID="app-1", nodeID="n1"
        )
        facts.add(allocated=log_pb2.Allocated(allocation=allocation))
    return commit


async def register(bus: Bus, rm_id: str = RM) -> None:
    await bus.put(subjects.RMS.name, subjects.key_of(rm_id), b"{}")


async def write(bus: Bus, *sizes: int, rm_id: str = RM) -> None:
    """Continue the log with commits of so many allocations."""
    writer = await writer_of(bus, rm_id)
    for number, size in enumerate(sizes):
        await writer.append(commit_of(size, number))


async def writer_of(bus: Bus, rm_id: str = RM) -> LogWriter:
    reader = await LogReader.open(bus, rm_id)
    async for _ in reader.read_to_end():
        pass
    await reader.close()
    return LogWriter(bus, rm_id, reader.position, reader.last_seq)


async def expected(bus: Bus, rm_id: str = RM) -> list[Line]:
    """The records that the log requires."""
    reader = await LogReader.open(bus, rm_id, Position())
    lines = [
        (entry.seq, index, payload)
        async for entries in reader.read_to_end()
        for entry in entries
        for index, payload in enumerate(event_records_of(entry.commit))
    ]
    await reader.close()
    return lines


async def history_of(bus: Bus, records: int, rm_id: str = RM) -> list[Line]:
    """The first so many records of the history, waiting for them; and whatever is there beyond."""
    reader = await bus.read(subjects.EVENTS.name, subjects.event(rm_id))
    lines: list[Line] = []
    async with asyncio.timeout(WITHIN_S):
        while len(lines) < records:
            lines.extend(map(line, await reader.batch()))
    lines.extend(map(line, await reader.batch(timeout_s=0.05)))
    await reader.close()
    return lines


def line(message: Message) -> Line:
    headers = message.headers
    return int(headers[subjects.LOG_SEQ]), int(headers[subjects.EVENT_INDEX]), message.payload


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
