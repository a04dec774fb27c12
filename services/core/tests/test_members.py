"""What a core makes of what it sees of the others: what it takes, what it gives up, and when it is ready."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Handler, Serving, Unanswered
from remuda_bus.lease.leaders import leader_of
from remuda_bus.memory import MemoryBus
from remuda_core import limits
from remuda_core.shell.members import Members

RMS = ("a", "b:1", "c", "d")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READY_AFTER_S", 0.0)
    monkeypatch.setattr(limits, "SETTLED_S", 0.0)


class Process:
    """A core that only does what its members say. It follows what it does not lead, and is hot at once."""

    def __init__(self, bus: MemoryBus, name: str) -> None:
        self.members = Members(bus, name)
        self.leads: dict[str, int] = {}

    async def work(self, rm_id: str) -> None:
        self.members.know(rm_id)
        self.members.hot(rm_id)
        while True:
            ownership = await self.members.elected(rm_id)
            self.leads[rm_id] = ownership.revision
            unsettled = asyncio.Event()
            self.members.when_unsettled(rm_id, unsettled.set)
            while self.members.may_stay(rm_id):
                await unsettled.wait()
                unsettled.clear()
            del self.leads[rm_id]
            await self.members.release(rm_id)


@asynccontextmanager
async def running(bus: MemoryBus, name: str, rms: tuple[str, ...] = RMS) -> AsyncIterator[Process]:
    process = Process(bus, name)

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            process.members.start(tasks)
            for rm_id in rms:
                tasks.create_task(process.work(rm_id))

    task = asyncio.create_task(run())
    try:
        yield process
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def until(holds: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_one_leads_everything_and_of_two_each_has_half() -> None:
    bus = MemoryBus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        assert await leader_of(bus, "b:1") == "one"
        before = dict(one.leads)
        async with running(bus, "two") as two:
            await until(lambda: len(one.leads) == len(two.leads) == 2)
            assert one.leads.keys() | two.leads.keys() == set(RMS)
            assert all(two.leads[rm_id] > before[rm_id] for rm_id in two.leads), "epochs grow"
        await until(lambda: one.leads.keys() == set(RMS))


async def test_a_process_writes_one_entry_however_much_it_leads() -> None:
    bus = MemoryBus()
    async with running(bus, "one", tuple(f"rm-{n}" for n in range(100))) as one:
        await until(lambda: len(one.leads) == 100)
        before = bus._buckets[subjects.LEADERS.name].revision
        renewed = bus._buckets[subjects.LEASES.name].revision
        await asyncio.sleep(1.2 * subjects.LEASES.ttl_s / 3)
        assert bus._buckets[subjects.LEADERS.name].revision == before
        assert bus._buckets[subjects.LEASES.name].revision - renewed <= 2


class Mortal(MemoryBus):
    """The bus of processes that can be killed: what they serve is away, and what they write does not arrive."""

    def __init__(self, server: MemoryBus) -> None:
        self.__dict__ = server.__dict__.copy()
        self.served: list[Serving] = []
        self.dead = False

    async def serve(self, subject: str, handler: Handler, name: str, answers: Callable[[], bool] | None = None):
        serving = await super().serve(subject, handler, name, answers)
        self.served.append(serving)
        return serving

    async def put(self, *args, **options) -> int:
        await self.alive()
        return await super().put(*args, **options)

    async def delete(self, *args, **options) -> None:
        await self.alive()
        await super().delete(*args, **options)

    async def alive(self) -> None:
        if self.dead:
            raise Unanswered("it is dead")

    async def die(self) -> None:
        self.dead = True
        for serving in self.served:
            await serving.close()
        self.served.clear()


async def test_a_killed_process_is_followed_long_before_its_lease_ends() -> None:
    server = MemoryBus()
    mortal = Mortal(server)
    async with running(server, "one") as one, running(mortal, "two") as two:
        await until(lambda: len(one.leads) == len(two.leads) == 2)
        await asyncio.sleep(0.5)  # each has heard the other
        await mortal.die()
        await until(lambda: one.leads.keys() == set(RMS), subjects.LEASES.ttl_s / 3)


async def test_a_silent_process_is_followed_when_its_lease_has_expired() -> None:
    clock = asyncio.get_running_loop().time
    server = MemoryBus(clock)
    mortal = Mortal(server)
    async with running(server, "one") as one, running(mortal, "two") as two:
        await until(lambda: len(one.leads) == len(two.leads) == 2)
        mortal.dead = True  # but what it serves is there
        await asyncio.sleep(1.0)
        assert len(one.leads) == 2
        async with asyncio.timeout(2 * subjects.LEASES.ttl_s):
            while len(one.leads) < 4:
                server.tick()
                await asyncio.sleep(0.1)
        await until(lambda: not two.leads)


async def test_a_core_that_comes_and_goes_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SETTLED_S", 0.5)
    bus = MemoryBus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        for _ in range(5):
            async with running(bus, "two"):
                await asyncio.sleep(0.1)
                assert one.leads.keys() == set(RMS)
        async with running(bus, "two") as two:
            await until(lambda: len(one.leads) == len(two.leads) == 2)


async def test_it_is_ready_when_what_it_should_lead_is_hot() -> None:
    bus = MemoryBus()

    async def said() -> bool:
        entry = await bus.get(subjects.LEASES.name, subjects.member("core.1"))
        return entry is not None and json.loads(entry.value or b"")["ready"]

    members = Members(bus, "core.1")
    members.know("a")

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            members.start(tasks)

    task = asyncio.create_task(run())
    await asyncio.sleep(0.1)
    assert not await said()
    members.hot("a")
    async with asyncio.timeout(5):
        while not await said():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert await bus.get(subjects.LEASES.name, subjects.member("core.1")) is None, "what goes gives its lease back"


async def test_a_name_that_another_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NAMESAKE_ENDS_S", 0.3)
    bus = MemoryBus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        with pytest.raises(ExceptionGroup) as failure:
            async with running(bus, "one"):
                await asyncio.sleep(2)
        assert failure.group_contains(ValueError, match="instance 'one': another core has this name")
        assert one.leads.keys() == set(RMS)
