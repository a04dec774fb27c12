"""Five resource managers, one of them hostile: the others must not notice.

Where nothing else goes wrong a seed is run twice, with the hostile RM and without it, and how long the others wait for
an answer is compared. In every other seed there are disasters, too, and the books are compared alone.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from remuda_bus.bus import Bus, BusError
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import Callback, ResourceManager, ask

from .cluster import Cluster
from .hostile import HostileRm
from .resource_manager import Rm
from .simulation import Simulation, simulated
from .story import Story

GOOD_RMS = 4
BUSY_S = 10.0
PROBE_EVERY_S = 0.1
TIMES = 2.0  # the others' p99 stays within so many times of what it is without the hostile RM


class Measured(Cluster):
    """Counts how long an answer takes that depends on nothing but the way there and back: an ask of an application
    that does not exist is rejected at once."""

    def __init__(self, rm_id: str) -> None:
        super().__init__(rm_id)
        self.probed: dict[str, float] = {}
        self.waits_s: list[float] = []

    def hear(self, callback: Callback, this_life: set[str]) -> Iterator[str]:
        if isinstance(callback, si.AllocationResponse):
            now = asyncio.get_running_loop().time()
            found = [self.probed.pop(ask.allocationKey, None) for ask in callback.rejected]
            self.waits_s += [now - at for at in found if at is not None]
        yield from super().hear(callback, this_life)


class GoodRm(Rm):
    """Works as RMs do, from a seed of its own: its actions do not depend on others. It keeps its registration."""

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster], *, probes: bool) -> None:
        super().__init__(rm_id, random, story, neighbours)
        self.cluster: Measured = Measured(rm_id)
        self._probes = probes
        if probes:
            self._slow = 0.0
            self._asks_predicates = False

    ACTS = tuple(act for act in Rm.ACTS if act[0] not in (Rm._register_again, Rm._deregister))

    async def _work(self, rm: ResourceManager, bus: Bus) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super()._work(rm, bus))
            if self._probes:
                group.create_task(self._probe(rm))

    async def _probe(self, rm: ResourceManager) -> None:
        number = 0
        while not self.resting:
            key = f"probe-{number}"
            self.cluster.probed[key] = asyncio.get_running_loop().time()
            try:
                await rm.ask([ask("no-such-application", key, vcore=1)])
            except BusError as error:
                self._story.tell(f"could not probe: {error}")
            number += 1
            await asyncio.sleep(PROBE_EVERY_S)


class Tenants(Simulation):
    """`hostile`: with it. `quiet`: nothing else goes wrong, and how long the others wait is measured."""

    payloads = (8 * 1024 * 1024,)

    def __init__(self, random: Random, story: Story, *, seed: int, hostile: bool, quiet: bool) -> None:
        self._seed = seed
        self._quiet = quiet
        self.good: list[GoodRm] = []
        super().__init__(random, story, quiet=quiet)
        self.hostile = HostileRm("hostile", Random(f"{seed} hostile"), story)
        if hostile:
            self.processes.append(self._process("hostile", self.hostile.main))

    def _make_rms(self) -> Sequence[Rm]:
        clusters: list[Cluster] = []
        names = [f"rm-{number}" for number in range(1, GOOD_RMS + 1)]
        self.good = [
            GoodRm(name, Random(f"{self._seed} {name}"), self.story, clusters, probes=self._quiet) for name in names
        ]
        clusters += [rm.cluster for rm in self.good]
        return self.good

    async def _busy(self) -> None:
        await asyncio.sleep(BUSY_S)
        self.hostile.resting = True

    async def _calm(self) -> None:
        await super()._calm()
        if self._quiet:
            for process in self.processes:
                if process.lives > 1 and process.name not in self.auditors:  # RMs may come before rmproxy listens
                    self.story.violated(f"{process.name} has ended {process.lives - 1} times")
            for rm in self.good:
                if rm.cluster.probed:
                    self.story.violated(f"{rm.cluster.rm_id} waits for {len(rm.cluster.probed)} answers for ever")


def run(seed: int) -> Story:
    """As in `simulation.run`, with the waits of the others compared where that says something."""
    quiet = seed % 2 == 0
    story, waits_s = _one(seed, hostile=True, quiet=quiet)
    if quiet and not story.violations:
        alone, alone_s = _one(seed, hostile=False, quiet=True)
        story.violations += [f"without the hostile RM: {one}" for one in alone.violations]
        if not story.violations:
            _compare(story, waits_s, alone_s)
    return story


def _one(seed: int, *, hostile: bool, quiet: bool) -> tuple[Story, list[float]]:
    made: list[Tenants] = []

    async def simulate(random: Random, story: Story) -> None:
        made.append(Tenants(random, story, seed=seed, hostile=hostile, quiet=quiet))
        await made[0].run()

    story = simulated(Random(f"{seed} tenants"), partial(simulate))
    return story, [wait for rm in made[0].good for wait in rm.cluster.waits_s] if made else []


def _compare(story: Story, waits_s: list[float], alone_s: list[float]) -> None:
    beside, alone = p99(waits_s), p99(alone_s)
    story.lines.append(f"p99 of {len(waits_s)} answers beside a hostile RM {beside:.4f} s, alone {alone:.4f} s")
    if beside > TIMES * alone:
        story.violations.append(
            f"others wait longer: p99 {beside * 1_000:.1f} ms beside the hostile RM, {alone * 1_000:.1f} ms without it"
        )


def p99(waits_s: list[float]) -> float:
    return statistics.quantiles(waits_s, n=100, method="inclusive")[98] if len(waits_s) > 1 else 0.0
