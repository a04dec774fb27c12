"""A core process among others: which RMs it takes and gives up, and when it is ready. On virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_replication.lease import Ownership, leader_of
from remuda_replication.members import Members
from services.core.tests.mortal_bus import Mortal
from tests.sim.virtual_time import on_virtual_time

RMS = ("a", "b:1", "c", "d")
MANY = (*RMS, "e", "f", "g", "h", "i", "j", "k", "l")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Powers of two, so that virtual time reaches a deadline exactly."""
    monkeypatch.setattr("remuda_replication.members.READY_AFTER_S", 1 / 64)
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 0.0)
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_AFTER_S", 1 / 16)
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_ON_S", 1 / 8)


def memory_bus() -> MemoryBus:
    return MemoryBus(asyncio.get_running_loop().time)


class Process:
    """A core that only does what its members say. It is hot `restores_s` after it has begun to follow."""

    def __init__(self, bus: MemoryBus, name: str, standbys: int, restores_s: float, kind: str) -> None:
        self.members = Members(bus, name, standbys, kind)
        self.follows: set[str] = set()
        self.restored = 0
        self.leads: dict[str, int] = {}
        self._restores_s = restores_s

    async def work(self, rm_id: str) -> None:
        self.members.know(rm_id)
        while True:
            await self.members.follows(rm_id, True)
            await asyncio.sleep(self._restores_s)
            self.restored += 1
            self.follows.add(rm_id)
            self.members.hot(rm_id)
            while (ownership := await self._elected(rm_id)) is not None:
                await self._lead(rm_id, ownership.revision)
            self.members.hot(rm_id, False)
            self.follows.discard(rm_id)

    async def _elected(self, rm_id: str) -> Ownership | None:
        elected = asyncio.ensure_future(self.members.elected(rm_id))
        dismissed = asyncio.ensure_future(self.members.follows(rm_id, False))
        try:
            await asyncio.wait((elected, dismissed), return_when=asyncio.FIRST_COMPLETED)
            return elected.result() if elected.done() else None
        finally:
            elected.cancel()
            dismissed.cancel()
            await asyncio.gather(elected, dismissed, return_exceptions=True)

    async def _lead(self, rm_id: str, epoch: int) -> None:
        self.leads[rm_id] = epoch
        unsettled = asyncio.Event()
        self.members.when_unsettled(rm_id, unsettled.set)
        while self.members.may_stay(rm_id):
            await unsettled.wait()
            unsettled.clear()
        del self.leads[rm_id]
        await self.members.hand_over(rm_id)


@asynccontextmanager
async def running(
    bus: MemoryBus, name: str, rms: tuple[str, ...] = RMS, standbys: int = 1, restores_s: float = 0.0
) -> AsyncIterator[Process]:
    process = Process(bus, name, standbys, restores_s, subjects.member_kind(rms[0]) if rms else subjects.MEMBER)

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


@on_virtual_time
async def test_a_process_that_is_not_ready_yet_looks_once_more_not_once_for_each_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A timer for each look, which causes the next look, would go on for as long as the process has no lease."""
    monkeypatch.setattr("remuda_replication.members.READY_AFTER_S", 1.0)
    looks, look = 0, Members._look

    def counted(members: Members) -> float | None:
        nonlocal looks
        looks += 1
        return look(members)

    monkeypatch.setattr(Members, "_look", counted)
    async with running(memory_bus(), "one", rms=()) as one:
        for _ in range(50):
            one.members._changed()
            await asyncio.sleep(1 / 1024)
        assert looks >= 50
        looks = 0
        await asyncio.sleep(1.5)
        assert 1 <= looks <= 5


@on_virtual_time
async def test_one_leads_everything_and_of_two_each_has_half() -> None:
    bus = memory_bus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        assert await leader_of(bus, "b:1") == "one"
        before = dict(one.leads)
        async with running(bus, "two") as two:
            await until(lambda: len(one.leads) == len(two.leads) == 2)
            assert one.leads.keys() | two.leads.keys() == set(RMS)
            assert all(two.leads[rm_id] > before[rm_id] for rm_id in two.leads), "epochs grow"
        await until(lambda: one.leads.keys() == set(RMS))


@on_virtual_time
async def test_a_process_writes_one_entry_however_much_it_leads() -> None:
    bus = memory_bus()
    async with running(bus, "one", tuple(f"rm-{n}" for n in range(100))) as one:
        await until(lambda: len(one.leads) == 100)
        before = bus._buckets[subjects.LEADERS.name].revision
        renewed = bus._buckets[subjects.LEASES.name].revision
        await asyncio.sleep(1.2 * subjects.LEASES.ttl_s / 3)
        assert bus._buckets[subjects.LEADERS.name].revision == before
        assert bus._buckets[subjects.LEASES.name].revision - renewed <= 2


@on_virtual_time
async def test_a_killed_process_is_followed_long_before_its_lease_ends() -> None:
    server = memory_bus()
    mortal = Mortal(server)
    async with running(server, "one") as one, running(mortal, "two") as two:
        await until(lambda: len(one.leads) == len(two.leads) == 2)
        await asyncio.sleep(0.5)  # each has heard the other
        await mortal.die()
        await until(lambda: one.leads.keys() == set(RMS), subjects.LEASES.ttl_s / 3)


@on_virtual_time
async def test_a_silent_process_is_followed_when_its_lease_has_expired() -> None:
    server = memory_bus()
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


@on_virtual_time
async def test_a_core_that_comes_and_goes_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 0.5)
    bus = memory_bus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        for _ in range(5):
            async with running(bus, "two"):
                await asyncio.sleep(0.1)
                assert one.leads.keys() == set(RMS)
        async with running(bus, "two") as two:
            await until(lambda: len(one.leads) == len(two.leads) == 2)


@on_virtual_time
async def test_it_is_ready_when_what_it_should_lead_is_hot() -> None:
    bus = memory_bus()

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


@on_virtual_time
async def test_a_name_that_another_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.NAMESAKE_ENDS_S", 0.3)
    bus = memory_bus()
    async with running(bus, "one") as one:
        await until(lambda: one.leads.keys() == set(RMS))
        with pytest.raises(ExceptionGroup) as failure:
            async with running(bus, "one"):
                await asyncio.sleep(2)
        assert failure.group_contains(ValueError, match="instance 'one': another process has this name")
        assert one.leads.keys() == set(RMS)


class Cores:
    """Core processes that are started and killed. Each has a connection of its own."""

    def __init__(self, stack: AsyncExitStack, standbys: int, rms: tuple[str, ...] = MANY) -> None:
        self.alive: dict[str, tuple[Process, Mortal, AsyncExitStack]] = {}
        self.server = memory_bus()
        self.standbys = standbys
        self._stack = stack
        self._rms = rms

    async def start(self, name: str, restores_s: float = 0.0) -> Process:
        bus, stack = Mortal(self.server), AsyncExitStack()
        await self._stack.enter_async_context(stack)
        process = await stack.enter_async_context(running(bus, name, self._rms, self.standbys, restores_s))
        self.alive[name] = process, bus, stack
        return process

    async def kill(self, *names: str) -> None:
        gone = [self.alive.pop(name) for name in names]
        for _, bus, _ in gone:
            await bus.die()
        for _, _, stack in gone:
            await stack.aclose()

    def leader(self, rm_id: str) -> str | None:
        found = [name for name, (process, *_) in self.alive.items() if rm_id in process.leads]
        return found[0] if len(found) == 1 else None

    def followers(self, rm_id: str) -> set[str]:
        """Beside the leader."""
        return {name for name, (process, *_) in self.alive.items() if rm_id in process.follows - process.leads.keys()}

    @property
    def settled(self) -> bool:
        """The law: each RM has one leader, and exactly as many others follow it as are set, or as there are."""
        due = min(self.standbys, len(self.alive) - 1)
        loads = [len(process.leads) for process, *_ in self.alive.values()]
        return max(loads) - min(loads) <= 1 and all(
            self.leader(rm_id) is not None and len(self.followers(rm_id)) == due for rm_id in self._rms
        )


@pytest.mark.parametrize("standbys", [0, 1, 2])
@on_virtual_time
async def test_after_any_kills_each_rm_has_a_leader_and_its_standbys(standbys: int) -> None:
    names, chance = ("one", "two", "three", "four"), random.Random(standbys)
    async with AsyncExitStack() as stack:
        cores = Cores(stack, standbys)
        for name in names:
            await cores.start(name)
        for _ in range(8):
            await until(lambda: cores.settled)
            await asyncio.sleep(0.3)
            assert cores.settled, "and it stays so"
            await cores.kill(*chance.sample(sorted(cores.alive), chance.randint(1, len(cores.alive) - 1)))
            await until(lambda: cores.settled)
            for name in set(names) - cores.alive.keys():
                await cores.start(name, chance.choice((0.0, 0.05)))


@on_virtual_time
async def test_a_standby_takes_over_without_restoring_anything() -> None:
    async with AsyncExitStack() as stack:
        cores = Cores(stack, 1)
        processes = [await cores.start(name, 0.2) for name in ("one", "two", "three")]
        await until(lambda: cores.settled)
        await asyncio.sleep(0.5)  # each has heard the others
        for one in processes:
            one._restores_s = 60.0
        before = {rm_id: cores.followers(rm_id) for rm_id in MANY}
        led = processes[0].leads.keys()
        assert led
        await cores.kill("one")
        await until(lambda: all({cores.leader(rm_id)} == before[rm_id] for rm_id in led), 2.0)


@on_virtual_time
async def test_the_leader_and_its_standby_die_at_once() -> None:
    async with AsyncExitStack() as stack:
        cores = Cores(stack, 1)
        for name in ("one", "two", "three", "four"):
            await cores.start(name)
        await until(lambda: cores.settled)
        leader = cores.leader("a")
        assert leader is not None
        await cores.kill(leader, *cores.followers("a"))
        await until(lambda: cores.settled)


@on_virtual_time
async def test_a_leader_stays_until_its_successor_is_hot() -> None:
    async with AsyncExitStack() as stack:
        cores = Cores(stack, 1)
        one = await cores.start("one")
        await until(lambda: one.leads.keys() == set(MANY))
        two = await cores.start("two", 0.5)
        free = []
        while not cores.settled:
            free += [rm_id for rm_id in MANY if await leader_of(cores.server, rm_id) is None]
            await asyncio.sleep(0.01)
        assert not free, "an RM is handed to its successor, never left alone"
        assert len(two.leads) == len(MANY) // 2


@on_virtual_time
async def test_a_core_that_starts_again_soon_makes_nobody_restore_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_AFTER_S", 2.0)
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_ON_S", 10.0)
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 5.0)
    async with AsyncExitStack() as stack:
        cores = Cores(stack, 1)
        processes = [await cores.start(name) for name in ("one", "two", "three")]
        await until(lambda: all(cores.leader(rm_id) and cores.followers(rm_id) for rm_id in MANY))
        await asyncio.sleep(0.5)
        before = [one.restored for one in processes[1:]]
        await cores.kill("one")
        await asyncio.sleep(1.0)
        await cores.start("one")
        await until(lambda: all(cores.leader(rm_id) and cores.followers(rm_id) for rm_id in MANY))
        assert [one.restored for one in processes[1:]] == before


@on_virtual_time
async def test_the_standby_of_an_rm_that_comes_follows_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_AFTER_S", 60.0)
    bus = memory_bus()
    async with running(bus, "one", ()) as one, running(bus, "two", ()) as two:
        everyone = (one, two)
        await until(lambda: all(process.members._members.keys() == {"one", "two"} for process in everyone))
        works = [asyncio.create_task(process.work(rm_id)) for rm_id in MANY for process in everyone]
        await until(lambda: one.leads.keys() | two.leads.keys() == one.follows == two.follows == set(MANY))
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


@on_virtual_time
async def test_the_highest_setting_of_all_processes_counts() -> None:
    bus = memory_bus()
    async with running(bus, "one", standbys=0) as one, running(bus, "two", standbys=2) as two:
        await until(lambda: one.follows == two.follows == set(RMS))
        assert one.members.standbys == 2


@on_virtual_time
async def test_a_question_is_for_the_first_standby() -> None:
    async with AsyncExitStack() as stack:
        cores = Cores(stack, 1)
        for name in ("one", "two", "three"):
            await cores.start(name)
        await until(lambda: cores.settled)
        everyone = [process.members for process, *_ in cores.alive.values()]
        await until(lambda: all(members._members[name].ready for members in everyone for name in cores.alive))
        for rm_id in MANY:
            assert {members.answerer(rm_id, of_leader=False) for members in everyone} == cores.followers(rm_id)
            assert {members.answerer(rm_id, of_leader=True) for members in everyone} == {cores.leader(rm_id)}


@on_virtual_time
async def test_processes_of_another_cluster_take_no_part() -> None:
    bus, ours, theirs = memory_bus(), subjects.peloton_log("ours"), subjects.peloton_log("theirs")
    async with AsyncExitStack() as processes:
        await processes.enter_async_context(running(bus, "core", standbys=0))
        others = [await processes.enter_async_context(running(bus, name, (theirs,), 0)) for name in "abcd"]
        one = await processes.enter_async_context(running(bus, "e", (ours,), 0))
        await until(lambda: ours in one.leads and any(theirs in other.leads for other in others))
        assert await leader_of(bus, ours) == "e"
