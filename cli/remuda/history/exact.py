"""Decides the recorded commands of an archive again, and compares with what was decided then, commit by commit.

The core is a function of its state and of commands with their time, and a commit records all of them: the messages of
the inbox that it has read, and its own Tick, CleanQueues and Schedule. So the same version decides the same facts.

One thing is not recorded: what the index of the leader remembered. A pass without a fact leaves no commit, but it may
leave an ask set aside, or the index built a moment earlier. Where the decisions of a commit differ, they are decided
again with an index that is built anew, as a new leader would have. A commit that agrees with either is the history.
Which waiting asks a Tick explains first depends on the same memory. A commit that differs in such explanations alone
has placed, released and refused the same; it is counted by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from remuda_bus.bus import Message
from remuda_core import commands, limits
from remuda_core.core import Core
from remuda_core.index.index import Index
from remuda_core.shell.deciding import CommitInProgress
from remuda_core.trials.play import copy_of
from remuda_proto.remuda.v1 import log_pb2

from .decided import Decided
from .findings import Difference, Findings
from .past import LAST, At, Past, Restored, Step

_OWN = {"Tick": commands.Tick, "CleanQueues": commands.CleanQueues}
_SCHEDULE = commands.Schedule.__name__
_TICK = commands.Tick.__name__
# Commits of a stretch: a stretch that is decided again begins with a copy of the state.
STRETCH = 10_000
_EXPLANATIONS = frozenset({"ask_waiting", "ask_outstanding"})


class Compared(Findings):
    """`rebuilt`: commits that agree only with an index that was built anew. `explained`: commits that differ only in
    which waiting asks their Tick explains. `by_kind`: the commands whose decisions differ. `left_out`: how many other
    commits the period has, in stretches that were not meant to be decided again."""

    facts: int = 0
    rebuilt: int = 0
    explained: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        parts = [f"{self.commits:,} commits with {self.facts:,} facts"]
        for count, what in (
            (self.different, "decided differently"),
            (self.rebuilt, "only with an index that is built anew"),
            (self.explained, "with other explanations"),
            (self.unread, "without their messages of the inbox"),
            (self.left_out, "others not decided again"),
        ):
            if count:
                parts.append(f"{count:,} {what}")
        return ", ".join(parts)

    @property
    def distance(self) -> float:
        """The part of the commits that were decided differently."""
        decided = self.commits - self.unread
        return self.different / decided if decided else 0.0


async def compare(past: Past, begin: Restored, until: At = LAST, every: int = 1) -> Compared:
    """Decide each commit behind the state `begin` on the state that it met; `every`: as of `Comparison`. `begin` moves
    on. Raises what `Past` raises."""
    comparison = Comparison(begin.core, every)
    async for step in past.follow(begin, until):
        comparison.decide(step)
    return comparison.found


class Comparison:
    """Decides the commits of a period one after the other. `follower`: at the commit before; the caller applies each
    commit to it after it was decided. `every`: only those of one stretch of so many, the first one included; 0:
    none."""

    def __init__(self, follower: Core, every: int = 1) -> None:
        self.found = Compared()
        self._follower = follower
        self._every = every
        self._decider: Decider | None = None  # None: the state that it has come to is not that of the follower

    def decide(self, step: Step) -> list[Decided] | None:
        """Returns what was decided, if that is what was recorded."""
        recorded, found = step.entry.commit, self.found
        if self._every != 1 and not self._is_meant((found.commits + found.left_out) // STRETCH):
            found.left_out += 1
            self._decider = None
            return None
        found.commits += 1
        found.facts += sum([len(decision.facts) for decision in recorded.decisions])
        found.log_seq, found.at_ms = step.entry.seq, recorded.now_ms
        decider = self._decider or Decider(copy_of(self._follower))
        self._decider = None
        if not step.is_whole:
            found.unread += 1
            return None
        decided = decider.decide(recorded, step.inbox)
        if not _different(recorded, decided.commit):
            self._decider = decider
            return decided.decisions
        again = Decider(copy_of(self._follower))
        decided_anew = again.decide(recorded, step.inbox)
        if not (pair := _different(recorded, decided_anew.commit)):
            found.rebuilt += 1
            self._decider = again
            return decided_anew.decisions
        bare = _without_explanations(recorded)
        if any(not _different(bare, _without_explanations(one.commit)) for one in (decided, decided_anew)):
            found.explained += 1
            return None
        found.note(*_difference(step.entry.seq, *pair))
        return None

    def _is_meant(self, stretch: int) -> bool:
        return self._every > 0 and stretch % self._every == 0


class Decider:
    """Decides commits as the leader did. `core`: at the commit before."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._epoch = 0

    def decide(self, recorded: log_pb2.Commit, inbox: tuple[Message, ...]) -> _DecidedAgain:
        core = self.core
        if recorded.epoch != self._epoch:  # another leader, with an index of its own
            self._epoch, core.index = recorded.epoch, Index()
        deciding = _DecidedAgain(core, log_pb2.Commit(), recorded.now_ms)
        for message in inbox:
            _all(deciding.answer(message))
        own = {one.command: one for one in recorded.decisions if not one.inbox_seq}
        for name, command in _OWN.items():
            if name in own:
                _all(deciding.own(command()))
        limit = own[_SCHEDULE].limit if _SCHEDULE in own else 0
        _all(deciding.own(commands.Schedule(limit or limits.ALLOCATIONS_PER_PASS)))
        core.state.inbox_seq = recorded.inbox_seq
        return deciding


class _DecidedAgain(CommitInProgress):
    """A commit that is decided again. Nothing waits for it, so it takes each command in one step. It keeps its
    decisions also as values."""

    def __init__(self, core: Core, commit: log_pb2.Commit, now_ms: int) -> None:
        super().__init__(core, commit, now_ms)
        self.decisions: list[Decided] = []

    def decide(self, asked: Iterable[commands.Command], decision: log_pb2.Decision) -> Iterable[None]:
        asked = list(asked)
        facts = self.core.handle_all(asked, self.now_ms)
        if facts:
            self.write(facts, decision)
        if decision.inbox_seq:
            self.decisions.append(Decided(decision.command, asked, facts))
        elif facts:
            self.decisions.append(Decided(decision.command, (), facts))
        return ()


def _all(steps: Iterable[None]) -> None:
    for _ in steps:
        pass


def _different(
    recorded: log_pb2.Commit, decided: log_pb2.Commit
) -> tuple[log_pb2.Decision | None, log_pb2.Decision | None] | None:
    """The first pair of decisions that differ."""
    for one, other in zip_longest(recorded.decisions[:], decided.decisions[:]):
        if one is None or other is None or (one != other and _said(one) != _said(other)):
            return one, other
    return None


def _without_explanations(commit: log_pb2.Commit) -> log_pb2.Commit:
    """Without what Ticks explain, and without Ticks that do nothing else."""
    bare = log_pb2.Commit()
    for decision in commit.decisions:
        if decision.command != _TICK:
            bare.decisions.append(decision)
            continue
        facts = [fact for fact in decision.facts if fact.WhichOneof("fact") not in _EXPLANATIONS]
        if facts:
            bare.decisions.add(command=_TICK, facts=facts)
    return bare


def _said(decision: log_pb2.Decision) -> tuple[object, ...]:
    """Without the trace context, which says how the command came here."""
    return (
        decision.inbox_seq, decision.command, decision.request_seq, decision.request_part,
        [fact.SerializeToString(deterministic=True) for fact in decision.facts],
    )  # fmt: skip


def _difference(
    seq: int, recorded: log_pb2.Decision | None, decided: log_pb2.Decision | None
) -> tuple[str, Difference]:
    """The first decision of a commit that is not what was decided then: its command, and in which fact it differs."""
    named = recorded if recorded is not None else decided
    assert named is not None
    where = f"commit {seq}, {named.command}"
    if recorded is None or decided is None:
        side = "recorded" if recorded is None else "decided now"
        return named.command, Difference(seq, f"{where}: {side} nothing of the kind")
    both = [[" ".join(str(fact).split()) for fact in one.facts] for one in (recorded, decided)]
    pairs = zip_longest(*both, fillvalue="nothing")
    differ = ((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    at, (one, other) = next(differ, (len(recorded.facts) + 1, ("nothing", "nothing")))
    return named.command, Difference(seq, f"{where}, fact {at}: recorded {one}; decided now {other}")
