"""Peloton's tasks as guests of an RM's partition: cores, rmproxies, resource managers of Peloton and engines. An RM
works on its nodes, and a job manager has tasks there, too.

Both logs are audited together: a run of Peloton is on a node only where the RM's core has allocated it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, cast
from unittest.mock import patch

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.memory import MemoryBus
from remuda_core.core import Core
from remuda_peloton.shell import main as resmgr_shell
from remuda_peloton.shell import placement as placement_shell
from remuda_peloton.shell.engine import Caller
from remuda_peloton.shell.settings import PlacementSettings
from remuda_peloton.shell.shared_engine import SharedEngine
from remuda_peloton.wire.snapshots import digest

from . import services
from .cluster import Cluster
from .environment import loop_time_s
from .peloton import resmgr
from .peloton_auditor import LOG_ID
from .peloton_clients import LEAVES, MANAGERS, JobManager, SimulatedServer, caller
from .side_by_side_auditor import PartitionAuditor, Place, SharedPelotonAuditor
from .side_by_side_world import CLUSTER, QUEUE, RM, ContainerManager, SharedWorld, SharingRm
from .simulation import simulated
from .story import CURRENT, Story, Violation
from .unrest import Unrest

BUSY_S = (10.0, 25.0)
FIRST_WITHIN_S = 30
TIMERS_S = 12.0
QUIET_S = 3.0  # nothing is decided for so long


def run(seed: int) -> Story:
    return simulated(Random(f"side by side {seed}"), _simulate)


class Channel:
    """In place of that of gRPC."""

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def channel_ready(self) -> None:
        pass


async def _simulate(random: Random, story: Story) -> None:
    def calls(_: Channel) -> Caller:
        """To one resource manager, until an RPC fails."""
        process = CURRENT.get()
        assert process is not None and process.connection is not None
        return caller(cast(Bus, process.connection), random, (random.choice(MANAGERS),))

    *defaults, _ = SharedEngine.__init__.__defaults__ or ()
    with (
        patch.object(resmgr_shell, "Server", SimulatedServer),
        patch.object(placement_shell, "channel", lambda *_: Channel()),
        patch.object(placement_shell, "Calls", calls),
        patch.object(SharedEngine.__init__, "__defaults__", (*defaults, loop_time_s)),
    ):
        await SideBySide(random, story).run()


class SideBySide(Unrest):
    payloads = (8 * 1024 * 1024,)
    looks_after_s = 0.5

    def __init__(self, random: Random, story: Story) -> None:
        super().__init__(random, story, DISASTERS)
        self.two_engines = random.random() < 0.5  # each believes that the lease is its own
        self.snapshots = random.choice((subjects.SNAPSHOTS, subjects.PELOTON_SNAPSHOTS)).name
        clock = asyncio.get_running_loop().time
        clusters: list[Cluster] = []
        self.rm = SharingRm(random, story, clusters, self._log_core)
        clusters.append(self.rm.cluster)
        self.world = SharedWorld(random, story, len(LEAVES), self._log_core)
        self.peloton = SharedPelotonAuditor(self.server, story, self._run_placed)
        self.auditor = PartitionAuditor(self.server, RM, story, clock, self.peloton.places)
        self.rm_cores = [self._leading(f"core-{n}", partial(services.core, self.snapshot_facts)) for n in (1, 2)]
        self.managers = [self._leading(name, partial(resmgr, self.snapshot_facts)) for name in MANAGERS]
        self.engines = [self._process(f"engine-{n}", engine) for n in (1, 2)]
        for one in self.engines if self.two_engines else ():
            one.own_leases = MemoryBus(clock, streams=(), buckets=(subjects.LEASES, subjects.LEADERS))
        self.cores = [*self.rm_cores, *self.managers, *self.engines]
        guests = (f"{CLUSTER}={RM}/{QUEUE}",)
        self.processes = [
            *self.cores,
            *(self._process(f"rmproxy-{n}", partial(services.rmproxy, guests=guests)) for n in (1, 2)),
            self._process("config", partial(services.config, None)),
            self._process("events", services.events),
            self._process(RM, self.rm.main),
            self._process("jobs", JobManager(self.world, random, story).main),
            self._process("containers", ContainerManager(self.world, random).main),
        ]
        self.background = [
            self.auditor.follow_log(), self.auditor.follow_requests(), self.auditor.follow_inbox(),
            self.peloton.follow_log(), self.world.nature(),
        ]  # fmt: skip

    def _log_core(self) -> Core:
        return self.auditor.core

    def _run_placed(self, place: Place) -> None:
        self.auditor.run_placed(place)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            background = await self._all_run(group)
            raging = group.create_task(self._rage())
            await self._first_launched()
            await asyncio.sleep(self.random.uniform(*BUSY_S))
            raging.cancel()
            await self._calm()
            for task in background:
                task.cancel()

    async def _first_launched(self) -> None:
        for _ in range(FIRST_WITHIN_S):
            if self.world.launched:
                return
            await asyncio.sleep(1.0)

    async def _calm(self) -> None:
        """No more disasters and no more work. The work under way ends, and then all books have to agree."""
        self._end_unrest()
        for one in self.engines if self.two_engines else ():
            one.own_leases = None
            one.kill()
        self.rm.resting = self.world.resting = True
        await asyncio.sleep(TIMERS_S)
        await self._settled()
        for log_id in (RM, LOG_ID):
            if (halt := await self.server.get(subjects.HALTS.name, subjects.key_of(log_id))) is not None:
                raise Violation(f"{log_id} is halted: {halt.value!r}")
        await self.auditor.audit(self._hot_cores())
        self.rm.cluster.compare(self.auditor.core, self.auditor.allocated)
        self.peloton.check()
        for name, core in self._hot():
            if digest(core.state) != digest(self.peloton.state):
                raise Violation(f"{name}: its state is not that of the log")
        self.story.tell(f"{self.auditor.most} guests at once, {len(self.world.launched)} runs were launched")

    async def _unsettled(self) -> str:
        """Both come to rest together: nothing is wanted of either, and no guest differs."""
        if not self.rm.cluster.registered or not self.rm.is_tidy:
            return f"{RM} is not registered, or has not tidied up"
        if (state := self.auditor.core.state.rm_state) != "Running":
            return f"{RM} is {state}"
        if why := await self.auditor.unsettled():
            return why
        if why := await self.peloton.unsettled(self.world):
            return why
        if why := self.auditor.guests_difference():
            return why
        if asyncio.get_running_loop().time() - self.auditor.changed_at < QUIET_S:
            return f"{RM} goes on"
        return self._followers()

    def _followers(self) -> str:
        ends_ms = self.auditor.core.state.now_ms
        cores, hot = self._hot_cores(), self._hot()
        if len(cores) != 1 + services.STANDBYS or len(hot) != 2:
            return (
                f"followers are {[name for name, _ in (*cores, *hot)]}, expected a leader and one standby of each log"
            )
        late = [name for name, core in cores if core.state.now_ms < ends_ms]
        late += [name for name, core in hot if core.state.now_ms < self.peloton.state.now_ms]
        return f"{late} are behind the log" if late else ""

    def _hot_cores(self) -> list[tuple[str, Core]]:
        return [
            (one.name, core)
            for one in self.rm_cores
            for core in one.cores
            if core.state.rm_id == RM and core.state.registration
        ]

    def _hot(self) -> list[tuple[str, Any]]:
        return [(one.name, core) for one in self.managers for core in one.cores if core.state.known_hosts]

    # Disasters of its own

    def _kill_an_engine(self) -> None:
        self.random.choice(self.engines).kill()

    def _restart_the_engines(self) -> None:
        """Together: if each believes that it holds the lease, both take over at once."""
        for process in self.engines:
            process.down_s = (0.1, 0.1)
            process.kill()

    def _stop_an_engine(self) -> None:
        """For longer than its lease is valid, or not."""
        self.random.choice(self.engines).stop(self.random.uniform(0.1, 8.0))

    def _kill_all_managers(self) -> None:
        for process in self.managers:
            process.kill()

    def _kill_all_cores(self) -> None:
        for process in self.rm_cores:
            process.kill()

    def _kill_the_rm(self) -> None:
        next(one for one in self.processes if one.name == RM).kill()


async def engine(bus: Bus) -> None:
    process = CURRENT.get()
    assert process is not None
    settings = PlacementSettings(
        instance=f"{process.name}.{process.lives}", address="simulated:1", rm=RM, queue=QUEUE, hold_s=3.0,
        ports="31000-31030",
    )  # fmt: skip
    await placement_shell.main(bus, settings)


DISASTERS: tuple[Callable[[SideBySide], None], ...] = (
    SideBySide._kill, SideBySide._kill, SideBySide._kill_a_core, SideBySide._kill_an_engine,
    SideBySide._stop_an_engine,
    SideBySide._restart_the_engines,
    SideBySide._kill_all_managers, SideBySide._kill_all_cores, SideBySide._kill_the_rm, SideBySide._stop,
    SideBySide._cut_off, SideBySide._outage, SideBySide._jump, SideBySide._fill, SideBySide._spoil_a_snapshot,
)  # fmt: skip
