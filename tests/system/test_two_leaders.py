"""Two cores both try to lead one resource manager, all the time: they waste work, without any other effect.

Each believes in all of its lives that it is elected, so nothing but the log keeps them apart."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Headers, NoResponders, Refused, Unanswered
from remuda_bus.nats import NatsBus, connect
from remuda_core.core import Core
from remuda_core.shell.machine import CoreMachine
from remuda_core.shell.main import main as core_main
from remuda_core.shell.main import wall_clock_ms
from remuda_core.shell.settings import CoreSettings
from remuda_replication.leader import Leader
from remuda_replication.log import LogReader, LostLeadership, Position
from remuda_replication.snapshots import Snapshots
from remuda_replication.standby import Follower
from tests.accounting import AccountingRm, Books, Plan, verify
from tests.system.running import around_the_core, running, until

RM = "rm-1"
PLAN = Plan(asks=1_500, nodes=10, applications=5, rate=500, lives_ms=200)
LIVES_S = 1.0  # of a rival, at most


class Hesitant:
    """A bus on which commits are late by chance. `fenced` False: its server stores what it should refuse, and the
    answer is lost."""

    def __init__(self, bus: NatsBus, chance: random.Random, fenced: bool) -> None:
        self._bus = bus
        self._chance = chance
        self._fenced = fenced

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def append(
        self, subject: str, payload: bytes, headers: Headers | None = None, *, expect_last: int, timeout_s: float
    ) -> int:
        await asyncio.sleep(self._chance.choice((0, 0, 0.002, 0.01)))
        if self._fenced:
            return await self._bus.append(subject, payload, headers, expect_last=expect_last)
        seq = await self._bus.append(subject, payload, headers)
        if seq - 1 != expect_last:  # there is no other RM in the stream
            raise Unanswered(f"{subject}: the answer to {seq} was lost")
        return seq


class Rival:
    """Leads, and when it has died is born again."""

    def __init__(self, url: str, name: str, chance: random.Random, fenced: bool) -> None:
        self.name = name
        self.lost = 0
        self._url = url
        self._chance = chance
        self._fenced = fenced

    async def run(self) -> None:
        for epoch in itertools.count(1):
            bus = await connect(self._url, self.name, timeout_s=5)
            try:
                async with asyncio.timeout(self._chance.uniform(0, LIVES_S)):
                    await self._lead(Hesitant(bus, self._chance, self._fenced), epoch)
            except LostLeadership:
                self.lost += 1
            except TimeoutError:
                pass  # killed
            finally:
                await bus.close()

    async def _lead(self, bus: Any, epoch: int) -> None:
        machine = CoreMachine(Core(RM))
        follower = Follower(bus, machine)
        await follower.open(Position())
        snapshots = Snapshots(bus, machine, CoreSettings())
        await Leader(bus, machine, epoch, await follower.close(), wall_clock_ms, snapshots).lead(lambda: True)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fenced", [True, False])
async def test_only_one_of_two_leaders_is_believed(tmp_path: Path, fenced: bool) -> None:
    chance = random.Random(20261121)
    async with NatsServer(tmp_path / "nats") as server, around_the_core(server.url) as bus:
        rivals = [Rival(server.url, name, chance, fenced) for name in ("one", "two")]
        rm = AccountingRm(server.url, RM, Books.open(PLAN, tmp_path / "journal"))
        tasks = [asyncio.create_task(work) for work in (rm.run(), *(rival.run() for rival in rivals))]
        settled = asyncio.create_task(rm.settled.wait())
        await asyncio.wait([settled, *tasks], timeout=90, return_when=asyncio.FIRST_COMPLETED)
        assert settled.done(), "the RM has not got what it wanted"
        await until(lambda: have_met(rivals), 30)  # on a slow machine, one has done it all in a life of its own
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        async with running(server.url, "core", core_main, CoreSettings):
            await until(lambda: answers(bus))
            assert await verify(bus, RM, rm.books) == []
        assert (await voided(bus) == 0) == fenced


async def have_met(rivals: Sequence[Rival]) -> bool:
    return all(rival.lost > 3 for rival in rivals)


async def answers(bus: NatsBus) -> bool:
    try:
        await bus.request(subjects.core_query(RM, "stats"))
    except (NoResponders, Refused, Unanswered):  # unanswered: the core has begun to serve, but not this RM yet
        return False
    return True


async def voided(bus: NatsBus) -> int:
    """Void messages of the log: another leader was first."""
    reader = await LogReader.open(bus, RM)
    async for _ in reader.read_to_end():
        pass
    await reader.close()
    last = await bus.last_message(subjects.LOG.name, subjects.log(RM))
    assert last is not None and reader.last_seq == last.seq
    return reader.voided
