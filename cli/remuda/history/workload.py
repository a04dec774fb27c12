"""The events of a period that came to an RM from outside, read from an archive: arrivals, run times, changes of nodes,
actions of operators. Nothing that the scheduler decided is part of it, except how long allocations ran.

The n-th allocation of an ask runs as long as its n-th did. Where that was cut off (preempted, timed out, its node lost,
still running in the end), or where there was none, the time is *censored*: `run_ms` draws one from what the same user's
work took, given that it takes longer. The draw follows from the names alone, so that a replay can be repeated.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from msgspec.structs import replace

from remuda_bus.bus import Message
from remuda_core import commands, facts
from remuda_core.commands import Command
from remuda_core.core import Core
from remuda_core.wire.codec import CommitCodec
from remuda_core.wire.facts import read_fact
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2

from .spool import Event, Key, Run, Sample, Spool

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
    """`spool`: events in the order in which they were decided, and run times by ask. `running`: by UUID, how long
    allocations ran that ran already at the beginning, from there. `finished`: run times of allocations that ended by
    themselves, sorted, by user; "": all; samples where there are many. `preempted`, `asked_again`: how many allocations
    were preempted, and how many of their asks came again under the same key. `unread`: requests that the archive does
    not have."""

    rm: str
    begin_ms: int
    end_ms: int
    spool: Spool = field(default_factory=Spool)
    running: dict[str, Run] = field(default_factory=dict)
    finished: dict[str, list[int]] = field(default_factory=dict)
    confirm_ms: int = CONFIRMED_MS
    preempted: int = 0
    asked_again: int = 0
    unread: int = 0

    def run_ms(self, key: Key, number: int, user: str) -> tuple[int | None, bool]:
        """How long the allocation with this number (from 0) of an ask runs, and whether that is known. None: nothing
        is known of any."""
        partition, application, allocation_key = key
        original = partition, application.partition(CLONE)[0], allocation_key.partition(CLONE)[0]
        run = self.spool.run_of(original, number)
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
        self._dropped: dict[str, tuple[tuple[Key, int, str, int], int]] = {}
        self._alive: dict[str, tuple[Key, int, str, int]] = {}  # UUID -> ask, number, user, since
        self._numbers: dict[Key, int] = defaultdict(int)
        self._keys: dict[tuple[str, str], set[Key]] = defaultdict(set)  # of those, by application
        self._asked: set[Key] = set()
        self._known = {name for one in state.partitions.values() for name in one.applications}
        self._finished: dict[str, Sample] = defaultdict(lambda: Sample(RUNS_OF_USER))
        self._all_finished = Sample(RUNS_OF_ALL)
        self._preempted: set[Key] = set()
        self._requested: dict[str, int] = {}
        self._confirmed: list[int] = []
        self._at_begin: set[str] = set()
        for partition in state.partitions.values():
            for uuid, one in partition.allocations.items():
                key = (partition.name, one.application.id, one.fact.allocation_key)
                self._alive[uuid] = key, -1, one.application.user, state.now_ms
                self._at_begin.add(uuid)
            for application in partition.applications.values():
                keys = {(partition.name, application.id, one) for one in application.asks}
                self._asked |= keys
                self._keys[partition.name, application.id] |= keys

    def take(self, commit: log_pb2.Commit, inbox: Iterable[Message]) -> list[facts.Fact]:
        """`commit`: read as `wire.schema.Commit`. Returns its facts."""
        now_ms, found, every = commit.now_ms, self.found, list[facts.Fact]()
        found.end_ms = max(found.end_ms, now_ms)
        messages = {message.seq: message for message in inbox}
        for decision in commit.decisions:
            decided = [read_fact(one) for one in decision.facts[:]]
            every += decided
            if decision.inbox_seq and decision.command != "Unreadable":
                if (message := messages.get(decision.inbox_seq)) is None:
                    found.unread += 1
                else:
                    command = inbox_pb2.Command.FromString(message.payload)
                    for one in self._arrivals(CommitCodec().read(command)[1], decided):
                        found.spool.add_event(self._event(now_ms, one, decided))
            for fact in decided:
                self._note(fact, decision.command, now_ms)
            self._core.replay(decided, now_ms)
        self._core.state.now_ms = now_ms
        return every

    def _event(self, now_ms: int, command: Command, decided: list[facts.Fact]) -> Event:
        match command:
            case commands.SubmitApplication():
                accepted = (one for one in decided if isinstance(one, facts.ApplicationAccepted))
                queue = next((one.queue for one in accepted if one.application_id == command.application_id), "")
                return Event(now_ms, command, queue)
            case commands.RemoveApplication(_, application_id):
                ended = facts.AskReleased | facts.AllocationReleased
                had = any(isinstance(one, ended) and one.application_id == application_id for one in decided)
                return Event(now_ms, command, until_done=not had)
        return Event(now_ms, command)

    def _arrivals(self, asked: Iterable[Command], decided: list[facts.Fact]) -> Iterator[Command]:
        """What of a request is part of the world: not answers to the scheduler, and not what an RM repeats."""
        accepted = {
            (fact.ask.application_id, fact.ask.allocation_key)
            for fact in decided
            if isinstance(fact, facts.AskAccepted | facts.AskChanged)
        }
        rejected = {fact.allocation_key for fact in decided if isinstance(fact, facts.AskRejected)}
        withdrawn = {fact.allocation_key for fact in decided if isinstance(fact, facts.AskReleased)}
        recovered = {fact.allocation.uuid for fact in decided if isinstance(fact, facts.AllocationRecovered)}
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
                        if key in self._preempted:
                            self._preempted.discard(key)
                            self.found.asked_again += 1
                            self._numbers[key] -= 1  # the same work: how long it runs in the end is what counts
                        else:
                            yield command
                        self._asked.add(key)
                        self._keys[key[:2]].add(key)
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
                self._started(allocation, now_ms)
            case facts.PlaceholderReplaced(allocation, placeholder):
                self._ended(placeholder, over=True, now_ms=now_ms)
                self._started(allocation, now_ms)
            case facts.ApplicationAccepted():
                self._known.add(fact.application_id)
            case facts.ApplicationRemoved():
                self._forget(fact)
            case facts.ReleaseRequested():
                self._requested[fact.uuid] = now_ms
            case facts.AllocationReleased():
                self._released(fact, command, now_ms)
            case facts.RmStopped(_, True):
                self._registers = True
                for uuid in list(self._alive):
                    self._ended(uuid, over=False, now_ms=now_ms)
            case facts.RmRegistered(_, _, _, _, _, _, "" | "report"):
                self._dropped |= {uuid: (one, now_ms) for uuid, one in self._alive.items()}
                self._alive.clear()
                if not self._reports:
                    self._repeated |= {*self._asked, *self._known}

    def _forget(self, fact: facts.ApplicationRemoved) -> None:
        """What is remembered is bounded by what is alive."""
        self._known.discard(fact.application_id)
        for key in self._keys.pop((fact.partition, fact.application_id), ()):
            self._asked.discard(key)
            self._preempted.discard(key)
            self._numbers.pop(key, None)

    def _started(self, fact: facts.Allocated, now_ms: int) -> None:
        if (dropped := self._dropped.pop(fact.uuid, None)) is not None:
            self._alive[fact.uuid] = dropped[0]  # it has run on
            return
        key = (fact.partition, fact.application_id, fact.allocation_key)
        partition = self._core.state.partitions.get(fact.partition)
        application = partition.applications.get(fact.application_id) if partition is not None else None
        self._alive[fact.uuid] = key, self._numbers[key], application.user if application else "", now_ms
        self._numbers[key] += 1
        self._keys[key[:2]].add(key)

    def _released(self, fact: facts.AllocationReleased, command: str, now_ms: int) -> None:
        if (requested_ms := self._requested.pop(fact.uuid, None)) is not None:
            self._confirmed.append(now_ms - requested_ms)
        if fact.termination_type == facts.PREEMPTED_BY_SCHEDULER:
            self.found.preempted += 1
            self._preempted.add((fact.partition, fact.application_id, fact.allocation_key))
        by_rm = command == "UpdateAllocation" and requested_ms is None and not fact.node_removed
        self._ended(fact.uuid, over=by_rm, now_ms=now_ms)

    def _ended(self, uuid: str, over: bool, now_ms: int) -> None:
        if (known := self._alive.pop(uuid, None)) is None:
            return
        key, number, user, since_ms = known
        run = Run(now_ms - since_ms, over)
        if uuid in self._at_begin:
            self.found.running[uuid] = run
        else:
            self.found.spool.add_run(key, number, run)
            if over:
                self._finished[user].add((*key, number), run.ms)
                self._all_finished.add((*key, number), run.ms)

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
        if self._confirmed:
            found.confirm_ms = int(median(self._confirmed))
        return found


def _partition_of(decided: list[facts.Fact], given: str) -> str:
    """The scheduler's name of the partition."""
    return next((fact.ask.partition for fact in decided if isinstance(fact, facts.AskAccepted)), given)
