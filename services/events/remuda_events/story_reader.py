"""Reads stories from the log, which needs no core and covers what is no longer in the state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from remuda_bus.bus import Bus
from remuda_events.stories.story import Story, StoryLine, StoryTarget
from remuda_replication.log import LogEntry, LogReader


async def lines(bus: Bus, rm: str, sought: StoryTarget) -> AsyncIterator[StoryLine]:
    """Find the first fact, which shows whether the ID is an allocation. Then read from the beginning, because the story
    of an allocation includes its ask."""
    first = Story(sought)
    async with aclosing(_lines_of(bus, rm, first)) as found:
        async for _ in found:
            break
        else:
            return
    async for line in _lines_of(bus, rm, Story(first.restart_as or sought)):
        yield line


async def first_commit(bus: Bus, rm: str) -> LogEntry | None:
    """The oldest commit in the log."""
    async with aclosing(_entries(bus, rm)) as entries:
        async for first in entries:
            return first
    return None


async def _lines_of(bus: Bus, rm: str, story: Story) -> AsyncGenerator[StoryLine]:
    async with aclosing(_entries(bus, rm)) as entries:
        async for entry in entries:
            for line in story.lines_of(entry.seq, entry.commit):
                yield line


async def _entries(bus: Bus, rm: str) -> AsyncGenerator[LogEntry]:
    reader = await LogReader.open(bus, rm, None)  # from the first commit that is kept
    try:
        async for entries in reader.read_to_end():
            for entry in entries:
                yield entry
    finally:
        await reader.close()
