"""The events of a period that came to an RM from outside, read from an archive: arrivals, run times, changes of nodes,
actions of operators. Nothing that the scheduler decided is part of it, except how long allocations ran. Memory is
bounded by the asks, allocations and applications that are alive.

The n-th allocation of an ask runs as long as its n-th did. Where that was cut off (preempted, timed out, its node lost,
still running in the end), or where there was none, the time is *censored*: `run_ms` draws one from what the same user's
work took, given that it takes longer. The draw follows from the names alone, so that a replay can be repeated.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from remuda_core import commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.rules import lifecycle
from remuda_core.shell import replay
from remuda_core.state import Application
from remuda_proto.remuda.v1 import log_pb2

from .decided import Decided
from .measures import Times
from .spool import Event, Run, Sample, Spool

Key = tuple[str, str, str]  # partition, application, allocation key
# A user with fewer finished allocations than this is like all users.
OWN_RUNS = 5
# Run times that are remembered of each user, and of all.
RUNS_OF_USER = 1_000
RUNS_OF_ALL = 10_000
# What an RM takes to confirm a release or to answer a question, where the period has no example.
CONFIRMED_MS = 1_000
ANSWERED_MS = 5

# Between a name and the number of its clone.
CLONE = "~~"


def clone_of(name: str, number: int) -> str:
    """The name of a clone; the original has the number 0."""
    return f"{name}{CLONE}{number}" if number else name


@dataclass(slots=True)
class Workload:
    """`spool`: events in the order in which they were decided, and run times by ask. `waiting`: the numbers of asks
    that waited already at the beginning. `running`: by UUID, how long allocations ran that ran already at the
    beginning, from there, or that the RM reported. `finished`: run times of allocations that ended by themselves,
    sorted, by user; "": all; samples where there are many. `preempted`, `asked_again`: how many allocations were
    preempted, and how many of their asks came again under the same key. `unread`: requests that the archive does not
    have."""

    rm: str
    begin_ms: int
    end_ms: int
    spool: Spool = field(default_factory=Spool)
    waiting: dict[Key, int] = field(default_factory=dict)
    running: dict[str, Run] = field(default_factory=dict)
    finished: dict[str, Sequence[int]] = field(default_factory=dict)
    confirm_ms: int = CONFIRMED_MS
    preempted: int = 0
    asked_again: int = 0
    unread: int = 0

    def run_ms(self, work: int, key: Key, number: int, user: str) -> tuple[int | None, bool]:
        """The run time of the allocation with this number (from 0) of the ask `work`, which may be a clone and have
        another key, in ms, and whether it is known. None: no run time is known."""
        run = self.spool.run_of(work, number) if work else None
        return self.completed(run or Run(0, over=False), (*key, number), user)

    def completed(self, run: Run, name: tuple[object, ...], user: str) -> tuple[int | None, bool]:
        if run.over:
            return run.ms, True
        like = self.finished.get(user, [])
        like = like if len(like) >= OWN_RUNS else self.finished.get("", [])
        longer = len(like) - bisect_right(like, run.ms)
        if not longer:
            return (2 * run.ms or None), False
        drawn = zlib.crc32(repr(name).encode()) % longer
        return like[len(like) - longer + drawn], False


@dataclass(slots=True)
class _Work:
    """An ask, until nothing of it is pending and nothing runs. `begun`: how many allocations have begun. `preempted`:
    an allocation was preempted, and was not asked for again."""

    number: int
    begun: int = 0
    running: int = 0
    preempted: bool = False


class _Alive(NamedTuple):
    """An allocation. `work`: None: it began before the period, or the RM has reported it."""

    key: Key
    work: _Work | None
    number: int
    user: str
    since_ms: int


class Extraction:
    """Takes the commits of a period in their order. `core`: at its beginning; it follows."""

    def __init__(self, core: Core) -> None:
        state = core.state
        self.found = Workload(state.rm_id, state.now_ms, state.now_ms)
        self._core = core
        self._registers = state.registered is None  # the next registration is part of the world
        self._reports = self._registers  # what the RM reports with its nodes is, too
        # After a registration at which the RM reports everything again: what was known before, and ran before.
        self._repeated: set[object] = set()
        self._dropped: dict[str, tuple[_Alive, int]] = {}
        self._alive: dict[str, _Alive] = {}  # by UUID
        self._works: dict[tuple[str, str], dict[str, _Work]] = defaultdict(dict)  # by application and allocation key
        self._numbers = count(1)
        self._perhaps_over: list[Key] = []
        self._known = {name for one in state.partitions.values() for name in one.applications}
        self._finished: dict[str, Sample] = defaultdict(lambda: Sample(RUNS_OF_USER))
        self._all_finished = Sample(RUNS_OF_ALL)
        self._requested: dict[str, int] = {}
        self._confirmed = Times()
        for partition in state.partitions.values():
            for uuid, one in partition.allocations.items():
                key = (partition.name, one.application.id, one.fact.allocation_key)
                self._alive[uuid] = _Alive(key, None, 0, one.application.user, state.now_ms)
            for application in partition.applications.values():
                for key in ((partition.name, application.id, one) for one in application.asks):
                    self.found.waiting[key] = self._work_of(key).number

    def take(self, commit: log_pb2.Commit, decisions: Iterable[Decided]) -> None:
        now_ms, found = commit.now_ms, self.found
        found.end_ms = max(found.end_ms, now_ms)
        for command, asked, decided in decisions:
            if asked is None:
                found.unread += 1
            elif asked:
                for one in self._arrivals(asked, decided):
                    found.spool.add_event(self._event(now_ms, one, decided))
            for fact in decided:
                self._note(fact, command, now_ms)
            self._core.replay(decided, now_ms)
            self._forget_what_is_over()
        self._core.state.now_ms = now_ms
        replay.note_position(self._core, commit)

    def _event(self, now_ms: int, command: Command, decided: Sequence[facts.Fact]) -> Event:
        match command:
            case commands.SubmitApplication():
                accepted = (one for one in decided if isinstance(one, facts.ApplicationAccepted))
                queue = next((one.queue for one in accepted if one.application_id == command.application_id), "")
                return Event(now_ms, command, queue)
            case commands.RemoveApplication(_, application_id):
                ended = facts.AskReleased | facts.AllocationReleased
                had = any(isinstance(one, ended) and one.application_id == application_id for one in decided)
                return Event(now_ms, command, until_done=not had)
            case commands.SubmitAsk(ask):
                works = self._works.get((_partition_of(decided, ask.partition), ask.application_id), {})
                work = works.get(ask.allocation_key)
                return Event(now_ms, command, work=work.number if work is not None else 0)
        return Event(now_ms, command)

    def _arrivals(self, asked: Iterable[Command], decided: Sequence[facts.Fact]) -> Iterator[Command]:
        """The commands of a request that are part of the world: not answers to the scheduler, and not what an RM
        repeats."""
        accepted, rejected, withdrawn, recovered = set[tuple[str, str]](), set[str](), set[str](), set[str]()
        for fact in decided:
            match fact:
                case facts.AskAccepted(ask) | facts.AskChanged(ask):
                    accepted.add((ask.application_id, ask.allocation_key))
                case facts.AskRejected():
                    rejected.add(fact.allocation_key)
                case facts.AskReleased():
                    withdrawn.add(fact.allocation_key)
                case facts.AllocationRecovered(allocation):
                    recovered.add(allocation.uuid)
        for command in asked:
            match command:
                case commands.Register():
                    self._reports = self._registers
                    if self._registers:
                        self._registers = False
                        yield command
                    else:
                        yield commands.RmConnection("back")
                case commands.RmConnection(connection):
                    if connection != "gone":  # the RM of the world comes back without a registration
                        yield replace(command, registration=0)
                case commands.UpdateNode():
                    yield command if self._reports else replace(command, existing_allocations=())
                case commands.SubmitApplication():
                    if command.application_id not in self._repeated:
                        yield command
                    self._repeated.discard(command.application_id)
                case commands.SubmitAsk(ask):
                    name = (ask.application_id, ask.allocation_key)
                    key = (_partition_of(decided, ask.partition), *name)
                    if key in self._repeated:
                        self._repeated.discard(key)
                    elif name in accepted:
                        work = self._work_of(key)
                        if work.preempted:
                            work.preempted = False
                            self.found.asked_again += 1
                            # The same work: the time for which it runs in the end counts.
                            work.begun = max(0, work.begun - 1)
                        else:
                            yield command
                    elif ask.allocation_key in rejected:
                        yield command
                case commands.ReleaseAsk(_, _, key_given):
                    if withdrawn and (not key_given or key_given in withdrawn):
                        yield command
                case commands.RecoverAllocation(allocation):
                    if self._reports and allocation.uuid in recovered:
                        yield command
                case commands.ReleaseAllocation() | commands.AnswerPredicate() | commands.AnswerPredicates():
                    pass
                case _:
                    yield command

    def _note(self, fact: facts.Fact, command: str, now_ms: int) -> None:
        match fact:
            case facts.Allocated():
                self._started(fact, now_ms)
            case facts.AllocationRecovered(allocation) | facts.GuestKept(allocation):
                self._reported(allocation, now_ms)
            case facts.PlaceholderReplaced(allocation):
                self._started(allocation, now_ms)
            case facts.AskReleased():
                self._perhaps_over.append((fact.partition, fact.application_id, fact.allocation_key))
            case facts.ApplicationAccepted():
                self._known.add(fact.application_id)
            case facts.ApplicationStateChanged() if fact.state in lifecycle.TERMINAL:
                self._forget(fact.partition, fact.application_id)
            case facts.ApplicationRemoved():
                self._known.discard(fact.application_id)
                self._forget(fact.partition, fact.application_id)
            case facts.ReleaseRequested():
                self._requested[fact.uuid] = now_ms
            case facts.AllocationReleased():
                self._released(fact, command, now_ms)
            case facts.RmStopped(_, True):
                self._registers = True
                for uuid in list(self._alive):
                    self._ended(uuid, over=False, now_ms=now_ms)
                self._works.clear()
            case facts.RmRegistered(_, _, _, _, _, _, "" | "report"):
                self._dropped |= {uuid: (one, now_ms) for uuid, one in self._alive.items()}
                self._alive.clear()
                if not self._reports:
                    self._repeated |= self._known
                    self._repeated |= {(*name, key) for name, works in self._works.items() for key in works}

    def _work_of(self, key: Key) -> _Work:
        works = self._works[key[:2]]
        if (work := works.get(key[2])) is None:
            work = works[key[2]] = _Work(next(self._numbers))
        return work

    def _forget(self, partition: str, application_id: str) -> None:
        """The application has ended, and none of its asks comes again."""
        for key in self._works.pop((partition, application_id), ()):
            self._repeated.discard((partition, application_id, key))

    def _forget_what_is_over(self) -> None:
        """Asks of which nothing is pending and nothing runs. If one with the same key comes, it is another."""
        for key in self._perhaps_over:
            works = self._works.get(key[:2], {})
            work = works.get(key[2])
            if work is not None and not work.running and not work.preempted and not self._is_pending(key):
                del works[key[2]]
                self._repeated.discard(key)
        self._perhaps_over.clear()

    def _is_pending(self, key: Key) -> bool:
        application = application_of(self._core, key[0], key[1])
        return application is not None and key[2] in application.asks

    def _started(self, fact: facts.Allocated, now_ms: int) -> None:
        """Placeholders are left out: the scheduler decides how long they are there."""
        if fact.placeholder:
            return
        key = (fact.partition, fact.application_id, fact.allocation_key)
        work = self._work_of(key)
        self._alive[fact.uuid] = _Alive(key, work, work.begun, user_of(self._core, fact), now_ms)
        work.begun += 1
        work.running += 1

    def _reported(self, fact: facts.Allocated, now_ms: int) -> None:
        if (dropped := self._dropped.pop(fact.uuid, None)) is not None:
            self._alive[fact.uuid] = dropped[0]  # it has run on
            return
        key = (fact.partition, fact.application_id, fact.allocation_key)
        self._alive[fact.uuid] = _Alive(key, None, 0, user_of(self._core, fact), now_ms)

    def _released(self, fact: facts.AllocationReleased, command: str, now_ms: int) -> None:
        if (requested_ms := self._requested.pop(fact.uuid, None)) is not None:
            self._confirmed.add(now_ms - requested_ms)
        if fact.termination_type == facts.PREEMPTED_BY_SCHEDULER:
            self.found.preempted += 1
            self._work_of((fact.partition, fact.application_id, fact.allocation_key)).preempted = True
        by_rm = command == "UpdateAllocation" and requested_ms is None and not fact.node_removed
        self._ended(fact.uuid, over=by_rm, now_ms=now_ms)

    def _ended(self, uuid: str, over: bool, now_ms: int) -> None:
        if (known := self._alive.pop(uuid, None)) is None:
            return
        run = Run(now_ms - known.since_ms, over)
        if known.work is None:
            self.found.running[uuid] = run
            return
        known.work.running -= 1
        self._perhaps_over.append(known.key)
        self.found.spool.add_run(known.work.number, known.number, run)
        if over:
            name = (*known.key, known.number)
            self._finished[known.user].add(name, run.ms)
            self._all_finished.add(name, run.ms)

    def finish(self) -> Workload:
        found = self.found
        for uuid, (one, at_ms) in self._dropped.items():
            self._alive[uuid] = one
            self._ended(uuid, over=False, now_ms=at_ms)
        for uuid in list(self._alive):
            self._ended(uuid, over=False, now_ms=found.end_ms)
        found.finished = {user: some.values() for user, some in self._finished.items()}
        found.finished[""] = self._all_finished.values()
        found.spool.finish()
        if self._confirmed.count:
            found.confirm_ms = self._confirmed.quantile(50)
        return found


def application_of(core: Core, partition_name: str, application_id: str) -> Application | None:
    partition = core.state.partitions.get(partition_name)
    return partition.applications.get(application_id) if partition is not None else None


def user_of(core: Core, fact: facts.Allocated) -> str:
    """The user of the application of an allocation; "": it is not known."""
    application = application_of(core, fact.partition, fact.application_id)
    return application.user if application is not None else ""


def _partition_of(decided: Sequence[facts.Fact], given: str) -> str:
    """The scheduler's name of the partition."""
    for fact in decided:
        if isinstance(fact, facts.AskAccepted):
            return fact.ask.partition
    return given
