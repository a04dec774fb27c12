"""Several cores share the resource managers and take over from each other, without loss."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import NoResponders
from remuda_bus.nats import NatsBus, connect
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.lease import HOLDER_CHECK_INTERVAL_S, leader_of
from remuda_sdk import ResourceManager, application, ask, node
from tests.accounting import AccountingRm, Books, Plan, verify
from tests.patience import READY_S
from tests.system.running import around_the_core, running, until

KILLS = 3
TAKEN_OVER_WITHIN_S = 2.0


async def register(bus: NatsBus, *rms: str) -> None:
    for rm in rms:
        await bus.put(subjects.RMS.name, subjects.key_of(rm), b"{}")


async def leaders(bus: NatsBus, *cores: str) -> dict[str, str]:
    """RM -> the core that leads it, by the answers of the cores."""
    found = {}
    for core in cores:
        try:
            answer = json.loads((await bus.request(subjects.core_process(core))).payload)
        except NoResponders:
            continue
        found.update({one["rm"]: core for one in answer["rms"] if one["leads"]})
    return found


async def loads(bus: NatsBus, *cores: str) -> list[int]:
    led = list((await leaders(bus, *cores)).values())
    return [led.count(core) for core in cores]


@asynccontextmanager
async def core(url: str, name: str) -> AsyncIterator[asyncio.Task[None]]:
    async with running(url, name, core_main, CoreSettings) as task:
        yield task


async def test_rms_are_shared_out_and_handed_over(server: NatsServer, bus: NatsBus, monkeypatch) -> None:
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 1.0)
    await register(bus, "a", "b", "c", "d:1")
    async with core(server.url, "one") as one:
        await until(lambda: is_true(loads(bus, "one"), [4]))
        async with core(server.url, "two"):
            await until(lambda: is_true(loads(bus, "one", "two"), [2, 2]))
            before = await leaders(bus, "one", "two")
            await register(bus, "e")
            await until(lambda: is_true(total(bus, "one", "two"), 5))
            after = await leaders(bus, "one", "two")
            assert {rm: who for rm, who in after.items() if rm != "e"} == before, "no RM moves for a new one"
        await until(lambda: is_true(loads(bus, "one"), [5]))
        assert not one.done()


async def total(bus: NatsBus, *cores: str) -> int:
    return sum(await loads(bus, *cores))


async def is_true(question, answer) -> bool:
    return await question == answer


@pytest.mark.timeout(120)
async def test_what_is_handed_over_under_load_is_all_there(server: NatsServer, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("remuda_replication.members.SETTLED_S", 0.2)
    plan = Plan(asks=2_000, rate=300, nodes=10, lives_ms=300)
    rms = {rm: AccountingRm(server.url, rm, Books.open(plan, tmp_path / rm)) for rm in ("a", "b", "c")}
    async with around_the_core(server.url) as bus, core(server.url, "one") as one, asyncio.TaskGroup() as group:
        working = [group.create_task(rm.run()) for rm in rms.values()]
        handovers = 0
        while handovers < 4 or not all(rm.settled.is_set() for rm in rms.values()):
            async with core(server.url, "two"):
                await until(lambda: is_true(led_something(bus, "two"), True), 20)
                handovers += 1
                await asyncio.sleep(0.2)
        for task in working:
            task.cancel()
        await until(lambda: is_true(loads(bus, "one"), [3]))
        for rm_id, rm in rms.items():
            assert await verify(bus, rm_id, rm.books) == []
        assert not one.done(), "there was no doubt"


async def led_something(bus: NatsBus, name: str) -> bool:
    return await total(bus, name) > 0


async def test_a_leader_that_keeps_still_survives_an_outage(server: NatsServer, bus: NatsBus) -> None:
    await register(bus, "a", "b")
    async with core(server.url, "one") as one, core(server.url, "two") as two:
        await until(lambda: is_true(loads(bus, "one", "two"), [1, 1]))
        before = await leaders(bus, "one", "two")
        for _ in range(2):
            await server.restart()
            await until(lambda: reachable(bus, "one", "two"))
        await asyncio.sleep(1.2 * subjects.LEASES.ttl_s)
        assert await leaders(bus, "one", "two") == before
        await server.stop()
        await asyncio.sleep(1.1 * subjects.LEASES.ttl_s)  # longer than leases last
        await server.start()
        await until(lambda: is_true(total(bus, "one", "two"), 2))
        assert not one.done() and not two.done()


async def reachable(bus: NatsBus, *cores: str) -> bool:
    try:
        for one in cores:
            await bus.request(subjects.core_process(one))
    except NoResponders:
        return False
    return True


async def test_two_cores_of_one_name(server: NatsServer, bus: NatsBus) -> None:
    await register(bus, "a")
    async with core(server.url, "one") as first:
        await until(lambda: is_true(loads(bus, "one"), [1]))
        with pytest.raises(ValueError, match="instance 'one': another process has this name"):
            async with core(server.url, "one") as second:
                await asyncio.wait([second], timeout=5)
        assert not first.done(), "the newer process ends"


@asynccontextmanager
async def one_rm(data: Path, cores: int) -> AsyncIterator[tuple[System, NatsBus, ResourceManager, asyncio.Queue[str]]]:
    """A system with a node and an application of an RM; yields the system, a connection, the RM and its queue of
    allocated keys."""
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(System(Layout(data, cores=cores)))
        await system.ready(READY_S)
        bus = await connect(system.url, "test", timeout_s=5)
        stack.push_async_callback(bus.close)
        rm = await stack.enter_async_context(ResourceManager.connect(system.url, "rm-1"))
        allocated: asyncio.Queue[str] = asyncio.Queue()

        async def on_allocation(response: si.AllocationResponse) -> None:
            for allocation in response.new:
                allocated.put_nowait(allocation.allocationKey)

        rm.on_allocation(on_allocation)
        await rm.report_nodes([node("n1", vcore=1_000, memory=2**30)])
        await rm.submit(application("app-1", user="u", tags={"namespace": "default"}))
        yield system, bus, rm, allocated


@pytest.mark.timeout(120)
async def test_a_killed_leader_is_replaced_within_two_seconds(tmp_path: Path) -> None:
    """From `kill -9` to the first allocation of an ask that was made afterwards."""
    async with one_rm(tmp_path, cores=2) as (system, bus, rm, allocated):
        for number in range(KILLS):
            await until(lambda: reachable(bus, "core-1", "core-2"))
            await asyncio.sleep(2 * HOLDER_CHECK_INTERVAL_S)
            leader = (await leaders(bus, "core-1", "core-2"))["rm-1"]
            process = next(p for p in system.processes if p.name == leader)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            killed = time.monotonic()
            await rm.ask([ask("app-1", f"ask-{number}", vcore=1, memory=1)])
            assert await asyncio.wait_for(allocated.get(), 10) == f"ask-{number}"
            assert time.monotonic() - killed < TAKEN_OVER_WITHIN_S
        assert allocated.empty()


async def answers(bus: NatsBus, rm: str, *kinds: str) -> bool:
    """Whether each question finds a process that answers it."""
    for kind in kinds:
        reply = await bus.request(subjects.core_query(rm, kind), b"{}", timeout_s=2.0)
        assert json.loads(reply.payload)["rm"] == rm
    return True


@pytest.mark.timeout(120)
async def test_a_leader_and_its_standby_that_are_killed_together_are_replaced(tmp_path: Path) -> None:
    """The third core has never followed the RM. It answers every question afterwards."""
    cores = ("core-1", "core-2", "core-3")
    async with one_rm(tmp_path, cores=3) as (system, bus, rm, allocated):
        await until(lambda: is_true(copies(bus, "rm-1", *cores), 2), 30)
        await answers(bus, "rm-1", "stats", "explain", "digest")
        (third,) = [name for name in cores if "rm-1" not in await rms_of(bus, name)]
        pids = [p.pid for p in system.processes if p.name in cores and p.name != third and p.pid is not None]
        await asyncio.sleep(2 * HOLDER_CHECK_INTERVAL_S)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await rm.ask([ask("app-1", "ask", vcore=1, memory=1)])
        assert await asyncio.wait_for(allocated.get(), 30) == "ask"
        await until(lambda: is_true(copies(bus, "rm-1", *cores), 2), 30)
        await answers(bus, "rm-1", "stats", "explain", "allocations", "digest")
        assert allocated.empty()


async def test_a_core_that_does_not_follow_an_rm_has_its_leader_answer(server: NatsServer, bus: NatsBus) -> None:
    await register(bus, "a")
    async with core(server.url, "one"), core(server.url, "two"):
        await until(lambda: is_true(total(bus, "one", "two"), 1))
        reply = await bus.request(subjects.leader_query("a", "stats"), b"{}")
        assert json.loads(reply.payload)["rm"] == "a"


async def rms_of(bus: NatsBus, core: str) -> list[str]:
    try:
        answer = await bus.request(subjects.core_process(core))
    except NoResponders:
        return []
    return [one["rm"] for one in json.loads(answer.payload)["rms"]]


async def copies(bus: NatsBus, rm: str, *cores: str) -> int:
    """How many cores lead or follow the RM."""
    return sum([rm in await rms_of(bus, core) for core in cores])


@pytest.mark.timeout(120)
async def test_a_leader_that_hangs_is_replaced_and_does_no_harm_when_it_wakes_up(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(System(Layout(tmp_path / "system", cores=2)))
        await system.ready(READY_S)
        bus = await connect(system.url, "test", timeout_s=5)
        stack.push_async_callback(bus.close)
        rm = AccountingRm(system.url, "rm-1", Books.open(Plan(asks=2_000, rate=300, nodes=10), tmp_path / "books"))
        working = asyncio.create_task(rm.run())
        await until(lambda: is_true(placed(rm), True), 20)
        leader = await leader_of(bus, "rm-1")
        process = next(p for p in system.processes if p.name == leader)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: replaced(bus, "rm-1", leader), 5 * subjects.LEASES.ttl_s)
        before = rm.books.placed_asks()
        await until(lambda: is_true(placed(rm, before), True), 20)
        os.kill(process.pid, signal.SIGCONT)
        await asyncio.wait_for(rm.settled.wait(), 60)
        working.cancel()
        await until(lambda: reachable(bus, "core-1", "core-2"), 20)
        assert await verify(bus, "rm-1", rm.books) == []


async def replaced(bus: NatsBus, rm_id: str, before: str | None) -> bool:
    return await leader_of(bus, rm_id) not in (None, before)


async def placed(rm: AccountingRm, more_than: int = 0) -> bool:
    return rm.books.placed_asks() > more_than
