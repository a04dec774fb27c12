"""Questions to a leader are answered, or refused when it does not lead any more: none waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Full, Refused, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_core.core import Core
from remuda_core.shell.machine import CoreMachine
from remuda_core.shell.settings import CoreSettings
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_replication.leader import Leader
from remuda_replication.log import LogWriter, Position
from remuda_replication.snapshots import Snapshots

RM = "rm-1"


class FullBus(MemoryBus):
    """`full`: nothing is appended to a log. `reads`: whether the inbox can be read."""

    full = False
    reads = True

    async def append(self, subject: str, *args, **options) -> int:
        if self.full and subject == subjects.log(RM):
            raise Full("maximum bytes exceeded")
        return await super().append(subject, *args, **options)

    async def read(self, *args, **options):
        if not self.reads:
            raise Unanswered("no answer")
        return await super().read(*args, **options)


def leader_on(bus: MemoryBus) -> Leader:
    machine = CoreMachine(Core(RM))
    snapshots = Snapshots(bus, machine, CoreSettings(snapshot_in_child=False))
    return Leader(bus, machine, 1, LogWriter(bus, RM, Position()), lambda: 10_000, snapshots)


async def some_work(bus: MemoryBus) -> None:
    command = inbox_pb2.Command()
    command.node.nodes.add()
    await bus.append(subjects.inbox(RM), command.SerializeToString())


async def ended(leading: asyncio.Task[Position]) -> None:
    leading.cancel()
    await asyncio.wait([leading])


async def test_questions_to_a_leader_that_is_cancelled_are_refused() -> None:
    """One is evaluated and waits for the commit to be durable, others wait behind it."""
    bus = FullBus()
    bus.full = True
    leader, evaluated = leader_on(bus), asyncio.Event()
    leading = asyncio.create_task(leader.lead(lambda: True))
    asked = [asyncio.create_task(leader.ask(evaluated.set))]
    await some_work(bus)
    async with asyncio.timeout(5):
        await evaluated.wait()
        asked += [asyncio.create_task(leader.ask(lambda: None)) for _ in range(10)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in asked)
        await ended(leading)
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert [(type(one), str(one)) for one in found] == [
        (Refused, "this process does not lead any more, try again")
    ] * 11


async def test_questions_to_a_leader_that_cannot_begin_are_refused() -> None:
    bus = FullBus()
    bus.reads = False
    leader = leader_on(bus)
    asked = asyncio.create_task(leader.ask(lambda: None))
    await asyncio.sleep(0)
    with pytest.raises(Unanswered):
        await leader.lead(lambda: True)
    async with asyncio.timeout(5):
        with pytest.raises(Refused, match="does not lead any more"):
            await asked
        with pytest.raises(Refused, match="does not lead any more"):
            await leader.ask(lambda: None)


async def test_a_digest_of_a_leader_that_has_ended_is_refused() -> None:
    bus = FullBus()
    leader = leader_on(bus)
    leading = asyncio.create_task(leader.lead(lambda: True))
    await asyncio.sleep(0)
    await ended(leading)
    async with asyncio.timeout(5):
        with pytest.raises(Refused, match="does not lead any more"):
            await leader.snapshots.digest()
