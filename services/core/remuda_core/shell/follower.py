"""Follows the log of one RM, so that the core can take over from the leader at any time.

A follower applies facts. It decides nothing and has no scheduling index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from remuda_bus.bus import Bus
from remuda_bus.log import LogEntry, LogReader, LogWriter, Position

from .. import limits
from ..core import Core
from ..wire import schema
from . import replay


class Follower:
    """`position`: the last commit that was applied. `facts`: how many facts were applied since `open`."""

    def __init__(self, bus: Bus, core: Core) -> None:
        self._bus = bus
        self._core = core
        self._reader: LogReader
        self.position = Position()
        self.facts = 0
        self.moved: Callable[[], None] = lambda: None

    async def open(self, position: Position) -> None:
        """Continue after the commit at `position`, which is the state of the core. Returns at the end of the log."""
        self._core.index.forget()
        self.position, self.facts = position, 0
        self._reader = await LogReader.open(self._bus, self._core.state.rm_id, position, commit_class=schema.Commit)
        await self.catch_up()

    async def follow(self) -> None:
        """Apply commits until cancelled, which loses nothing. Raises HistoryChanged, LogTrimmed, Unreadable."""
        while True:
            await self._apply(await self._reader.batch(limits.COMMITS_FOLLOWED_AT_ONCE))

    async def catch_up(self) -> None:
        """Apply the commits that the log holds at the time of the call."""
        async for entries in self._reader.read_to_end(limits.COMMITS_FOLLOWED_AT_ONCE):
            await self._apply(entries)

    async def close(self) -> LogWriter:
        """Stop reading. Returns a writer that continues after the last commit read."""
        await self._reader.close()
        return LogWriter(self._bus, self._core.state.rm_id, self._reader.position, self._reader.last_seq)

    async def _apply(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            self.facts += replay.apply(self._core, entry.commit)
        self.position = self._reader.position
        self.moved()
        await asyncio.sleep(0)  # let other RMs of this process work
