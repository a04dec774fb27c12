"""What a core makes of what it sees of the others."""

from __future__ import annotations

import asyncio
import json

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry
from remuda_bus.lease import Lease
from remuda_bus.memory import MemoryBus
from remuda_core import limits
from remuda_core.shell.members import Members

RMS = ("a", "b", "c", "d")


def member(name: str, ready: bool = True) -> Entry:
    return Entry(subjects.member(name), json.dumps({"token": f"token of {name}", "ready": ready}).encode(), 1)


def lease(rm_id: str, name: str) -> Entry:
    said = {"holder": name, "token": f"lease of {name}"}
    return Entry(subjects.core_lease(rm_id), json.dumps(said).encode(), 1)


def gone(entry: Entry) -> Entry:
    return Entry(entry.key, None, 2)


class Seen(MemoryBus):
    """A bucket whose entries a test tells."""

    def __init__(self) -> None:
        super().__init__()
        self._told: asyncio.Queue[Entry] = asyncio.Queue()

    def tell(self, *entries: Entry) -> None:
        for entry in entries:
            self._told.put_nowait(entry)

    async def watch(self, bucket: str):
        while True:
            entry = await self._told.get()
            yield entry
            self._told.task_done()

    async def taken_in(self) -> None:
        await self._told.join()


@pytest.fixture
async def bus():
    return Seen()


@pytest.fixture
async def one(bus: Seen):
    members = Members(bus, "one")
    for rm_id in RMS:
        members.know(rm_id)
    watching = asyncio.create_task(members.watch())
    yield members
    watching.cancel()


async def test_of_two_each_has_half(bus: Seen, one: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SETTLED_S", 0.0)
    bus.tell(member("one"), *(lease(rm_id, "one") for rm_id in RMS))
    await bus.taken_in()
    assert all(one.may_stay(rm_id) for rm_id in RMS)
    bus.tell(member("two", ready=False))
    await bus.taken_in()
    assert all(one.may_stay(rm_id) for rm_id in RMS), "it is not ready"
    bus.tell(member("two"))
    await bus.taken_in()
    assert sum(one.may_stay(rm_id) for rm_id in RMS) == 2


async def test_who_comes_and_goes_is_given_nothing(bus: Seen, one: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SETTLED_S", 0.3)
    bus.tell(member("one"), *(lease(rm_id, "one") for rm_id in RMS))
    for _ in range(10):
        bus.tell(member("two"))
        await bus.taken_in()
        assert all(one.may_stay(rm_id) for rm_id in RMS)
        await asyncio.sleep(0.05)
        bus.tell(gone(member("two")))
    bus.tell(member("two"))
    async with asyncio.timeout(5):
        while all(one.may_stay(rm_id) for rm_id in RMS):  # noqa: ASYNC110 - it comes with time
            await asyncio.sleep(0.01)


async def test_what_is_free_is_left_to_the_one_whose_turn_it_is(
    bus: Seen, one: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEFT_TO_OWNER_S", 0.1)
    assert all(one.may_take(rm_id) for rm_id in RMS), "nobody is ready"
    bus.tell(member("one"), member("two"), lease("a", "one"), lease("b", "one"))
    bus.tell(lease("c", "two"), gone(lease("c", "two")))
    await bus.taken_in()
    assert not one.may_take("c")
    async with asyncio.timeout(5):
        while not one.may_take("c"):  # noqa: ASYNC110 - it comes with time
            await asyncio.sleep(0.01)


async def test_a_leader_has_one_heir(bus: Seen, one: Members) -> None:
    entries = (*(member(name) for name in ("one", "two", "three")), *(lease(rm_id, "three") for rm_id in RMS))
    others = Seen()
    two = Members(others, "two")
    for rm_id in RMS:
        two.know(rm_id)
    watching = asyncio.create_task(two.watch())
    for told in (bus, others):
        told.tell(*entries)
        await told.taken_in()
    heirs = [(one.is_heir(rm_id), two.is_heir(rm_id)) for rm_id in RMS]
    assert all(first != second for first, second in heirs)
    assert sum(first for first, _ in heirs) == 2
    watching.cancel()


async def test_it_announces_itself_once_it_follows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READY_AFTER_S", 0.0)
    bus: Bus = MemoryBus()
    members = Members(bus, "core.1")
    members.know("a")
    announcing = asyncio.create_task(members.announce())
    watch = aiter(bus.watch(subjects.LEASES.name))
    assert json.loads((await anext(watch)).value or b"")["ready"] is False
    members.hot("a")
    entry = await anext(watch)
    assert (entry.key, json.loads(entry.value or b"")["ready"]) == ("member.core_1", True)
    announcing.cancel()
    assert (await anext(watch)).value is None, "who goes says so"


async def test_a_lease_says_who_holds_it(one: Members) -> None:
    bus: Bus = MemoryBus()
    assert await Lease(bus, subjects.core_lease("a:b"), "two").take()
    members = Members(bus, "one")
    watching = asyncio.create_task(members.watch())
    async with asyncio.timeout(5):
        await members.changed(5)
    holder = members.holder("a:b")
    assert holder is not None and (holder.name, holder.revision) == ("two", 1)
    watching.cancel()
