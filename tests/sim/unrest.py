"""Processes on one server, from a seed, and the disasters that befall them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.memory import MemoryBus

from . import services
from .network import Network, at_once, one_by_one
from .process import Main, Process
from .story import Story, Violation
from .weather import Weather

REFUSING = tuple(stream for stream in subjects.STREAMS if stream.discard == "new")


class Unrest:
    """Everything that is drawn here is drawn once, at the start; what is drawn later depends on what happens. `quiet`:
    nothing goes wrong. `possible`: disasters, of which some are chosen. `cores`: the processes that may lead;
    `processes`: all."""

    payloads: tuple[int, ...] = (8 * 1024 * 1024, 6 * 1024)
    refusing: Sequence[subjects.Stream] = REFUSING
    snapshots = subjects.SNAPSHOTS.name
    looks_after_s = 1.0  # whether all has come to rest
    settled_within_s = 120.0

    def __init__(
        self, random: Random, story: Story, possible: Sequence[Callable[[Any], None]], *, quiet: bool = False
    ) -> None:
        clock = asyncio.get_running_loop().time
        self.random = random
        self.story = story
        window_s = random.choice((120.0, 2.0))  # JetStream promises no more, and we need less
        streams = [
            replace(one, duplicate_window_s=window_s) if one is not subjects.REQUESTS else one
            for one in subjects.STREAMS
        ]
        self.server = MemoryBus(clock, random.choice(self.payloads), streams, subjects.BUCKETS)
        self.weather = Weather(random)
        self.network = Network(self.server, self.weather, random, story)
        self.weather.calm = quiet
        self.two_leaders = random.random() < 0.25 and not quiet
        self.network.judges = not (self.two_leaders and random.random() < 0.5)
        self.unrest_s = random.choice((1.5, 4.0, 10.0))  # between two disasters
        self.snapshot_facts = random.choice((10, 30, 1_000))
        self.disasters = [] if quiet else random.sample(possible, random.randint(1, len(possible)))
        self.spoilt = False
        self.background: list[Coroutine[Any, Any, None]] = []  # of no process
        self.processes: list[Process] = []
        self.cores: list[Process] = []

    async def _settled(self) -> None:
        """Returns when all has come to rest. Raises Violation if it does not."""
        now = asyncio.get_running_loop().time
        until = now() + self.settled_within_s
        while why := await self._unsettled():
            if now() > until:
                raise Violation(f"it does not come to rest: {why}")
            await asyncio.sleep(self.looks_after_s)

    async def _unsettled(self) -> str:
        """Why it has not come to rest yet; empty: it has."""
        raise NotImplementedError

    def _process(self, name: str, main: Main) -> Process:
        return Process(name, main, self.network, self.random, self.story, expected=services.expected)

    def _leading(self, name: str, main: Callable[[Bus], Coroutine[Any, Any, None]]) -> Process:
        """A process that may lead; of two leaders, each believes that the lease is its own."""
        process = self._process(name, main)
        if self.two_leaders:
            process.own_leases = MemoryBus(
                asyncio.get_running_loop().time, streams=(), buckets=(subjects.LEASES, subjects.LEADERS)
            )
        return process

    async def _all_run(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start the processes and the background. The tasks never end by themselves."""
        self.story.tell(f"two leaders: {self.two_leaders}, judged: {self.network.judges}, {self._named()}")
        background = [group.create_task(process.keep_running()) for process in self.processes]
        return background + [group.create_task(one) for one in self.background]

    def _named(self) -> str:
        return ", ".join(disaster.__name__.strip("_") for disaster in self.disasters)

    def _end_unrest(self) -> None:
        """No more disasters; all processes run, and one leads."""
        self.story.tell("calm")
        self.weather.calm, self.network.judges = True, True
        for process in self.processes:
            process.clock_s, process.down_s = 0.0, (0.05, 0.1)
        if self.two_leaders:
            for process in self.cores:
                process.own_leases = None
                process.kill()

    # Disasters

    async def _rage(self) -> None:
        while self.disasters:
            await asyncio.sleep(self.random.expovariate(1 / self.unrest_s))
            self.random.choice(self.disasters)(self)

    def _kill(self) -> None:
        self.random.choice(self.processes).kill()

    def _kill_a_core(self) -> None:
        self.random.choice(self.cores).kill()

    def _stop(self) -> None:
        self.random.choice(self.processes).stop(self.random.uniform(0.1, 7.0))

    def _cut_off(self) -> None:
        process, for_s = self.random.choice(self.processes), self.random.uniform(0.1, 7.0)
        self.story.tell(f"{process.name} is cut off for {for_s:.1f} s")
        if process.connection is not None:
            process.connection.cut(for_s)

    def _outage(self) -> None:
        for_s = self.random.uniform(0.2, 5.0)
        self.story.tell(f"the server is away for {for_s:.1f} s")
        for process in self.processes:
            if process.connection is not None:
                process.connection.cut(for_s)

    def _jump(self) -> None:
        process = self.random.choice([*self.cores, self.random.choice(self.processes)])
        process.clock_s = self.random.choice((self.random.uniform(-15.0, 15.0), 3_600.0, -3_600.0))
        self.story.tell(f"the clock of {process.name} is ahead by {process.clock_s:.1f} s")

    def _fill(self) -> None:
        """No room in a stream, for a while."""
        stream, for_s = self.random.choice(self.refusing), self.random.uniform(0.2, 6.0)
        self.story.tell(f"{stream.name} is full for {for_s:.1f} s")
        self.server.resize(stream.name, 1)
        self.network.later(for_s, self.server.resize, stream.name, stream.max_bytes)

    def _spoil_a_snapshot(self) -> None:
        """The newest of an RM. Not both: what is trimmed is trimmed in the belief that one of two can be read."""
        found: dict[str, int] = {}
        for name in at_once(self.server.object_names(self.snapshots)):
            rm, _, seq = name.rpartition(".")
            found[rm] = max(found.get(rm, 0), int(seq))
        if found and not self.spoilt:
            self.spoilt = True
            name = f"{(rm := self.random.choice(list(found)))}.{found[rm]}"
            self.story.tell(f"snapshot {name} is spoilt")
            at_once(self.server.put_object(self.snapshots, name, one_by_one([b"\xffrubbish"])))
