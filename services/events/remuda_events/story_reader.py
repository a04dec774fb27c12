"""Reads stories from the log, which needs no core and covers what is no longer in the state."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, LogTrimmed
from remuda_events import limits
from remuda_events.stories.story import Story, StoryLine, StoryTarget
from remuda_replication.log import LogEntry, LogReader, first_part


def lines(bus: Bus, rm: str, sought: StoryTarget) -> AsyncIterator[StoryLine]:
    """All lines of a story."""
    return StoryReading(bus, rm, sought).lines()


@dataclass
class StoryReading:
    """A reading of one log. `behind`: the stream sequence behind which it begins, 0: at the beginning. `begun`: the
    target was mentioned before that. `end`: the last commit that was read, 0: none."""

    bus: Bus
    rm: str
    target: StoryTarget
    behind: int = 0
    begun: bool = False
    end: int = 0

    @classmethod
    async def since(cls, bus: Bus, rm: str, target: StoryTarget, since_ms: int) -> StoryReading:
        """A reading of the commits that the log has received since `since_ms`. The clocks of the core and of the server
        may differ a little."""
        age_s = time.time() - since_ms / 1_000 + limits.STORY_MARGIN_S
        first = await bus.first_sequence_since(subjects.log_stream(rm), subjects.log(rm), max(0.0, age_s))
        return cls(bus, rm, target, 0 if first is None else first - 1)

    @classmethod
    async def resumed(cls, bus: Bus, rm: str, target: StoryTarget, log_seq: int) -> StoryReading:
        """Reads on from the commit at `log_seq`, which another reading has reached; from the beginning where the log no
        longer has it."""
        try:
            first, _ = await first_part(bus, rm, log_seq)
        except LogTrimmed:
            first = 1
        return cls(bus, rm, target, first - 1, begun=True)

    async def lines(self) -> AsyncGenerator[StoryLine]:
        """The first fact shows whether the ID is an allocation. Then the log is read again, because the story of an
        allocation includes its ask."""
        story = Story(self.target, self.begun)
        async with aclosing(self._lines_of(story)) as found:
            async for line in found:
                if story.restart_as is not None:
                    break
                yield line
        if story.restart_as is not None:
            self.target = story.restart_as
            async for line in self._lines_of(Story(self.target)):
                yield line

    async def _lines_of(self, story: Story) -> AsyncGenerator[StoryLine]:
        async with aclosing(_entries(self.bus, self.rm, self.behind)) as entries:
            async for entry in entries:
                self.end = entry.seq
                for line in story.lines_of(entry.seq, entry.commit):
                    yield line


async def first_commit(bus: Bus, rm: str) -> LogEntry | None:
    """The oldest commit in the log."""
    async with aclosing(_entries(bus, rm, at_once=1)) as entries:
        async for first in entries:
            return first
    return None


async def _entries(bus: Bus, rm: str, behind: int = 0, at_once: int = 1_000) -> AsyncGenerator[LogEntry]:
    """The commits behind a stream sequence. A log that begins there with a void message cannot be read from there: then
    all of its commits."""
    reader = await LogReader.open(bus, rm, None, behind=behind)
    yielded = False
    try:
        async for entries in reader.read_to_end(at_once):
            for entry in entries:
                yielded = True
                yield entry
        return
    except HistoryChanged:
        if not behind or yielded:
            raise
    finally:
        await reader.close()
    async with aclosing(_entries(bus, rm)) as every:
        async for entry in every:
            yield entry
