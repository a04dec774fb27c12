"""The whole system in one process: built from a seed, left to chance for a while, then calmed and audited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from random import Random
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_core.core import Core
from remuda_replication.rms.halts import Halts

from . import services
from .askers import Asker, ask
from .auditor import Auditor
from .cluster import Cluster
from .connection import PLAYED_WITHIN_S
from .devices import GpuRm
from .environment import environment
from .lending import LendingOperator, LendingRm
from .loop import Stuck, VirtualLoop
from .operator import Operator
from .process import Process, leaves, said
from .queues_file import QueuesFile
from .racks import RackRm
from .resource_manager import Rm
from .spending import SpendingRm
from .story import CURRENT, Story, Violation
from .unrest import Unrest

BUSY_S = (8.0, 25.0)
AT_ONCE_S = 1.0
TIMERS_S = 12.0  # what is set while all is busy is due by then


def run(seed: int) -> Story:
    """Raises nothing: `violations` of the story says what was wrong."""
    # Not drawn: other seeds mean what they meant.
    kinds = {1: WithDevices, 2: WithLoans, 3: WithRacks, 5: WithDevices, 6: WithBudgets, 7: WithRacks}
    kind = kinds.get(seed % 8, Simulation)
    return simulated(Random(seed), lambda random, story: kind(random, story).run())


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
    if isinstance(error, Violation):  # raised by a callback, which nobody awaits
        story.violated(str(error))
    else:
        story.tell(f"{context.get('message')}: {error!r}")


class Simulation(Unrest):
    ASKERS = 2
    RM: type[Rm] = Rm
    OPERATOR: type[Operator] = Operator

    def __init__(self, random: Random, story: Story, *, quiet: bool = False) -> None:
        super().__init__(random, story, DISASTERS, quiet=quiet)
        clock = asyncio.get_running_loop().time
        self.rms = self._make_rms()
        self.auditors = {rm.cluster.rm_id: Auditor(self.server, rm.cluster.rm_id, story, clock) for rm in self.rms}
        self.cores = [self._core(f"core-{number + 1}") for number in range(random.choice((2, 2, 3, 4)))]
        self.proxies = [self._process(f"rmproxy-{n}", services.rmproxy) for n in (1, 2)]
        self.operator = self.OPERATOR(random, story, list(self.auditors.values()))
        about = list(self.auditors)
        self.askers = [Asker(self.server, random, story, about, self.auditors) for _ in range(self.ASKERS)]
        self.processes = [
            *self.cores,
            *self.proxies,
            self._make_config(),
            *(self._process(f"events-{n}", services.events) for n in (1, 2)),
            *(self._process(rm.cluster.rm_id, rm.main) for rm in self.rms),
            self._process("operator", self.operator.main),
            *(self._process(f"asker-{number}", asker.main) for number, asker in enumerate(self.askers, 1)),
        ]

    def _make_config(self) -> Process:
        return self._process("config", partial(services.config, None))

    def _make_rms(self) -> Sequence[Rm]:
        clusters: list[Cluster] = []
        count = range(1, self.random.choice((2, 3)))
        rms = [self.RM(f"rm-{number}", self.random, self.story, clusters) for number in count]
        clusters += [rm.cluster for rm in rms]
        return rms

    def _core(self, name: str) -> Process:
        return self._leading(name, partial(services.core, self.snapshot_facts))

    async def run(self) -> None:
        for auditor in self.auditors.values():
            self.background += (auditor.follow_log(), auditor.follow_requests(), auditor.follow_inbox())
        async with asyncio.TaskGroup() as group:
            background = await self._all_run(group)
            raging = group.create_task(self._rage())
            await self._all_registered()
            await self._busy()
            raging.cancel()
            await self._calm()
            for task in background:
                task.cancel()

    async def _busy(self) -> None:
        await asyncio.sleep(self.random.uniform(*BUSY_S))

    async def _all_registered(self) -> None:
        for _ in range(60):
            if all(rm.cluster.registered for rm in self.rms):
                return
            await asyncio.sleep(0.5)

    # Disasters of its own

    def _kill_leader_and_standby(self) -> None:
        """All cores that follow some RM: another has to take over that has not followed it."""
        rm_id = self.random.choice(self.rms).cluster.rm_id
        for process in self.cores:
            if any(core.state.rm_id == rm_id and core.state.registration for core in process.cores):
                process.kill()

    # The end

    async def _calm(self) -> None:
        """No more disasters and no more work; all processes run. The work under way ends, and then has to be
        right."""
        self._end_unrest()
        self.operator.resting = True
        for asker in self.askers:
            asker.resting = True
        for rm in self.rms:
            rm.resting = True
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
        if self.askers:
            await self._last_questions(self.askers[0].bus)

    def _unanswered(self) -> list[str]:
        answering = [one.connection.answering for one in self.cores if one.connection is not None]
        return [subject for one in answering for subject, count in one.items() if count]

    async def _last_questions(self, bus: Bus) -> None:
        """The log of an RM is full, so the leader cannot answer: others are answered about. Then the RM is halted: no
        question about it stays without an answer."""
        if self._unanswered():  # a core may have been stopped, and has begun to answer a moment ago
            await asyncio.sleep(PLAYED_WITHIN_S)
        if left := self._unanswered():
            raise Violation(f"cores have not answered {left}")
        now = asyncio.get_running_loop().time
        stuck, *others = self.random.sample(list(self.auditors), len(self.auditors))
        self.network.full = subjects.log(stuck)
        await self.server.append(subjects.inbox(stuck), b"")
        while not self.network.refused:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)
        asked = [asyncio.ensure_future(ask(bus, subjects.leader_query(stuck, "stats"), {})) for _ in range(20)]
        await asyncio.sleep(0.1)
        made = (subjects.core_query, subjects.leader_query)
        for subject in (subject_of(rm_id, "stats") for rm_id in others for subject_of in made):
            try:
                await ask(bus, subject, {}, AT_ONCE_S)
            except BusError as error:
                raise Violation(f"{subject}, while the log of {stuck} is full: {error}") from None
        halted_at = now()
        await Halts(self.server, "simulation", lambda: 0).halt(stuck, "this is the end")
        found = await asyncio.gather(*asked, return_exceptions=True)
        if (took_s := now() - halted_at) > AT_ONCE_S or not all(isinstance(one, Refused) for one in found):
            raise Violation(f"questions about {stuck}, which was halted {took_s:.1f} s before: {found[:3]}")

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


class WithDevices(Simulation):
    """GPUs stand on devices."""

    RM = GpuRm


class WithRacks(Simulation):
    """Nodes stand in racks, and asks are groups."""

    RM = RackRm


class WithBudgets(Simulation):
    """Queues have budgets."""

    RM = SpendingRm


class WithLoans(Simulation):
    """Queues lend each other amounts."""

    RM = LendingRm
    OPERATOR = LendingOperator
