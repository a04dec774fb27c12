"""Peloton's resource manager with its clients: three processes of it, a job manager, a host manager and two engines.

The bus loses answers, and processes are killed. Then all is calmed and audited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_peloton.shell import main as resmgr_shell
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_peloton.wire.snapshots import digest

from .peloton_auditor import LOG_ID, PelotonAuditor
from .peloton_clients import LEAVES, MANAGERS, HostManager, JobManager, SimulatedServer, engine
from .peloton_world import World
from .simulation import simulated
from .story import CURRENT, Story, Violation
from .unrest import Unrest

BUSY_S = (15.0, 40.0)
TIMERS_S = 10.0
QUIET_S = 3.0


def run(seed: int) -> Story:
    return simulated(Random(f"peloton {seed}"), _simulate)


async def _simulate(random: Random, story: Story) -> None:
    with patch.object(resmgr_shell, "Server", SimulatedServer):
        await Peloton(random, story).run()


async def resmgr(snapshot_facts: int, bus: Bus) -> None:
    process = CURRENT.get()
    assert process is not None
    settings = ResmgrSettings(
        instance=f"{process.name}.{process.lives}", standbys=1, snapshot_facts=snapshot_facts, snapshot_s=10.0,
        snapshot_apart_s=0.5, snapshot_in_child=False, replay_horizon_s=0.0, entitlement_s=1.0, preemption_s=2.0,
        sustained_over_allocation_count=2, placing_timeout_s=6.0, placed_timeout_s=15.0, launching_timeout_s=20.0,
        preempting_timeout_s=10.0, reserving_timeout_s=10.0, retry_backoff_s=1.0,
        reconciliation_age_s=1.0, enable_host_reservation=True, reserve_after_failures=True, retry_cycles=1,
        attempts_per_cycle=1, preempt_all_states=True,
    )  # fmt: skip
    await resmgr_shell.main(bus, settings)


class Peloton(Unrest):
    payloads = (8 * 1024 * 1024,)
    looks_after_s = 0.5
    refusing = (subjects.PELOTON_INBOX, subjects.PELOTON_LOG)
    snapshots = subjects.PELOTON_SNAPSHOTS.name

    def __init__(self, random: Random, story: Story) -> None:
        super().__init__(random, story, DISASTERS)
        self.world = World(random, story, len(LEAVES))
        self.auditor = PelotonAuditor(self.server, story)
        self.cores = [self._leading(name, partial(resmgr, self.snapshot_facts)) for name in MANAGERS]
        self.processes = [
            *self.cores,
            self._process("jobs", JobManager(self.world, random, story).main),
            self._process("hosts", HostManager(self.world, random).main),
            *(self._process(f"engine-{number}", partial(engine, random)) for number in (1, 2)),
        ]
        self.background = [self.auditor.follow_log(), self.world.nature()]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            background = await self._all_run(group)
            raging = group.create_task(self._rage())
            await asyncio.sleep(self.random.uniform(*BUSY_S))
            raging.cancel()
            await self._calm()
            for task in background:
                task.cancel()

    async def _calm(self) -> None:
        """No more disasters and no more jobs. The work under way ends, and then all books have to agree."""
        self._end_unrest()
        self.world.resting = True
        await asyncio.sleep(TIMERS_S)
        await self._settled()
        if (halt := await self.server.get(subjects.HALTS.name, subjects.key_of(LOG_ID))) is not None:
            raise Violation(f"{LOG_ID} is halted: {halt.value!r}")
        self.auditor.check()
        for name, core in self._hot():
            if digest(core.state) != digest(self.auditor.state):
                raise Violation(f"{name}: its state is not that of the log")

    async def _unsettled(self) -> str:
        if why := await self.auditor.unsettled(self.world):
            return why
        if (hot := len(self._hot())) != 2:
            return f"{hot} processes follow the log, expected a leader and one standby"
        for name, core in self._hot():
            if core.state.now_ms < self.auditor.state.now_ms:
                return f"{name} is behind the log"
        return ""

    def _hot(self) -> list[tuple[str, Any]]:
        return [(one.name, core) for one in self.cores for core in one.cores if core.state.known_hosts]

    def _kill_a_client(self) -> None:
        self.random.choice([one for one in self.processes if one not in self.cores]).kill()

    def _kill_all_cores(self) -> None:
        for process in self.cores:
            process.kill()


DISASTERS: tuple[Callable[[Peloton], None], ...] = (
    Peloton._kill, Peloton._kill_a_core, Peloton._kill_a_core, Peloton._kill_a_client, Peloton._kill_all_cores,
    Peloton._stop, Peloton._cut_off, Peloton._outage, Peloton._jump, Peloton._fill, Peloton._spoil_a_snapshot,
)  # fmt: skip
