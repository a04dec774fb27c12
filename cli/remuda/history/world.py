"""Plays a workload against the scheduler in virtual time, with decisions made anew: a simulated RM that starts, ends
and confirms as the workload says. It has no clock: time goes to the next event.

The model of the RM. It confirms a release that the scheduler asks for after the median time of the period. It accepts
every node that it is asked about. A preempted allocation is asked for again at once (`requeue`), and runs its whole
time again, or is lost (`lose`). The RM removes an application no earlier than it did, and not before its work is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from msgspec.structs import replace

from remuda_core import actions, commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core, next_tick_ms
from remuda_core.facts import Fact
from remuda_core.limits import ALLOCATIONS_PER_PASS, CLEAN_QUEUES_MS
from remuda_core.rules import lifecycle
from remuda_core.state import NEVER_MS, Application

from .measures import Measures
from .spool import ApplicationWaits, Event
from .workload import ANSWERED_MS, Workload, application_of, user_of

REQUEUE, LOSE = "requeue", "lose"
# Passes at one moment. A pass that is bounded goes on; one that changes nothing ends it.
PASSES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Later:
    """A later action of the RM on an allocation, unless the allocation has gone by then. `termination_type`: of the
    release."""

    partition: str
    application: str
    uuid: str
    termination_type: int


@dataclass(slots=True)
class Played:
    """`runs`, `censored`: how many allocations started, and how many of their run times were drawn. `asked`: questions
    of the scheduler about nodes, all accepted."""

    measures: Measures
    runs: int = 0
    censored: int = 0
    asked: int = 0
    decisions: int = 0


@dataclass(slots=True)
class _Work:
    """An ask, until nothing of it is pending and nothing runs. `number`: in the workload. `started`: how many
    allocations have started."""

    number: int
    ask: facts.Ask
    started: int = 0
    running: int = 0


class World:
    """`core` is at the beginning of the workload, and changes. `events`: those of the workload, perhaps changed.
    `by_application`: the file of the waits of applications; None: they are not written."""

    def __init__(
        self, core: Core, workload: Workload, events: Iterator[Event], on_preemption: str = REQUEUE,
        by_application: ApplicationWaits | None = None,
    ) -> None:  # fmt: skip
        self._core = core
        self._workload = workload
        self._events = events
        self._requeues = on_preemption == REQUEUE
        self._later: list[tuple[int, int, Command | Later]] = []
        self._number = 0
        self._works: dict[tuple[str, str], dict[str, _Work]] = defaultdict(dict)  # by application and allocation key
        self._arriving: dict[tuple[str, str], int] = {}  # by the same: the numbers of asks in the commands of a moment
        self._to_remove: dict[tuple[str, str], commands.RemoveApplication] = {}
        self._last_tick_ms = 0
        self._clean_ms: int | None = None
        self.played = Played(Measures(core.state, workload.begin_ms, workload.end_ms, by_application))
        self._begin()

    def _begin(self) -> None:
        """Begin with the recorded state: allocations that run already end as they did, and waiting asks may be asked
        for again."""
        workload, now_ms = self._workload, self._workload.begin_ms
        for partition in self._core.state.partitions.values():
            for application in partition.applications.values():
                name = (partition.name, application.id)
                for key, pending in application.asks.items():
                    self._works[name][key] = _Work(workload.waiting.get((*name, key), 0), pending.ask)
            for allocation in partition.allocations.values():
                fact = allocation.fact
                if fact.placeholder or not self._runs_on(fact, allocation.application.user, now_ms):
                    continue
                if allocation.releasing:
                    self._in(now_ms + workload.confirm_ms, _later(fact, allocation.releasing))

    def _runs_on(self, fact: facts.Allocated, user: str, now_ms: int) -> bool:
        """An allocation that ran at the beginning, or that the RM reports. Returns whether the period knows it."""
        run = self._workload.running.get(fact.uuid)
        if run is None:
            return False
        work = self._works[fact.partition, fact.application_id].get(fact.allocation_key)
        if work is not None:
            work.running += 1
        ms, known = self._workload.completed(run, (fact.uuid,), user)
        self._count(known)
        if ms is not None:
            self._in(max(0, ms) + now_ms, _later(fact, facts.STOPPED_BY_RM))
        return True

    def play(self) -> Played:
        """The whole workload."""
        for _ in self.moments():
            pass
        return self.played

    def moments(self) -> Iterator[int]:
        """Play, and yield the virtual time after each moment at which something happened, in ms."""
        upcoming = next(self._events, None)
        end_ms, now_ms, tick_ms = self._workload.end_ms, self._workload.begin_ms, self._tick_ms()
        while True:
            at_ms = upcoming.at_ms if upcoming is not None else NEVER_MS
            if self._later and self._later[0][0] < at_ms:
                at_ms = self._later[0][0]
            if tick_ms is not None and tick_ms < at_ms:
                at_ms = tick_ms
            if self._clean_ms is not None and self._clean_ms < at_ms:
                at_ms = self._clean_ms
            if at_ms > end_ms:
                break
            now_ms = max(now_ms, at_ms)
            due = list[Command]()
            while upcoming is not None and upcoming.at_ms <= now_ms:
                due += self._arrived(upcoming)
                if isinstance(upcoming.command, commands.Register):  # what is changed follows when there are partitions
                    self._handle(due, now_ms)
                    due = []
                upcoming = next(self._events, None)
            while self._later and self._later[0][0] <= now_ms:
                due += self._due(heappop(self._later)[2])
            self._decide(due, tick_ms, now_ms)
            tick_ms = self._tick_ms()
            yield now_ms
        self.played.measures.finish()

    # Deciding, as the leader does

    def _tick_ms(self) -> int | None:
        return next_tick_ms(self._core.state, self._last_tick_ms)

    def _decide(self, due: list[Command], tick_ms: int | None, now_ms: int) -> None:
        """A moment at which queues are looked for that have become empty, and none is found, needs no pass: since the
        last one nothing has changed."""
        facts_before, needs_pass = self.played.decisions, bool(due)
        if due:
            self._handle(due, now_ms)
            tick_ms = self._tick_ms()
        if tick_ms is not None and tick_ms <= now_ms:
            self._last_tick_ms, needs_pass = now_ms, True
            self._handle([commands.Tick()], now_ms)
        if self._clean_ms is not None and self._clean_ms <= now_ms:
            self._clean_ms = None
            needs_pass = self._handle([commands.CleanQueues()], now_ms) > 0 or needs_pass
        for _ in range(PASSES_AT_ONCE if needs_pass else 0):
            count = self._handle([commands.Schedule(ALLOCATIONS_PER_PASS)], now_ms)
            if count < ALLOCATIONS_PER_PASS and not self._core.index.unfinished:
                break
        if self._clean_ms is None and self.played.decisions > facts_before:
            self._clean_ms = now_ms + CLEAN_QUEUES_MS

    def _handle(self, due: list[Command], now_ms: int) -> int:
        decided = self._core.handle_all(due, now_ms)
        self.played.decisions += len(decided)
        measures = self.played.measures
        for fact in decided:
            measures.take(fact, now_ms)
            self._react(fact, now_ms)
        self._arriving.clear()
        return len(decided)

    # The RM

    def _arrived(self, event: Event) -> Iterator[Command]:
        command = event.command
        if isinstance(command, commands.RemoveApplication) and event.until_done:
            for partition in self._core.state.partitions.values():
                application = partition.applications.get(command.application_id)
                if application is not None and not _is_done(application):
                    self._to_remove[partition.name, application.id] = command
                    return
        if isinstance(command, commands.Administer) and isinstance(command.action, actions.ReleaseOneAllocation):
            return  # it names an allocation of the actual history
        if isinstance(command, commands.SubmitAsk):
            self._arriving[command.ask.application_id, command.ask.allocation_key] = event.work
        yield command

    def _due(self, one: Command | Later) -> Iterator[Command]:
        if not isinstance(one, Later):
            yield one
            return
        partition = self._core.state.partitions.get(one.partition)
        if partition is not None and one.uuid in partition.allocations:
            yield commands.ReleaseAllocation(one.partition, one.application, one.uuid, one.termination_type)

    def _react(self, fact: Fact, now_ms: int) -> None:
        match fact:
            case facts.Allocated():
                self._starts(fact, now_ms)
            case facts.AllocationRecovered(allocation):
                self._recovered(allocation, now_ms)
            case facts.PlaceholderReplaced(allocation):
                self._starts(allocation, now_ms)
            case facts.AskAccepted(ask) | facts.AskChanged(ask):
                self._asked(ask)
            case facts.AskReleased():
                self._forget_if_over((fact.partition, fact.application_id), fact.allocation_key)
            case facts.ReleaseRequested():
                self._in(now_ms + self._workload.confirm_ms, _later(fact, fact.termination_type))
            case facts.AllocationReleased():
                self._released(fact, now_ms)
            case facts.ApplicationStateChanged() if fact.state in lifecycle.TERMINAL:
                self._works.pop((fact.partition, fact.application_id), None)
            case facts.ApplicationRemoved():
                name = (fact.partition, fact.application_id)
                self._to_remove.pop(name, None)
                self._works.pop(name, None)
            case facts.PredicatesAsked():
                verdicts = tuple(map(commands.Verdict, fact.node_ids))
                self._answer(commands.AnswerPredicates(fact.partition, fact.question, verdicts), now_ms)
            case facts.PredicateAsked() | facts.ReplacementAsked() | facts.PreemptionAsked():
                self._answer(commands.AnswerPredicate(fact.partition, fact.question, True), now_ms)

    def _asked(self, ask: facts.Ask) -> None:
        """An ask that comes again while an allocation of it runs, or because one was preempted, goes on."""
        works = self._works[ask.partition, ask.application_id]
        work = works.get(ask.allocation_key)
        number = self._arriving.get((ask.application_id, ask.allocation_key), 0)
        if work is None or number not in (0, work.number):
            works[ask.allocation_key] = _Work(number, ask, running=work.running if work is not None else 0)
        else:
            work.ask = ask

    def _starts(self, fact: facts.Allocated, now_ms: int) -> None:
        if fact.placeholder:
            return  # it ends when it is replaced
        key = (fact.partition, fact.application_id, fact.allocation_key)
        work = self._works[key[:2]].get(key[2])
        number, started = 0, 0
        if work is not None:
            number, started = work.number, work.started
            work.started += 1
            work.running += 1
        ms, known = self._workload.run_ms(number, key, started, user_of(self._core, fact))
        self._count(known)
        if ms is not None:
            self._in(now_ms + ms, _later(fact, facts.STOPPED_BY_RM))

    def _recovered(self, fact: facts.Allocated, now_ms: int) -> None:
        if not self._runs_on(fact, user_of(self._core, fact), now_ms):
            self._starts(fact, now_ms)

    def _forget_if_over(self, name: tuple[str, str], allocation_key: str) -> None:
        """Memory is bounded by the asks of which something is pending or runs."""
        works = self._works.get(name, {})
        work = works.get(allocation_key)
        if work is None or work.running > 0 or work.ask.placeholder:
            return  # placeholders are forgotten with their application
        application = application_of(self._core, *name)
        if application is None or allocation_key not in application.asks:
            del works[allocation_key]

    def _count(self, known: bool) -> None:
        self.played.runs += 1
        self.played.censored += not known

    def _released(self, fact: facts.AllocationReleased, now_ms: int) -> None:
        preempted = fact.termination_type == facts.PREEMPTED_BY_SCHEDULER or fact.node_removed
        name = (fact.partition, fact.application_id)
        application = application_of(self._core, *name)
        if (work := self._works.get(name, {}).get(fact.allocation_key)) is not None:
            work.running -= 1
            if preempted and self._requeues and application is not None:
                # It runs its whole time again, as the same one.
                work.started = max(0, work.started - 1)
                pending = application.asks.get(fact.allocation_key)
                again = replace(work.ask, max_allocations=(pending.pending if pending is not None else 0) + 1)
                self._in(now_ms, commands.SubmitAsk(again))
            else:
                self._forget_if_over(name, fact.allocation_key)
        if name in self._to_remove and (application is None or _is_done(application)):
            self._in(now_ms, self._to_remove.pop(name))

    def _answer(self, command: Command, now_ms: int) -> None:
        self.played.asked += 1
        self._in(now_ms + ANSWERED_MS, command)

    def _in(self, at_ms: int, one: Command | Later) -> None:
        self._number += 1
        heappush(self._later, (at_ms, self._number, one))


def _is_done(application: Application) -> bool:
    return not application.asks and not application.allocations


def _later(fact: facts.Allocated | facts.ReleaseRequested, termination_type: int) -> Later:
    return Later(fact.partition, fact.application_id, fact.uuid, termination_type)
