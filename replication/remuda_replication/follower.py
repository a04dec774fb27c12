"""Follows the log of one RM, so that the process can take over from the leader at any time.

A follower applies facts. It decides nothing, and holds nothing that only decisions need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from remuda_bus import limits
from remuda_bus.bus import Bus
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogEntry, LogReader, LogWriter, Position
from remuda_replication.machine import Machine


class Follower:
    """`position`: the last commit that was applied. `facts`: how many facts were applied since `open`.
    `applied` is called with each commit that was applied."""

    def __init__(self, bus: Bus, machine: Machine) -> None:
        self._bus = bus
        self._machine = machine
        self._reader: LogReader
        self.position = Position()
        self.facts = 0
        self.moved: Callable[[], None] = lambda: None
        self.applied: Callable[[log_pb2.Commit], None] = lambda _: None

    async def open(self, position: Position) -> None:
        """Continue after the commit at `position`, which is the state of the machine. Returns at the end of the log."""
        self._machine.follow_only()
        self.position, self.facts = position, 0
        self._reader = await LogReader.open(
            self._bus, self._machine.log_id, position, commit_class=self._machine.commit_class
        )
        await self.catch_up()

    async def follow(self) -> None:
        """Apply commits until cancelled, which loses nothing. Raises HistoryChanged, LogTrimmed, Unreadable."""
        while True:
            entries = await self._reader.batch(limits.COMMITS_FOLLOWED_AT_ONCE)
            await self._apply(entries)
            if entries:
                self._machine.metrics.count_applied(entries[-1].commit.now_ms)

    async def catch_up(self) -> None:
        """Apply the commits that the log holds at the time of the call."""
        async for entries in self._reader.read_to_end(limits.COMMITS_FOLLOWED_AT_ONCE):
            await self._apply(entries)

    async def close(self) -> LogWriter:
        """Stop reading. Returns a writer that continues after the last commit read."""
        await self._reader.close()
        return LogWriter(self._bus, self._machine.log_id, self._reader.position, self._reader.last_seq)

    async def _apply(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            self.facts += self._machine.apply(entry.commit)
            self.applied(entry.commit)
        self.position = self._reader.position
        self.moved()
        await asyncio.sleep(0)  # let other RMs of this process work
