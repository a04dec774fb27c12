"""Reading and writing the log, over both buses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus, Full, HistoryChanged, LogTrimmed, NoResponders, Unanswered, Unreadable
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import connect
from remuda_bus.streams.history_check import digest_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import (
    LogEntry,
    LogReader,
    LogWriter,
    LostLeadership,
    Position,
    check_commit,
    check_published,
    first_part,
)


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus(max_payload=64_000)
        return
    async with NatsServer(tmp_path / "nats", max_payload=64_000) as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        yield bus
        await bus.close()


def commit(command: str, facts: int = 1) -> log_pb2.Commit:
    made = log_pb2.Commit(now_ms=1)
    decision = made.decisions.add(command=command)
    for number in range(facts):
        decision.facts.add().node_removed.node_id = f"{command}-{number:06d}"
    return made


async def commands(reader: LogReader) -> list[str]:
    return [decision.command for entry in await reader.batch(timeout_s=5) for decision in entry.commit.decisions]


async def read_to_end(reader: LogReader) -> list[LogEntry]:
    return [entry async for entries in reader.read_to_end() for entry in entries]


async def test_write_and_follow(bus: Bus) -> None:
    writer = LogWriter(bus, "a", Position())
    reader = await LogReader.open(bus, "a")
    first = await writer.append(commit("one"), {"traceparent": "x"})
    assert await commands(reader) == ["one"]
    assert reader.position == first == writer.position
    second = await writer.append(commit("two"))
    (entry,) = await reader.batch(timeout_s=5)
    assert (entry.seq, entry.position, entry.commit.parent) == (second.seq, second, first.seq)
    assert await reader.batch(timeout_s=0.02) == []
    resumed = await LogReader.open(bus, "a", first)
    assert await commands(resumed) == ["two"]


async def test_each_rm_has_a_log_of_its_own(bus: Bus) -> None:
    a, b = LogWriter(bus, "a", Position()), LogWriter(bus, "b", Position())
    await a.append(commit("a1"))
    await b.append(commit("b1"))
    await a.append(commit("a2"))
    entries = await read_to_end(await LogReader.open(bus, "a"))
    assert [entry.commit.decisions[0].command for entry in entries] == ["a1", "a2"]


async def test_a_large_commit_comes_in_parts_and_is_read_as_one(bus: Bus) -> None:
    writer = LogWriter(bus, "a", Position())
    position = await writer.append(commit("large", facts=20_000))
    last = await bus.last_message(subjects.LOG.name, subjects.log("a"))
    assert last is not None
    assert last.seq > 3
    reader = await LogReader.open(bus, "a")
    (entry,) = await read_to_end(reader)
    (decision,) = entry.commit.decisions
    assert len(decision.facts) == 20_000
    assert entry.position == position
    await writer.append(commit("next"))
    assert await commands(reader) == ["next"]


async def test_a_second_leader_ends_the_first(bus: Bus) -> None:
    first = LogWriter(bus, "a", Position())
    await first.append(commit("one"))
    reader = await LogReader.open(bus, "a")
    await read_to_end(reader)
    second = LogWriter(bus, "a", reader.position, reader.last_seq)
    await second.append(commit("two"))
    for _ in range(2):
        with pytest.raises(LostLeadership):
            await first.append(commit("never"))
    assert await commands(reader) == ["two"]


async def test_a_leader_that_ended_within_a_commit(bus: Bus) -> None:
    dying = LogWriter(bus, "a", Position())
    head = await dying.append(commit("one"))
    part = commit("never")
    part.parent, part.parent_hash, part.more = head.seq, head.hash, True
    await bus.append(subjects.log("a"), part.SerializeToString())
    reader = await LogReader.open(bus, "a")
    await read_to_end(reader)
    assert (reader.position, reader.last_seq) == (head, head.seq + 1)
    born = LogWriter(bus, "a", reader.position, reader.last_seq)
    await born.append(commit("two"))
    assert await commands(reader) == ["two"]


async def test_void_messages_at_the_end_do_not_block(bus: Bus) -> None:
    await bus.append(subjects.log("a"), b"\xff not a commit")
    reader = await LogReader.open(bus, "a")
    assert await asyncio.wait_for(read_to_end(reader), 5) == []
    assert (reader.position, reader.last_seq, reader.voided) == (Position(), 1, 1)
    await LogWriter(bus, "a", reader.position, reader.last_seq).append(commit("one"))
    assert await commands(reader) == ["one"]


async def test_reading_from_a_commit_inclusively(bus: Bus) -> None:
    writer = LogWriter(bus, "a", Position())
    first = await writer.append(commit("one"))
    large = await writer.append(commit("large", facts=5_000))
    await writer.append(commit("three"))
    for position, found in ((first, ["one", "large", "three"]), (large, ["large", "three"])):
        reader = await LogReader.open(bus, "a", position, inclusive=True)
        assert [entry.commit.decisions[0].command for entry in await read_to_end(reader)] == found


async def test_a_position_that_the_log_does_not_hold(bus: Bus) -> None:
    position = await LogWriter(bus, "a", Position()).append(commit("one"))
    await LogWriter(bus, "b", Position()).append(commit("of another"))
    for again in (False, True):
        with pytest.raises(HistoryChanged, match="holds another message at 1"):
            await LogReader.open(bus, "a", Position(position.seq, digest_of(b"another")), inclusive=again)
        with pytest.raises(HistoryChanged, match=r"a message of remuda\.log\.b at 2"):
            await LogReader.open(bus, "a", Position(2, digest_of(b"another")), inclusive=again)
        with pytest.raises(HistoryChanged, match="ends at 2"):
            await LogReader.open(bus, "a", Position(3, digest_of(b"another")), inclusive=again)


async def test_a_trimmed_log(bus: Bus) -> None:
    writer = LogWriter(bus, "a", Position())
    one, two, three = [await writer.append(commit(name)) for name in ("one", "two", "three")]
    behind = await LogReader.open(bus, "a", one)
    await bus.trim(subjects.LOG.name, subjects.log("a"), three.seq)
    with pytest.raises(Unreadable, match="has been trimmed up to 2"):
        await read_to_end(await LogReader.open(bus, "a"))
    from_what_is_there = await LogReader.open(bus, "a", None)
    assert [entry.position for entry in await read_to_end(from_what_is_there)] == [three]
    with pytest.raises(Unreadable, match="trimmed beyond 1"):
        await read_to_end(await LogReader.open(bus, "a", one))
    with pytest.raises(Unreadable, match="trimmed beyond 2"):
        await LogReader.open(bus, "a", two, inclusive=True)
    assert [entry.position for entry in await read_to_end(await LogReader.open(bus, "a", three, inclusive=True))] == [
        three
    ]
    await behind.close()


async def test_the_first_part_of_a_commit_by_any_of_its_parts(bus: Bus) -> None:
    writer = LogWriter(bus, "a", Position())
    one = await writer.append(commit("one"))
    large = await writer.append(commit("large", facts=5_000))
    for seq in range(one.seq + 1, large.seq + 1):
        first, part = await first_part(bus, "a", seq)
        assert (first, part.part, part.parent) == (one.seq + 1, 0, one.seq)
    await bus.trim(subjects.LOG.name, subjects.log("a"), large.seq)
    with pytest.raises(LogTrimmed, match=f"trimmed beyond {large.seq - 1}"):
        await first_part(bus, "a", large.seq)


async def test_another_trimmed_log(bus: Bus) -> None:
    """The parent of its first commit is one of another log."""
    writer = LogWriter(bus, "a", Position())
    one, two, three = [await writer.append(commit(name)) for name in ("one", "two", "three")]
    await bus.trim(subjects.LOG.name, subjects.log("a"), three.seq)
    await check_commit(bus, "a", one)
    await check_commit(bus, "a", two)
    assert [entry.position for entry in await read_to_end(await LogReader.open(bus, "a", two))] == [three]
    another = Position(two.seq, digest_of(b"another"))
    with pytest.raises(HistoryChanged, match="begins at 3"):
        await check_commit(bus, "a", another)
    with pytest.raises(HistoryChanged, match="begins at 3"):
        await read_to_end(await LogReader.open(bus, "a", another))


async def test_an_append_to_a_full_log_may_be_retried() -> None:
    bus = MemoryBus()
    writer = LogWriter(bus, "a", Position())
    bus.resize(subjects.LOG.name, 10)
    with pytest.raises(Full):
        await writer.append(commit("one"))
    bus.resize(subjects.LOG.name, 10_000)
    await writer.append(commit("one"))
    assert await commands(await LogReader.open(bus, "a")) == ["one"]


async def test_an_unknown_outcome_ends_leadership(tmp_path: Path) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        writer = LogWriter(bus, "a", Position())
        await writer.append(commit("one"))
        appending = asyncio.ensure_future(writer.append(commit("two")))
        await asyncio.sleep(0)
        await server.kill()
        with pytest.raises(LostLeadership) as lost:
            await appending
            await writer.append(commit("three"))  # had the second one been acknowledged in time
        assert isinstance(lost.value.__cause__, Unanswered)
        await bus.close()


async def test_a_log_that_was_lost_and_restarted(bus: Bus) -> None:
    """After an undetected loss: the log starts behind the position that was read, without a parent."""
    old = await LogWriter(bus, "a", Position()).append(commit("one"))
    await LogWriter(bus, "b", Position()).append(commit("of another"))
    await bus.trim(subjects.LOG.name, subjects.log("a"), 100)
    with pytest.raises(HistoryChanged, match="lost its message 1, and all others"):
        await check_commit(bus, "a", old)
    await LogWriter(bus, "a", Position(), last_seq=0).append(commit("one again"))
    with pytest.raises(HistoryChanged, match="begins at 3"):
        await check_commit(bus, "a", old)
    with pytest.raises(HistoryChanged, match="begins at 3"):
        await read_to_end(await LogReader.open(bus, "a", old))


async def test_published_positions_are_compared_with_the_log(bus: Bus) -> None:
    position = await LogWriter(bus, "a", Position()).append(commit("one"))
    await bus.append(subjects.callback("a", "node"), b"", position.headers())
    await bus.append(subjects.callback("a", "dead_letter"), b"")
    await check_published(bus, "a")
    await bus.append(subjects.event("a"), b"", Position(position.seq, digest_of(b"another")).headers())
    with pytest.raises(HistoryChanged, match="holds another message at 1"):
        await check_published(bus, "a")


class Leaderless(MemoryBus):
    """A stream without a leader for a moment."""

    leaderless = True

    async def append(self, subject: str, payload: bytes, *arguments: Any, **options: Any) -> int:
        if self.leaderless:
            raise NoResponders(subject)
        return await super().append(subject, payload, *arguments, **options)


async def test_a_commit_without_responders_may_be_retried():
    bus = Leaderless()
    await bus.declare()
    writer = LogWriter(bus, "rm-1", Position())
    commit = log_pb2.Commit(now_ms=1)
    with pytest.raises(NoResponders):
        await writer.append(commit)
    bus.leaderless = False
    position = await writer.append(commit)
    reader = await LogReader.open(bus, "rm-1")
    assert [entry.position async for entries in reader.read_to_end() for entry in entries] == [position]


async def test_a_cancelled_reading_loses_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower is cancelled when its process is elected, also while it checks the head because of a void message."""
    bus = MemoryBus()
    writer = LogWriter(bus, "a", Position())
    await writer.append(commit("one"))
    await bus.append(subjects.log("a"), b"\xff not a commit")
    reader = await LogReader.open(bus, "a")
    check_head, checks = LogReader._check_head, asyncio.Event()

    async def never(_: LogReader) -> None:
        checks.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(LogReader, "_check_head", never)
    following = asyncio.create_task(reader.batch())
    await checks.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    monkeypatch.setattr(LogReader, "_check_head", check_head)
    assert [entry.seq for entry in await read_to_end(reader)] == [1]
    assert await read_to_end(reader) == []
