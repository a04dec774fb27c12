"""Pages of stories: together they are the whole story, and what has come since is read without what came before."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_events.stories.story import StoryTarget
from remuda_events.story_queries import StoryQueries
from remuda_events.story_reader import StoryReading
from remuda_replication.log import LogReader

from .history_log import RM, write


async def story(bus: MemoryBus, **request: Any) -> dict[str, Any]:
    reply = await bus.request(subjects.story(RM), msgspec.json.encode({"id": "app-1", **request}))
    found: dict[str, Any] = msgspec.json.decode(reply.payload)
    return found


@pytest.fixture
async def bus() -> MemoryBus:
    bus = MemoryBus()
    await StoryQueries(bus).serve()
    return bus


def texts(page: dict[str, Any]) -> list[tuple[int, str]]:
    return [(line["log_seq"], line["text"]) for line in page["lines"]]


async def test_pages_are_the_whole_story_and_go_on_with_what_comes(bus: MemoryBus, monkeypatch: Any) -> None:
    await write(bus, 3, 0, 5, 2)
    whole = await story(bus)
    assert len(whole["lines"]) == 10 and "next" not in whole
    found, after = [], None
    while True:
        page = await story(bus, limit=2, **({} if after is None else {"after": after}))
        found += texts(page)
        if "next" not in page:
            break
        assert "resume" not in page
        after = page["next"]
    assert found == texts(whole)
    nothing = await story(bus, after=page["resume"])
    assert nothing["lines"] == []
    read: list[int] = []
    opened = LogReader.open

    async def noted(*arguments: Any, **options: Any) -> LogReader:
        read.append(options.get("behind", 0))
        return await opened(*arguments, **options)

    await write(bus, 1)
    monkeypatch.setattr(LogReader, "open", noted)
    assert len((await story(bus, after=nothing["resume"]))["lines"]) == 1
    assert read == [0, 3], "the first commit for the head, and from the last commit of the page before on"


async def test_an_allocation_goes_on_with_its_ask(bus: MemoryBus) -> None:
    """The allocation is found by its UUID; later its ask is found by its key."""
    await write(bus, 1)
    first = await story(bus, id="u-0-0")
    assert len(first["lines"]) == 1
    await write(bus, 1)  # another allocation of the same ask
    assert len((await story(bus, id="u-0-0", after=first["resume"]))["lines"]) == 1


async def test_a_story_since_some_time_reads_no_older_commits() -> None:
    now_s = [1_000.0]
    bus = MemoryBus(clock=lambda: now_s[0])
    await write(bus, 1, 1)
    now_s[0] += 3_600
    await write(bus, 1)
    since_ms = round(1_000 * time.time())
    reading = await StoryReading.since(bus, RM, StoryTarget("app-1"), since_ms)
    assert reading.behind == 2 and [line.log_seq async for line in reading.lines()] == [3]
    long_ago = await StoryReading.since(bus, RM, StoryTarget("app-1"), 1)
    assert [line.log_seq async for line in long_ago.lines()] == [1, 2, 3]
    now_s[0] += 3_600
    later = await StoryReading.since(bus, RM, StoryTarget("app-1"), since_ms)
    assert later.behind == 0, "where clocks differ that much, everything is read"


async def test_a_log_that_cannot_be_read_from_there_is_read_from_its_beginning(bus: MemoryBus) -> None:
    """A void commit of a late leader, whose parent has another child."""
    await write(bus, 1)
    late = (await bus.message_at("LOG", 1)).payload  # type: ignore[union-attr]
    await write(bus, 1)
    await bus.append(subjects.log(RM), late)
    await write(bus, 1)
    reading = StoryReading(bus, RM, StoryTarget("app-1"), behind=2)
    assert [line.log_seq async for line in reading.lines()] == [1, 2, 4]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [("since_ms", -1, "since_ms is -1, expected a number from 0"), ("since_ms", "x", "since_ms"),
     ("after", "x", "after"), ("after", [1], "after"), ("limit", -1, "limit is -1, expected a number from 1")],
)  # fmt: skip
async def test_what_cannot_be_read_is_refused(bus: MemoryBus, field: str, value: object, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        await story(bus, **{field: value})
