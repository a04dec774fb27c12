"""Follows the log of one resource manager: brings the core to where its leader is, so that it can lead at any moment.

Arithmetic only: facts are applied, nothing is decided, and there is no scheduling index."""

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
    """`position` is the commit the core stands at, after `facts` facts since it was opened."""

    def __init__(self, bus: Bus, core: Core) -> None:
        self._bus = bus
        self._core = core
        self._reader: LogReader
        self.position = Position()
        self.facts = 0
        self.moved: Callable[[], None] = lambda: None

    async def open(self, position: Position) -> None:
        """Go on after that commit, where the core stands. Returns when it is hot."""
        self._core.index.forget()
        self.position, self.facts = position, 0
        self._reader = await LogReader.open(self._bus, self._core.state.rm_id, position, commit_class=schema.Commit)
        await self.catch_up()

    async def follow(self) -> None:
        """Does not return. Raises HistoryChanged, Unreadable; cancelling it loses nothing."""
        while True:
            await self._apply(await self._reader.batch(limits.COMMITS_FOLLOWED_AT_ONCE))

    async def catch_up(self) -> None:
        """Returns at what is the end of the log now."""
        async for entries in self._reader.read_to_end(limits.COMMITS_FOLLOWED_AT_ONCE):
            await self._apply(entries)

    async def close(self) -> LogWriter:
        """What writes on where the reading ends."""
        await self._reader.close()
        return LogWriter(self._bus, self._core.state.rm_id, self._reader.position, self._reader.last_seq)

    async def _apply(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            self.facts += replay.apply(self._core, entry.commit)
        self.position = self._reader.position
        self.moved()
        await asyncio.sleep(0)  # there may be more RMs in this process, some of them led
