"""A stopped server's streams are cut, put back or swapped: every reader notices, nothing is allocated on what is left,
and one command with the RM's report brings the RM back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.halts import Halt
from remuda_bus.nats import NatsBus, connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import DeadLetter, ResourceManager, application, ask, node
from tests.forgotten import damage
from tests.forgotten.services import Services
from tests.integration.running import until

RM = "rm:1"
SLOTS = 1_000
QUEUES = """
partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as server:
        yield server


class Books:
    """What the RM runs."""

    def __init__(self, rm: ResourceManager) -> None:
        self.rm = rm
        self.running: dict[str, si.Allocation] = {}
        self.more = asyncio.Event()
        self.refusals: asyncio.Queue[DeadLetter] = asyncio.Queue()
        rm.on_allocation(self.told)
        rm.on_dead_letter(self.refusals.put_nowait)

    def told(self, response: si.AllocationResponse) -> None:
        for allocation in response.new:
            assert allocation.UUID not in self.running
            self.running[allocation.UUID] = allocation
        self.more.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.running) < count:
                self.more.clear()
                await self.more.wait()

    async def begin(self) -> None:
        await self.rm.report_nodes([node("n1", vcore=SLOTS, memory=SLOTS)])
        await self.rm.submit(application("app", queue="root.a", user="u"))

    async def run(self, *keys: str) -> None:
        """One after the other, so that each is a commit of its own."""
        for key in keys:
            before = len(self.running)
            await self.rm.ask([ask("app", key, vcore=1, memory=1)])
            await self.until(before + 1)

    async def refused(self, halt: Halt) -> None:
        seq = await self.rm.ask([ask("app", "never", vcore=1, memory=1)])
        letter = await asyncio.wait_for(self.refusals.get(), 20)
        assert letter == DeadLetter(halt.told(), seq)


async def observer(server: NatsServer) -> NatsBus:
    return await connect(server.url, "observer", timeout_s=10)


async def halted(bus: NatsBus, within_s: float = 20) -> Halt:
    found: list[Halt] = []

    async def look() -> bool:
        entry = await bus.get(subjects.HALTS.name, subjects.key_of(RM))
        if entry is not None and entry.value is not None:
            found.append(Halt.decode(entry.value))
        return bool(found)

    await until(look, within_s)
    return found[0]


async def end_of_log(bus: NatsBus) -> int:
    last = await bus.last(subjects.LOG.name, subjects.log(RM))
    return last.seq if last is not None else 0


Damage = Callable[[NatsServer, Path], None]


def cut(server: NatsServer, old: Path) -> None:
    damage.cut_tail(server.data_dir, subjects.LOG.name)


def put_back(server: NatsServer, old: Path) -> None:
    damage.put_back(server.data_dir, old)


DAMAGES = pytest.mark.parametrize("harm", [cut, put_back])


@DAMAGES
async def test_with_all_services_live(server: NatsServer, tmp_path: Path, harm: Damage) -> None:
    async with Services(server.url):
        rm = ResourceManager.connect(server.url, RM, config=QUEUES, register_within_s=20)
        books = Books(rm)
        async with rm:
            await books.begin()
            await books.run("a", "b")
            await server.stop()
            damage.copy(server.data_dir, tmp_path / "old")
            await server.start()
            await books.run("c", "d", "e")
            await server.stop()
            harm(server, tmp_path / "old")
            await server.start()
            bus = await observer(server)
            halt = await halted(bus)
            end = await end_of_log(bus)
            if harm is cut:
                await books.refused(halt)
            assert await end_of_log(bus) == end
            await bus.close()
