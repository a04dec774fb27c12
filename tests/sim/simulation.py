"""The whole system in one process: built from a seed, left to chance for a while, then calmed and audited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_core.core import Core

from . import services
from .auditor import Auditor
from .cluster import Cluster
from .environment import environment
from .loop import Stuck, VirtualLoop
from .network import Network, at_once, one_by_one
from .operator import Operator
from .process import Main, Process, leaves, said
from .queues_file import QueuesFile
from .resource_manager import Rm
from .story import CURRENT, Story, Violation
from .weather import Weather

BUSY_S = (8.0, 25.0)
TIMERS_S = 12.0  # what is set while all is busy is due by then
SETTLED_WITHIN_S = 120.0
REFUSING = tuple(stream for stream in subjects.STREAMS if stream.discard == "new")


def run(seed: int) -> Story:
    """Raises nothing: `violations` of the story says what was wrong."""
    return simulated(Random(seed), lambda random, story: Simulation(random, story).run())


def simulated(
    random: Random, simulate: Callable[[Random, Story], Coroutine[Any, Any, None]], file: QueuesFile | None = None
) -> Story:
    """`simulate`, on virtual time. `file`: that of the configuration service."""
    loop = VirtualLoop(_adopt)
    story = Story(loop.time)

    async def begin() -> None:
        await simulate(random, story)

    with environment(random, file or QueuesFile()), story.of_logs():
        loop.set_exception_handler(lambda _, context: _unhandled(story, context))
        try:
            loop.run_until_complete(begin())
        except Stuck as error:
            story.violations.insert(0, str(error))
        except BaseExceptionGroup as errors:
            story.violations[:0] = [said(error) for error in leaves(errors)]
        finally:
            loop.set_exception_handler(lambda *_: None)
            loop.clear()
    return story


def _adopt(task: asyncio.Task[None], context: Context | None) -> None:
    process = CURRENT.get() if context is None else context.get(CURRENT)
    if process is not None:
        process.adopt(task)


def _unhandled(story: Story, context: dict[str, object]) -> None:
    error = context.get("exception")
    story.tell(f"{context.get('message')}: {error!r}")


class Simulation:
    """Everything that is drawn here is drawn once, at the start; what is drawn later depends on what happens. `quiet`:
    nothing goes wrong."""

    payloads: tuple[int, ...] = (8 * 1024 * 1024, 6 * 1024)

    def __init__(self, random: Random, story: Story, *, quiet: bool = False) -> None:
        clock = asyncio.get_running_loop().time
        self.random = random
        self.story = story
        window_s = random.choice((120.0, 2.0))  # JetStream promises no more, and we need less
        streams = [
            replace(one, duplicate_window_s=window_s) if one is not subjects.REQUESTS else one
            for one in subjects.STREAMS
        ]
        self.server = MemoryBus(
            asyncio.get_running_loop().time, random.choice(self.payloads), streams, subjects.BUCKETS
        )
        self.weather = Weather(random)
        self.network = Network(self.server, self.weather, random, story)
        self.weather.calm = quiet
        self.two_leaders = random.random() < 0.25 and not quiet
        self.network.judges = not (self.two_leaders and random.random() < 0.5)
        self.unrest_s = random.choice((1.5, 4.0, 10.0))  # between two disasters
        self.snapshot_facts = random.choice((10, 30, 1_000))
        self.disasters = [] if quiet else random.sample(DISASTERS, random.randint(1, len(DISASTERS)))
        self.spoilt = False
        self.background: list[Coroutine[Any, Any, None]] = []  # of no process
        self.rms = self._make_rms()
        self.auditors = {rm.cluster.rm_id: Auditor(self.server, rm.cluster.rm_id, story, clock) for rm in self.rms}
        self.cores = [self._core(f"core-{number + 1}") for number in range(random.choice((2, 2, 3, 4)))]
        self.proxies = [self._process(f"rmproxy-{n}", services.rmproxy) for n in (1, 2)]
        self.operator = Operator(random, story, list(self.auditors.values()))
        self.processes = [
            *self.cores,
            *self.proxies,
            self._make_config(),
            *(self._process(f"events-{n}", services.events) for n in (1, 2)),
            *(self._process(rm.cluster.rm_id, rm.main) for rm in self.rms),
            self._process("operator", self.operator.main),
        ]

    def _make_config(self) -> Process:
        return self._process("config", partial(services.config, None))

    def _make_rms(self) -> Sequence[Rm]:
        clusters: list[Cluster] = []
        rms = [Rm(f"rm-{number}", self.random, self.story, clusters) for number in range(1, self.random.choice((2, 3)))]
        clusters += [rm.cluster for rm in rms]
        return rms

    def _process(self, name: str, main: Main) -> Process:
        return Process(name, main, self.network, self.random, self.story, expected=services.expected)

    def _core(self, name: str) -> Process:
        leases = None
        if self.two_leaders:
            leases = MemoryBus(asyncio.get_running_loop().time, streams=(), buckets=(subjects.LEASES, subjects.LEADERS))
        return Process(
            name,
            partial(services.core, self.snapshot_facts),
            self.network,
            self.random,
            self.story,
            expected=services.expected,
            own_leases=leases,
        )

    async def run(self) -> None:
        self.story.tell(f"two leaders: {self.two_leaders}, judged: {self.network.judges}, {self._disasters()}")
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(process.keep_running()) for process in self.processes]
            for auditor in self.auditors.values():
                self.background += (auditor.follow_log(), auditor.follow_requests(), auditor.follow_inbox())
            background += [group.create_task(one) for one in self.background]
            raging = group.create_task(self._rage())
            await self._all_registered()
            await self._busy()
            raging.cancel()
            await self._calm()
            for task in background:
                task.cancel()

    async def _busy(self) -> None:
        await asyncio.sleep(self.random.uniform(*BUSY_S))

    def _disasters(self) -> str:
        return ", ".join(disaster.__name__.strip("_") for disaster in self.disasters)

    async def _all_registered(self) -> None:
        for _ in range(60):
            if all(rm.cluster.registered for rm in self.rms):
                return
            await asyncio.sleep(0.5)

    # Disasters

    async def _rage(self) -> None:
        while self.disasters:
            await asyncio.sleep(self.random.expovariate(1 / self.unrest_s))
            self.random.choice(self.disasters)(self)

    def _kill(self) -> None:
        self.random.choice(self.processes).kill()

    def _kill_a_core(self) -> None:
        self.random.choice(self.cores).kill()

    def _kill_leader_and_standby(self) -> None:
        """All cores that follow some RM: another has to take over that has not followed it."""
        rm_id = self.random.choice(self.rms).cluster.rm_id
        for process in self.cores:
            if any(core.state.rm_id == rm_id and core.state.registration for core in process.cores):
                process.kill()

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
        stream, for_s = self.random.choice(REFUSING), self.random.uniform(0.2, 6.0)
        self.story.tell(f"{stream.name} is full for {for_s:.1f} s")
        self.server.resize(stream.name, 1)
        self.network.later(for_s, self.server.resize, stream.name, stream.max_bytes)

    def _spoil_a_snapshot(self) -> None:
        """The newest of an RM. Not both: what is trimmed is trimmed in the belief that one of two can be read."""
        found: dict[str, int] = {}
        for name in at_once(self.server.object_names(subjects.SNAPSHOTS.name)):
            rm, _, seq = name.rpartition(".")
            found[rm] = max(found.get(rm, 0), int(seq))
        if found and not self.spoilt:
            self.spoilt = True
            name = f"{(rm := self.random.choice(list(found)))}.{found[rm]}"
            self.story.tell(f"snapshot {name} is spoilt")
            at_once(self.server.put_object(subjects.SNAPSHOTS.name, name, one_by_one([b"\xffrubbish"])))

    # The end

    async def _calm(self) -> None:
        """No more disasters and no more work; all processes run. The work under way ends, and then has to be
        right."""
        self.story.tell("calm")
        self.weather.calm, self.network.judges = True, True
        for process in self.processes:
            process.clock_s, process.down_s = 0.0, (0.05, 0.1)
        self.operator.resting = True
        for rm in self.rms:
            rm.resting = True
        if self.two_leaders:
            for process in self.cores:
                process.own_leases = None
                process.kill()
        await asyncio.sleep(TIMERS_S)
        await self._settled()
        for rm in self.rms:
            rm_id = rm.cluster.rm_id
            auditor = self.auditors[rm_id]
            auditor.compare_actions(self.operator.answers[rm_id])
            cores = self._cores_of(rm_id)
            if not cores:
                raise Violation(f"nobody leads {rm_id}")
            if (halt := await self.server.get(subjects.HALTS.name, subjects.key_of(rm_id))) is not None:
                raise Violation(f"{rm_id} is halted: {halt.value!r}")
            await auditor.audit(cores)
            rm.cluster.compare(auditor.core, auditor.allocated)

    async def _settled(self) -> None:
        now = asyncio.get_running_loop().time
        until = now() + SETTLED_WITHIN_S
        while why := await self._unsettled():
            if now() > until:
                raise Violation(f"it does not come to rest: {why}")
            await asyncio.sleep(1.0)

    def _cores_of(self, rm_id: str) -> list[tuple[str, Core]]:
        """The state of the RM in each core process that follows or leads it, with the name of the process."""
        return [
            (process.name, core)
            for process in self.cores
            for core in process.cores
            if core.state.rm_id == rm_id and core.state.registration
        ]

    async def _unsettled(self) -> str:
        now = asyncio.get_running_loop().time()
        if self.operator.waits:
            return "the operator waits for an answer"
        for rm in self.rms:
            auditor = self.auditors[rm.cluster.rm_id]
            if not rm.cluster.registered:
                return f"{auditor.rm_id} is not registered"
            if (state := auditor.core.state.rm_state) != "Running":  # late word of its silence is corrected in time
                return f"{auditor.rm_id} is {state}"
            if why := await auditor.unsettled():
                return why
            if now - auditor.changed_at < 3.0:
                return f"{auditor.rm_id} goes on"
            # A commit that was published during a disaster may reach a follower seconds later.
            cores = self._cores_of(auditor.rm_id)
            if len(cores) != 1 + services.STANDBYS:
                return f"{auditor.rm_id} is in {[name for name, _ in cores]}, expected a leader and one standby"
            for name, core in cores:
                if core.state.now_ms < (end_ms := auditor.core.state.now_ms):
                    return f"{name} follows {auditor.rm_id} at {core.state.now_ms} ms, its log ends at {end_ms} ms"
        return ""


Disaster = Callable[[Simulation], None]
DISASTERS: tuple[Disaster, ...] = (
    Simulation._kill, Simulation._kill, Simulation._kill_a_core,
    Simulation._kill_leader_and_standby, Simulation._stop, Simulation._cut_off,
    Simulation._outage, Simulation._jump, Simulation._fill, Simulation._spoil_a_snapshot,
)  # fmt: skip
