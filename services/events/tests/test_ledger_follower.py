"""The ledger on the bus: the same hours, wherever its process ends; a log that was rebuilt or trimmed; none at all."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy
from remuda_events import limits
from remuda_events.ledger import followers
from remuda_events.ledger.follower import CheckpointMoved, Ledger, end_ledger
from remuda_events.shell import publish
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import bookmark_of, note_rebuilt
from remuda_operations.ledger.hours import HOUR_MS
from remuda_proto.remuda.v1 import log_pb2, snapshot_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter, Position
from remuda_replication.snapshots import SnapshotListing, name_of
from tests.failing_bus import FailingBus
from tests.patience import PATIENCE

from .history_log import register, running
from .test_ledger import BEGIN_MS, MINUTE, accepted, allocated, allocation, at, node, released

RM = "rm:1"


def day() -> list[log_pb2.Commit]:
    """Some allocations, through some hours, with a preemption and an hour without use."""
    commits = [at(0, node(vcore=100), accepted("app"), accepted("b", user="bob"))]
    for number in range(12):
        commits.append(
            at(number * 17 * MINUTE, allocated("app" if number % 3 else "b", f"u{number}", vcore=number + 1))
        )
        if number > 2:
            why = si.PREEMPTED_BY_SCHEDULER if number == 7 else si.STOPPED_BY_RM
            name = f"u{number - 3}"
            commits.append(at(number * 17 * MINUTE + 5, released("app" if (number - 3) % 3 else "b", name, why)))
    commits.append(at(4 * HOUR_MS, *(released("app" if n % 3 else "b", f"u{n}") for n in (9, 10, 11))))
    commits.append(at(7 * HOUR_MS, allocated("app", "last", memory=2**50)))
    commits.append(at(8 * HOUR_MS, released("app", "last")))
    commits.append(at(9 * HOUR_MS))
    return commits


async def write(bus: Bus, commits: Iterable[log_pb2.Commit]) -> None:
    reader = await LogReader.open(bus, RM, None)
    async for _ in reader.read_to_end():
        pass
    await reader.close()
    writer = LogWriter(bus, RM, reader.position, reader.last_seq)
    for commit in commits:
        await writer.append(commit)


async def follow_to_end(bus: Bus, at_once: int = 3) -> Ledger:
    """What a process does until it has followed the whole log."""
    listing = SnapshotListing(bus)
    ledger = await Ledger.open(bus, RM, (), listing)
    reader = await ledger.open_log(listing)
    async for entries in reader.read_to_end(at_once):
        await ledger.follow(entries)
    await reader.close()
    return ledger


async def messages(bus: MemoryBus) -> list[tuple[str, bytes]]:
    """All hours, as they are in the stream."""
    last = await bus.last_message(subjects.LEDGER.name, subjects.ledger(RM, "*"))
    reader = await bus.read(subjects.LEDGER.name, subjects.ledger(RM, "*"))
    found: list[tuple[str, bytes]] = []
    while last is not None and len(found) < await bus.message_count(subjects.LEDGER.name, subjects.ledger(RM, "*")):
        found += [(message.subject, message.payload) for message in await reader.batch()]
    await reader.close()
    return found


async def sums(bus: MemoryBus) -> dict[tuple[int, str], int]:
    """By hour since the begin, and kind."""
    found: dict[tuple[int, str], int] = defaultdict(int)
    for _, payload in await messages(bus):
        part = hours.decode(payload)
        for key, amounts in hours.rows_of(part):
            found[(part.hour_ms - BEGIN_MS) // HOUR_MS, key.kind] += sum(amounts.values())
    return dict(found)


async def bus_with(commits: Sequence[log_pb2.Commit]) -> MemoryBus:
    bus = MemoryBus()
    await write(bus, commits)
    return bus


async def test_the_same_hours_wherever_its_process_ends() -> None:
    bus = await bus_with(day())
    await follow_to_end(bus)
    straight = await messages(bus)
    assert [subject.rpartition(".")[2] for subject, _ in straight] == [
        str(BEGIN_MS // HOUR_MS + hour) for hour in (0, 1, 2, 3, 7)
    ]
    number, ended = 0, True
    while ended:
        number += 1
        for after in (False, True):
            bus = await bus_with(day())
            failing = FailingBus(bus, number, Unanswered("the process is killed"), after=after)
            try:
                await follow_to_end(failing)
            except Unanswered:
                await follow_to_end(bus)
            assert await messages(bus) == straight, f"ended {'after' if after else 'before'} call {number}"
            ended = failing.failed
    assert number > 20


async def test_two_processes_that_both_write_write_each_hour_once() -> None:
    bus = await bus_with(day())
    listing = SnapshotListing(bus)
    one, two = [await Ledger.open(bus, RM, (), listing) for _ in range(2)]
    reader = await one.open_log(listing)
    entries = [entry async for some in reader.read_to_end() for entry in some]
    await one.follow(entries[:20])
    with pytest.raises(CheckpointMoved):
        await two.follow(entries)
    written = await messages(bus)
    await one.follow(entries[20:])
    assert await messages(bus) == written
    alone = await bus_with(day())
    await follow_to_end(alone)
    assert await messages(alone) == written


async def test_a_log_that_was_rebuilt_goes_on_with_what_is_reported_anew() -> None:
    bus = await bus_with([at(0, accepted("app"), allocated("app", "u1", vcore=3)), at(HOUR_MS + MINUTE)])
    await follow_to_end(bus)
    last = await bus.last_message(subjects.LOG.name, subjects.log(RM))
    assert last is not None
    await bus.trim(subjects.LOG.name, subjects.log(RM), last.seq + 1)
    await note_rebuilt(bus, RM)
    ledger = await follow_to_end(bus)  # nothing has come yet
    assert ledger.position == Position()
    writer = LogWriter(bus, RM, Position(), 0)
    await writer.append(at(HOUR_MS + 3 * MINUTE, accepted("app")))
    recovered = log_pb2.AllocationRecovered(allocation=allocation("app", "u1", vcore=3))
    await writer.append(at(HOUR_MS + 4 * MINUTE, log_pb2.Fact(allocation_recovered=recovered)))
    await writer.append(at(2 * HOUR_MS))
    await follow_to_end(bus)
    assert await sums(bus) == {
        (0, "used"): 3 * HOUR_MS,
        (1, "used"): 3 * (MINUTE + HOUR_MS - 4 * MINUTE),
        (1, "unreported"): 3 * 3 * MINUTE,
    }


async def test_a_ledger_of_a_log_without_its_begin_starts_at_a_snapshot() -> None:
    bus = await bus_with([at(0), at(MINUTE, accepted("app"), allocated("app", "u1", vcore=2)), at(2 * MINUTE)])
    reader = await LogReader.open(bus, RM)
    positions = [entry.position async for entries in reader.read_to_end() for entry in entries]
    await reader.close()
    await store_snapshot(bus, positions[1])
    await bus.trim(subjects.LOG.name, subjects.log(RM), positions[1].seq)
    await write(bus, [at(5 * MINUTE, released("app", "u1", si.PREEMPTED_BY_SCHEDULER)), at(HOUR_MS)])
    await follow_to_end(bus)
    assert await sums(bus) == {(0, "used"): 2 * 4 * MINUTE, (0, "lost"): 2 * 5 * MINUTE}


async def test_a_log_that_was_trimmed_beyond_the_checkpoint_goes_on_at_a_snapshot() -> None:
    bus = await bus_with([at(0, accepted("app"), allocated("app", "u0", vcore=1)), at(HOUR_MS + 10)])
    await follow_to_end(bus)
    await write(
        bus, [at(HOUR_MS + 20), at(HOUR_MS + MINUTE, allocated("app", "u1", vcore=2)), at(HOUR_MS + 2 * MINUTE)]
    )
    reader = await LogReader.open(bus, RM)
    positions = [entry.position async for entries in reader.read_to_end() for entry in entries]
    await reader.close()
    await store_snapshot(bus, positions[3])
    await bus.trim(subjects.LOG.name, subjects.log(RM), positions[3].seq)
    await write(bus, [at(HOUR_MS + 3 * MINUTE, released("app", "u1")), at(2 * HOUR_MS)])
    await follow_to_end(bus)
    assert await sums(bus) == {(0, "used"): HOUR_MS, (1, "used"): 10 + 2 * 2 * MINUTE}


async def store_snapshot(bus: Bus, position: Position) -> None:
    """Of the state in which `u1` runs, a minute behind the begin of the hour."""
    made = snapshot_pb2.Snapshot(format=1, rm_id=RM, log_seq=position.seq, log_hash=position.hash)
    hour_ms = BEGIN_MS if position.seq == 2 else BEGIN_MS + HOUR_MS
    made.records.add().rm.now_ms = hour_ms + MINUTE
    made.records.add().application.accepted.CopyFrom(accepted("app"))
    record = made.records.add().allocation
    record.fact.CopyFrom(allocated("app", "u1", vcore=2))
    record.at_ms = BEGIN_MS
    made.complete = len(made.records)

    await bus.put_object(subjects.SNAPSHOTS.name, name_of(RM, position.seq), parts_of(made.SerializeToString()))


async def test_the_log_is_kept_from_the_checkpoint_on_and_the_one_before_is_kept_for_backups() -> None:
    bus = await bus_with(day())
    ledger = await follow_to_end(bus)
    bookmark, _ = await bookmark_of(bus, RM)
    assert bookmark is not None
    assert (bookmark.seq, bytes.fromhex(bookmark.hash)) == (ledger.position.seq, ledger.position.hash)
    assert (bookmark.begun_ms, bookmark.closed_ms) == (BEGIN_MS, BEGIN_MS + 9 * HOUR_MS)
    kept = {name_of(RM, bookmark.seq), name_of(RM, bookmark.before)}
    assert set(await bus.object_names(subjects.LEDGERS.name)) == kept
    await end_ledger(bus, RM)
    assert await bus.object_names(subjects.LEDGERS.name) == []
    assert (await bookmark_of(bus, RM))[0] is None
    assert len(await messages(bus)) == 5
    await follow_to_end(bus)  # and it may be kept again
    assert len(await messages(bus)) == 5


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("damage", [b"", None])
async def test_a_damaged_checkpoint_costs_nothing_that_the_log_has(damage: bytes | None, both: bool) -> None:
    alone = await bus_with(day())
    await follow_to_end(alone)
    bus = await bus_with(day()[:20])
    await follow_to_end(bus)
    bookmark, _ = await bookmark_of(bus, RM)
    assert bookmark is not None
    for seq in (bookmark.seq, *((bookmark.before,) if both else ())):
        await bus.delete_object(subjects.LEDGERS.name, name_of(RM, seq))
        if damage is not None:
            await bus.put_object(subjects.LEDGERS.name, name_of(RM, seq), parts_of(damage))
    await write(bus, day()[20:])
    await follow_to_end(bus)
    assert await messages(bus) == await messages(alone)


async def parts_of(payload: bytes):
    yield payload


async def test_a_ledger_is_known_from_its_first_commit_on() -> None:
    bus = await bus_with([at(MINUTE)])
    await follow_to_end(bus)
    bookmark, _ = await bookmark_of(bus, RM)
    assert bookmark is not None
    assert (bookmark.begun_ms, bookmark.closed_ms) == (BEGIN_MS + MINUTE, BEGIN_MS)


async def test_an_hour_is_closed_long_after_its_end_though_no_commit_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEDGER_QUIET_S", 0.01)
    bus = await bus_with([at(0, accepted("app"), allocated("app", "u1", vcore=1))])
    ledger = await Ledger.open(bus, RM, (), SnapshotListing(bus))
    reader = await ledger.open_log(SnapshotListing(bus))
    now_s = (BEGIN_MS + HOUR_MS + limits.LEDGER_CLOSES_AFTER_MS) / 1_000 - 0.02

    class Clock:
        @staticmethod
        def time() -> float:
            return now_s

    monkeypatch.setattr(followers, "time", Clock)
    async with running(followers._follow(ledger, reader)):
        await until(lambda: ledger.closes_at_ms() is not None)
        assert await messages(bus) == []
        now_s += 0.02
        await until(lambda: ledger.closes_at_ms() == BEGIN_MS + 2 * HOUR_MS + limits.LEDGER_CLOSES_AFTER_MS)
    assert await sums(bus) == {(0, "used"): HOUR_MS}
    assert (await follow_to_end(bus)).closes_at_ms() == ledger.closes_at_ms()


async def until(condition) -> None:
    async with asyncio.timeout(20 * PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_service_keeps_ledgers_only_if_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_RETRY", RetryPolicy(0.01))
    bus = await bus_with(day())
    await register(bus, RM)
    async with running(publish(bus, ledger_tags=("project",))):
        async with asyncio.timeout(20 * PATIENCE):
            while len(await messages(bus)) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert (await bookmark_of(bus, RM))[0] is not None
    async with running(publish(bus)):
        async with asyncio.timeout(20 * PATIENCE):
            while (await bookmark_of(bus, RM))[0] is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
