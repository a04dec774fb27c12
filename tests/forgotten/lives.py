"""An RM that keeps records, the command line, and the signs of a halt."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from remuda.admin.rebuild import read_saved
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus, connect
from remuda_operations.queries import core as queries
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.rms.halts import Halt
from remuda_sdk import DeadLetter, ResourceManager, application, ask, node
from tests.system.running import QUEUES, until

RM = "rm:1"
SLOTS = 1_000
WITHIN_S = 60.0  # twenty processes share two cores


class Books:
    """The running allocations of the RM, and its report of them."""

    def __init__(self, rm: ResourceManager) -> None:
        self.rm = rm
        self.running: dict[str, si.Allocation] = {}
        self.refusals: asyncio.Queue[DeadLetter] = asyncio.Queue()
        self.reported = asyncio.Event()
        self.more = asyncio.Event()
        rm.on_allocation(self.told)
        rm.on_dead_letter(self.refusals.put_nowait)
        rm.on_report_requested(self.report)

    def told(self, response: si.AllocationResponse) -> None:
        for allocation in response.new:
            assert allocation.UUID not in self.running
            self.running[allocation.UUID] = allocation
        self.more.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(WITHIN_S):
            while len(self.running) < count:
                self.more.clear()
                await self.more.wait()

    async def report(self) -> None:
        """Applications first: an allocation of an unknown one rejects its node."""
        await self.rm.submit(application("app", queue="root.a", user="u"))
        n1 = node("n1", vcore=SLOTS, memory=SLOTS)
        n1.existingAllocations.extend(self.running.values())
        await self.rm.report_nodes([n1])
        self.reported.set()

    async def run(self, *keys: str) -> None:
        """One after the other, so that each is a commit of its own."""
        for key in keys:
            before = len(self.running)
            await self.rm.ask([ask("app", key, vcore=1, memory=1)])
            await self.until(before + 1)

    async def refused(self, halt: Halt) -> None:
        seq = await self.rm.ask([ask("app", "never", vcore=1, memory=1)])
        async with asyncio.timeout(WITHIN_S):
            while (letter := await self.refusals.get()).request_seq != seq:
                pass  # asked before, and perhaps not yet taken for forwarded
        assert letter.reason == halt.explanation()


async def observer(server: NatsServer) -> NatsBus:
    return await connect(server.url, "observer", timeout_s=10)


async def halted(bus: NatsBus, within_s: float = WITHIN_S) -> Halt:
    found: list[Halt] = []

    async def look() -> bool:
        entry = await bus.get(subjects.HALTS.name, subjects.key_of(RM))
        if entry is not None and entry.value is not None:
            found.append(Halt.decode(entry.value))
        return bool(found)

    await until(look, within_s)
    return found[0]


async def history_goes_on(bus: NatsBus, newest: str) -> None:
    """Up to that allocation: of the alarm, of the rebuilding, and of what came after it."""
    reader = await bus.read(subjects.EVENTS.name, subjects.event(RM))
    told: list[tuple[str, str]] = []
    async with asyncio.timeout(WITHIN_S):
        while all(about != newest for _, about in told):
            records = [si.EventRecord.FromString(message.payload) for message in await reader.batch()]
            told += [(record.objectID, record.message or record.referenceID) for record in records]
    [rebuilt] = [number for number, (_, said) in enumerate(told) if said.startswith("rebuilt")]
    assert any("is halted" in said for _, said in told[:rebuilt])
    await reader.close()


async def remuda(*arguments: str) -> str:
    """Returns the output of the command, on one line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return " ".join((await process.communicate())[0].decode().split())


async def back_again(server: NatsServer, bus: NatsBus, books: Books, directory: Path) -> None:
    """One command and the report: what runs is known again, and more is scheduled."""
    books.reported.clear()
    said = await remuda("status", "--nats", server.url)
    assert f"{RM} is HALTED since" in said
    assert f"remuda rebuild {RM}" in said
    said = await remuda("rebuild", RM, "--nats", server.url, "--directory", str(directory), "--yes")
    assert f"{RM} is registered again" in said
    [path] = directory.glob("*.saved.gz")
    assert {stream for stream, _ in read_saved(path)} >= {subjects.LOG.name, subjects.INBOX.name}
    await asyncio.wait_for(books.reported.wait(), WITHIN_S)
    before = dict(books.running)
    await books.run("x", "y")
    assert len(books.running) == len(before) + 2
    [n1] = (await queries.nodes(bus, RM)).partitions[0].nodes
    assert (n1.allocations, n1.allocated["vcore"]) == (len(books.running), len(books.running))
    assert await bus.get(subjects.HALTS.name, subjects.key_of(RM)) is None
    await history_goes_on(bus, list(books.running)[-1])


def connected(server: NatsServer) -> ResourceManager:
    return ResourceManager.connect(server.url, RM, config=QUEUES, register_within_s=WITHIN_S)
