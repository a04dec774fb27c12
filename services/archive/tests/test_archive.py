"""The archive over the bus in memory: what it writes is what was there, whatever happens to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import structs

from remuda_archive.holdings import hour_of, prefix_of
from remuda_archive.segments import INBOX, LOG, Header, Record, decode, decode_snapshot, encode
from remuda_archive.store import Store, StoreFailed
from remuda_archive.tidying import Tidying
from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import START, LogWriter
from services.archive.tests.copies import (
    HOUR,
    NOON,
    RM,
    archived,
    copied,
    copying,
    findings,
    held,
    reaches,
    segments,
    streams,
    until,
    write,
)


@pytest.fixture
async def bus() -> MemoryBus:
    bus = MemoryBus()
    await bus.declare()
    return bus


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "archive"))


async def test_it_has_what_the_streams_had(bus: MemoryBus, store: Store) -> None:
    await write(bus, NOON, NOON + 1, NOON + 2)
    await copied(bus, store)
    await write(bus, NOON + HOUR)
    await copied(bus, store)
    assert await archived(store) == await streams(bus)
    assert await findings(store) == []
    names = [one.name for one in (await held(store)).segments]
    assert [name.split("/")[2] for name in names] == [hour_of(NOON), hour_of(NOON + HOUR)]
    assert (await segments(store))[0][0].begins


async def test_commits_that_come_soon_after_each_other_are_written_together(bus: MemoryBus, store: Store) -> None:
    await write(bus, *range(NOON, NOON + 5))
    async with copying(bus, store, write_s=3_600) as task:
        await write(bus, NOON + HOUR)
        await until(lambda: reaches(store, 1, task))
    assert [header.commits for header, _ in await segments(store)] == [6]


async def test_an_archive_that_stops_at_any_step_misses_nothing(bus: MemoryBus, tmp_path: Path) -> None:
    """The store refuses after so many changes, and a new process goes on."""
    await write(bus, *range(NOON, NOON + 3), *range(NOON + HOUR, NOON + HOUR + 3), NOON + 2 * HOUR)
    for allowed in range(9):
        store = Failing.open(str(tmp_path / str(allowed)))
        for store.allowed in (allowed, 1_000):
            try:
                for _ in range(2):
                    await copied(bus, store)
                    await tidied(store, NOON + 3 * HOUR)
            except StoreFailed:
                assert store.allowed == 0
        assert await archived(store) == await streams(bus)
        assert await findings(store) == []
        assert not (await held(store)).covered


async def test_the_segments_of_an_hour_that_has_ended_become_one(bus: MemoryBus, store: Store) -> None:
    for minute in range(4):
        await write(bus, NOON + 60_000 * minute)
        await copied(bus, store)
    await tidied(store, NOON + HOUR - 1)
    assert len((await held(store)).segments) == 4
    await tidied(store, NOON + HOUR)
    ((header, _),) = await segments(store)
    assert (header.commits, header.begins, header.since_ms, header.until_ms) == (4, True, NOON, NOON + 180_000)
    assert await archived(store) == await streams(bus)
    await write(bus, NOON + HOUR)
    await copied(bus, store)
    assert await findings(store) == []


async def test_whole_hours_go_when_they_are_too_old(bus: MemoryBus, store: Store) -> None:
    await write(bus, *(NOON + HOUR * hour for hour in range(5)))
    await copied(bus, store)
    await tidied(store, NOON + 4 * HOUR, keep_s=2 * 3_600)
    assert {one.hour for one in (await held(store)).segments} <= {hour_of(NOON + HOUR * hour) for hour in (2, 3, 4)}
    assert await findings(store) == []


async def test_the_oldest_hours_go_when_there_are_too_many_bytes(bus: MemoryBus, store: Store) -> None:
    for hour in range(5):
        await write(bus, NOON + HOUR * hour)
        await copied(bus, store)
    sizes = [one.size for one in (await held(store)).segments]
    await tidied(store, NOON + 4 * HOUR, max_bytes=sum(sizes) - 1)
    assert [one.size for one in (await held(store)).segments] == sizes[1:]


async def test_a_gap_is_said(bus: MemoryBus, store: Store) -> None:
    await write(bus, NOON)
    await copied(bus, store)
    await write(bus, *range(NOON + 1, NOON + 5))
    await bus.trim(subjects.LOG.name, subjects.log(RM), 4)
    await bus.trim(subjects.INBOX.name, subjects.inbox(RM), 4)
    await copied(bus, store)
    found = await findings(store)
    assert [(one.is_gap, one.text) for one in found] == [
        (True, "the log between 1 and 4 was trimmed before"),
        (True, "some messages of the inbox were trimmed before they were read"),
    ]


async def test_a_segment_that_is_lost_is_filled_from_the_log(bus: MemoryBus, store: Store) -> None:
    for minute in range(4):
        await write(bus, NOON + minute)
        await copied(bus, store)
    names = [one.name for one in (await held(store)).segments]
    for name in (names[0], names[2]):
        await store.delete(name)
    assert len([one for one in await findings(store) if not one.is_gap]) >= 1
    await write(bus, NOON + 10)
    await copied(bus, store)
    assert await findings(store) == []
    assert await archived(store) == await streams(bus)


async def test_a_start_reads_no_segments_from_before_the_log(bus: MemoryBus, tmp_path: Path) -> None:
    """An archive has thousands of them, and nothing between them can be filled."""
    store = Failing.open(str(tmp_path / "archive"))
    for minute in range(8):
        await write(bus, NOON + minute)
        await copied(bus, store)
    await write(bus, NOON + 10)
    await bus.trim(subjects.LOG.name, subjects.log(RM), 8)
    store.read = 0
    await copied(bus, store)
    assert store.read == 2, "the one before the log, and the one in it"
    assert await findings(store) == []


async def test_a_log_that_was_begun_anew_is_no_gap(bus: MemoryBus, store: Store) -> None:
    """As after `remuda rebuild`, or when the RM was forgotten and has registered again."""
    await write(bus, NOON, NOON + 1)
    await copied(bus, store)
    await bus.trim(subjects.LOG.name, subjects.log(RM), 1_000)
    writer = LogWriter(bus, RM, START, 0)
    await writer.append(log_pb2.Commit(now_ms=NOON + 2))
    await copied(bus, store)
    assert [header.begins for header, _ in await segments(store)] == [True, True]
    assert await findings(store) == []


async def test_a_snapshot_is_copied_once_an_hour(bus: MemoryBus, store: Store) -> None:
    for hour in range(2):
        await write(bus, NOON + HOUR * hour)
        await bus.put_object(subjects.SNAPSHOTS.name, f"{subjects.key_of(RM)}.{hour + 1}", parts(b"state %d" % hour))
        await copied(bus, store)
        await write(bus, NOON + HOUR * hour + 1)
        await copied(bus, store)
    found = (await held(store)).snapshots
    assert [(one.seq, one.hour) for one in found] == [(1, hour_of(NOON)), (2, hour_of(NOON + HOUR))]
    assert decode_snapshot(await store.get(found[1].name) or b"")[1] == b"state 1"
    assert await findings(store) == []


async def rewritten(
    store: Store, name: str, change: Callable[[Header, list[Record]], tuple[Header, list[Record]]]
) -> None:
    await store.put(name, encode(*change(*decode(await store.get(name) or b""))))


Damage = Callable[[Store, list[str]], Awaitable[None]]


async def cut_off(store: Store, names: list[str]) -> None:
    await store.put(names[1], (await store.get(names[1]) or b"")[:-7])


async def one_bit(store: Store, names: list[str]) -> None:
    content = bytearray(await store.get(names[1]) or b"")
    content[-40] ^= 1
    await store.put(names[1], bytes(content))


async def emptied(store: Store, names: list[str]) -> None:
    await store.put(names[1], b"")


async def body_of_another(store: Store, names: list[str]) -> None:
    header, _ = decode(await store.get(names[1]) or b"")
    _, records = decode(await store.get(names[2]) or b"")
    await store.put(names[1], encode(header, records))


async def deleted(store: Store, names: list[str]) -> None:
    await store.delete(names[1])


async def renamed(store: Store, names: list[str]) -> None:
    content = await store.get(names[1]) or b""
    await store.delete(names[1])
    await store.put(names[1].removesuffix(".segment")[:-1] + "9.segment", content)


async def of_another_rm(store: Store, names: list[str]) -> None:
    await rewritten(store, names[1], lambda header, records: (structs.replace(header, rm="rm:2"), records))


async def a_commit_changed(store: Store, names: list[str]) -> None:
    def change(header: Header, records: list[Record]) -> tuple[Header, list[Record]]:
        return header, [
            structs.replace(one, payload=one.payload.replace(b"Tick", b"Tock")) if one.stream == LOG else one
            for one in records
        ]

    await rewritten(store, names[1], change)


async def a_command_changed(store: Store, names: list[str]) -> None:
    def change(header: Header, records: list[Record]) -> tuple[Header, list[Record]]:
        return header, [structs.replace(one, payload=b"other") if one.stream == INBOX else one for one in records]

    await rewritten(store, names[1], change)


async def a_command_removed(store: Store, names: list[str]) -> None:
    def change(header: Header, records: list[Record]) -> tuple[Header, list[Record]]:
        kept = [one for one in records if one.stream == LOG]
        return structs.replace(header, messages=len(kept)), kept

    await rewritten(store, names[1], change)


async def a_foreign_object(store: Store, names: list[str]) -> None:
    await store.put(f"{prefix_of(RM)}log/notes.txt", b"hello")


async def a_snapshot_changed(store: Store, names: list[str]) -> None:
    content = bytearray(await store.get((await held(store)).snapshots[0].name) or b"")
    content[-33] ^= 1
    await store.put((await held(store)).snapshots[0].name, bytes(content))


DAMAGES = (
    cut_off, one_bit, emptied, body_of_another, deleted, renamed, of_another_rm, a_commit_changed, a_command_changed,
    a_command_removed, a_foreign_object, a_snapshot_changed,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_damage_is_found(damage: Damage, bus: MemoryBus, store: Store) -> None:
    await bus.put_object(subjects.SNAPSHOTS.name, f"{subjects.key_of(RM)}.1", parts(b"state"))
    for minute in range(4):
        await write(bus, NOON + minute)
        await copied(bus, store)
    assert await findings(store) == []
    await damage(store, [one.name for one in (await held(store)).segments])
    found = await findings(store)
    assert found and not found[0].is_gap


async def test_a_store_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="archive.store 'nothing://there'"):
        Store.open("nothing://there")


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("aws_nonsense=1", "aws_nonsense"), ("aws_allow_http=maybe", "maybe"), ("timeout=soon", "soon"),
        ("aws_timeout=5s", ""), ("allow_http=true", ""), ("aws_endpoint=http://127.0.0.1:9", ""),
    ],
)  # fmt: skip
async def test_options_of_the_store_and_of_its_connection(option: str, named: str) -> None:
    name, value = option.split("=", 1)
    if not named:
        Store.open("s3://bucket/past", {name: value})
        return
    with pytest.raises(ValueError, match=rf"archive.store 's3://bucket/past'.*{named}"):
        Store.open("s3://bucket/past", {name: value})


async def parts(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def tidied(store: Store, now_ms: int, keep_s: float = 10**9, max_bytes: int = 0) -> None:
    await Tidying(store, keep_s, max_bytes, lambda: now_ms).run()


class Failing(Store):
    """Refuses everything after so many changes, and counts the headers that are read."""

    allowed = 1_000
    read = 0

    async def put(self, name: str, content: bytes) -> None:
        self._count()
        await super().put(name, content)

    async def delete(self, name: str) -> None:
        self._count()
        await super().delete(name)

    async def beginning(self, name: str, size: int, length: int) -> bytes:
        self.read += 1
        return await super().beginning(name, size, length)

    def _count(self) -> None:
        if not self.allowed:
            raise StoreFailed("the disk is full")
        self.allowed -= 1
