"""Decides the commits of one RM: messages of its inbox, a Tick, a scheduling pass.

Commits are bounded, and work on a commit pauses, so that the process can renew its lease and lead its other RMs.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects, tracing
from remuda_bus.bus import Message
from remuda_bus.metrics import rm_label
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_replication.machine import COMMIT_S, FACTS_PER_COMMIT, TimeSlice

from .. import commands, limits
from ..core import Core, next_tick_ms
from ..facts import Fact
from ..wire.codec import CommitCodec
from . import metrics
from .backfilled import backfilled

log = structlog.get_logger()
# The name of the command in the decision about a message that cannot be parsed.
UNREADABLE = "Unreadable"


class Deciding:
    """`clock_ms` must never go back. While `commit` runs nothing else may read the state, which holds part of a
    commit."""

    def __init__(
        self, core: Core, clock_ms: Callable[[], int], allocations_per_pass: int = limits.ALLOCATIONS_PER_PASS
    ) -> None:
        self._core = core
        self._allocations_per_pass = allocations_per_pass
        self._clock_ms = clock_ms
        self.more_to_schedule = True
        self.message_seq = 0  # stream sequence of the message in work; 0: none
        self.facts_by_kind: Counter[type[Fact]] = Counter()  # of the last commit
        self._last_tick_ms = 0
        self._next_clean_ms: int | None = 0  # None: no fact since the last cleaning, so no queue has become empty

    def idle_s(self) -> float | None:
        """The time until the process has something to do even if no message arrives, in s; None: unlimited."""
        times = [one for one in (self._next_tick_ms(), self._next_clean_ms) if one is not None]
        return max(0.0, (min(times) - self._clock_ms()) / 1000) if times else None

    async def commit(self, messages: deque[Message], epoch: int) -> tuple[log_pb2.Commit, dict[str, str]]:
        """Decide one commit: as many of `messages`, from the left, as fit, then a Tick if it is due, then a scheduling
        pass. Returns the commit and the headers with its trace: those of the first message that has them."""
        now_ms, deadline = self._clock_ms(), time.perf_counter() + COMMIT_S
        state, time_slice, trace = self._core.state, TimeSlice(), dict[str, str]()
        deciding = _LeadersCommit(self._core, log_pb2.Commit(epoch=epoch), now_ms)
        while messages:
            self.message_seq = messages[0].seq
            message = messages.popleft()
            with tracing.span("core.decide", message.headers, rm=state.rm_id) as span:
                await time_slice.run(deciding.answer(message, _traceparent(span.headers())))
            trace = trace or span.headers()
            await time_slice.pause()  # lets the append of the commit before continue
            if deciding.facts >= FACTS_PER_COMMIT or time.perf_counter() >= deadline:
                break
        self.message_seq = 0
        if (tick_ms := self._next_tick_ms()) is not None and now_ms >= tick_ms:
            self._last_tick_ms = now_ms
            await time_slice.run(deciding.own(commands.Tick()))
        if self._next_clean_ms is not None and now_ms >= self._next_clean_ms:
            self._next_clean_ms = None
            await time_slice.run(deciding.own(commands.CleanQueues()))
        before = deciding.facts
        with metrics.PASS_SECONDS.time():
            await time_slice.run(deciding.own(commands.Schedule(self._allocations_per_pass), _traceparent(trace)))
        self.more_to_schedule = deciding.facts - before >= self._allocations_per_pass or self._core.index.unfinished
        if deciding.facts and self._next_clean_ms is None:
            self._next_clean_ms = now_ms + limits.CLEAN_QUEUES_MS
        self.facts_by_kind = deciding.facts_by_kind
        deciding.commit.inbox_seq, deciding.commit.now_ms = state.inbox_seq, state.now_ms
        return deciding.commit, trace

    def _next_tick_ms(self) -> int | None:
        return next_tick_ms(self._core.state, self._last_tick_ms)


class CommitInProgress:
    """A commit while it is decided: in steps, between which the host may do other work, but must not use the state."""

    def __init__(self, core: Core, commit: log_pb2.Commit, now_ms: int) -> None:
        self.core = core
        self.now_ms = now_ms
        self.codec = CommitCodec()
        self.commit = commit
        self.facts = 0

    def answer(self, message: Message, traceparent: str = "") -> Iterable[None]:
        """Decide a message of the inbox, unless it was handled before. It is decided while the steps are iterated."""
        state = self.core.state
        state.inbox_seq = message.seq
        try:
            command = inbox_pb2.Command.FromString(message.payload)
        except DecodeError:
            log.error("unreadable command skipped", rm=state.rm_id, inbox_seq=message.seq)
            self.commit.decisions.add(inbox_seq=message.seq, command=UNREADABLE)
            return ()
        position = (command.request_seq, command.request_part)
        if command.request_seq and position <= (state.request_seq, state.request_part):
            return ()  # a duplicate, handled before
        name, asked = self.codec.read(command)
        decision = self.commit.decisions.add()
        decision.inbox_seq, decision.command, decision.traceparent = message.seq, name, traceparent
        decision.correlation_id = command.correlation_id
        decision.request_seq, decision.request_part = position
        if command.request_seq:
            state.request_seq, state.request_part = position
        return self.decide(asked, decision)

    def own(self, command: commands.Command, traceparent: str = "") -> Iterator[None]:
        """Decide a command of the core itself. Without facts no decision is recorded."""
        decision = self.commit.decisions.add()
        decision.command, decision.traceparent = type(command).__name__, traceparent
        if isinstance(command, commands.Schedule) and command.limit != limits.ALLOCATIONS_PER_PASS:
            decision.limit = command.limit
        before = self.facts
        yield from self.decide((command,), decision)
        if self.facts == before:
            self.commit.decisions.pop()

    def decide(self, asked: Iterable[commands.Command], decision: log_pb2.Decision) -> Iterable[None]:
        facts: list[Fact] = []
        for _ in self.core.handle_in_steps(asked, self.now_ms, facts):
            if len(facts) >= limits.FACTS_PER_STEP:
                self.write(facts, decision)
                facts.clear()
            yield
        self.write(facts, decision)

    def write(self, facts: Sequence[Fact], decision: log_pb2.Decision) -> None:
        """Append facts to the decision. The state has just applied them, and none after them."""
        self.facts += len(facts)
        self.codec.write(facts, decision)


class _LeadersCommit(CommitInProgress):
    """Counts facts for metrics, too."""

    def __init__(self, core: Core, commit: log_pb2.Commit, now_ms: int) -> None:
        super().__init__(core, commit, now_ms)
        self.facts_by_kind: Counter[type[Fact]] = Counter()

    def write(self, facts: Sequence[Fact], decision: log_pb2.Decision) -> None:
        if (count := backfilled(self.core.state, facts)) > 0:
            metrics.BACKFILLED.labels(rm_label(self.core.state.rm_id)).inc(count)
        self.facts_by_kind.update(map(type, facts))
        super().write(facts, decision)


def _traceparent(trace: dict[str, str]) -> str:
    return trace.get(subjects.TRACEPARENT, "")
