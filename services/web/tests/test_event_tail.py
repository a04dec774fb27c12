"""All who follow the event history share one reader of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Unanswered
from remuda_bus.memory import MemoryBus
from remuda_proto.si.v1 import si_pb2 as si
from remuda_web import limits
from remuda_web.bus_source import BusSource
from remuda_web.source import Group, Unreadable

Followed = AsyncGenerator[Group]


@pytest.fixture
async def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    monkeypatch.setattr(limits, "EVENTS_EVERY_S", 0.0)
    bus = MemoryBus()
    await bus.declare()
    return bus


async def happen(bus: MemoryBus, *names: str) -> None:
    for name in names:
        await bus.publish(subjects.event("rm-1"), si.EventRecord(objectID=name).SerializeToString())


async def names(followed: Followed, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += [one.record.objectID for one in (await anext(followed)).events]
    return found


async def test_each_follower_gets_the_last_records_and_every_new_one_once(bus: MemoryBus) -> None:
    await happen(bus, "a", "b", "c")
    source = BusSource(bus)
    one, other = source.new_events(2), source.new_events(1)
    assert await names(one, 2) == ["b", "c"]
    await happen(bus, "d")
    assert await names(other, 1) == ["d"]
    await happen(bus, "e", "f")
    assert await names(other, 2) == ["e", "f"]
    assert await names(one, 3) == ["d", "e", "f"]
    await one.aclose()
    await happen(bus, "g")
    assert await names(other, 1) == ["g"]
    await other.aclose()
    again = source.new_events(1)
    assert await names(again, 1) == ["g"]
    await happen(bus, "h")
    assert await names(again, 1) == ["h"]
    await again.aclose()


async def test_the_reader_is_shared(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    await happen(bus, "a")
    opened = []
    read = bus.read

    async def counted(*arguments: object) -> object:
        opened.append(arguments)
        return await read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bus, "read", counted)
    source = BusSource(bus)
    followers = [source.new_events(1) for _ in range(5)]
    for one in followers:
        assert await names(one, 1) == ["a"]
    await happen(bus, "b")
    told = [await anext(one) for one in followers]
    assert all(group is told[0] for group in told)
    assert len(opened) == 1 + len(followers)  # one behind the end, and what each shows of before
    for one in followers:
        await one.aclose()


async def test_a_follower_who_does_not_read_is_cut_off(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS_BEHIND", 2)
    await happen(bus, "a")
    source = BusSource(bus)
    idle, busy = source.new_events(1), source.new_events(1)
    assert await names(idle, 1) == await names(busy, 1) == ["a"]
    for name in "bcd":
        await happen(bus, name)
        assert await names(busy, 1) == [name]
    with pytest.raises(Unreadable, match="more than 2 events behind"):
        await anext(idle)
    await busy.aclose()


async def test_a_bus_that_does_not_answer_ends_the_streams(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: str) -> int:
        raise Unanswered("no answer")

    monkeypatch.setattr(bus, "last_sequence", fail)
    with pytest.raises(Unreadable, match="no answer"):
        await anext(BusSource(bus).new_events(1))
