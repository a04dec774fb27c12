"""Decides the commits of a resource manager: RPCs of its inbox, then its own work: an admission pass, time-outs,
entitlements, preemption."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import structlog
from google.protobuf.message import DecodeError, Message

from remuda_bus import subjects, tracing
from remuda_bus.bus import Message as InboxMessage
from remuda_proto.remuda.resmgr.v1 import inbox_pb2, log_pb2
from remuda_replication.machine import COMMIT_S, FACTS_PER_COMMIT, TimeSlice

from ..commands import Admit, CalculateEntitlements, Command, Evict, Preempt, Tick
from ..core import Core
from ..facts import Fact
from ..limits import (
    ADMISSION_S,
    ADMISSION_SHARE,
    ADMISSIONS_APART_MS,
    ANSWER_BYTES,
    LIMIT_PER_CALL,
    POOLS_PER_LOOK,
    PREEMPTION_S,
    READY_GANGS,
    TIMERS_MS,
    VICTIMS_PER_STEP,
)
from ..settings import Periods
from ..wire import host_rpcs, pool_rpcs, rpcs
from ..wire.messages import write_fact

log = structlog.get_logger()

COMMANDS: Final = {
    name: rpc
    for table in (rpcs.RPCS, pool_rpcs.RPCS, host_rpcs.RPCS, {pool_rpcs.APPLY: pool_rpcs.APPLY_POOLS})
    for name, rpc in table.items()
    if rpc.command is not None
}
T = TypeVar("T")
UNREADABLE: Final = "Unreadable"


class Deciding:
    """A `remuda_replication.machine.Deciding`. `seen`: is told the sequence of each inbox message.
    `periods`: None: nothing happens by itself."""

    def __init__(
        self, core: Core, clock_ms: Callable[[], int], periods: Periods | None, seq: int, seen: Callable[[int], None]
    ) -> None:
        self._core = core
        self._clock_ms = clock_ms
        self._is_idle = periods is None
        self._periods = periods or Periods()
        self._seq = seq
        self._seen = seen
        self.more_to_schedule = False
        self.message_seq = 0
        self.facts_by_kind: Counter[type[Any]] = Counter()
        now_ms = clock_ms()
        self._calculate_ms = now_ms  # at once: the time since the last calculation is not known
        self._preempt_ms = now_ms + _ms(self._periods.preemption_s)
        self._to_preempt = deque[str]()  # pools of a cycle that has begun
        self._victims = deque[tuple[str, str]]()  # tasks and runs that it has chosen
        self._to_admit = deque[str]()  # leaves of an admission pass that has begun
        self._admit_again = False  # something has changed since it began
        self._admit_ms = now_ms
        self._tick_ms = now_ms
        self._rested_ms = now_ms  # when an admission pass may begin again

    def idle_s(self) -> float | None:
        due = min((at_ms for at_ms, _ in self._own()), default=None)
        return None if due is None else max(0.0, (due - self._clock_ms()) / 1_000)

    async def commit(self, messages: deque[InboxMessage], epoch: int) -> tuple[Any, dict[str, str]]:
        before_ms, now_ms, deadline = (
            self._core.state.now_ms,
            self._clock_ms(),
            time.perf_counter() + COMMIT_S,
        )
        self._commit, time_slice = log_pb2.Commit(epoch=epoch), TimeSlice()
        self.facts_by_kind = Counter()
        trace: dict[str, str] = {}
        facts = 0
        while messages:
            message = messages.popleft()
            self.message_seq = message.seq
            with tracing.span("resmgr.decide", message.headers) as span:
                facts += self._answer(message, now_ms, span.headers())
            trace = trace or span.headers()
            await time_slice.pause()  # lets the append of the commit before continue
            if facts >= FACTS_PER_COMMIT or time.perf_counter() >= deadline:
                break
        self.message_seq = 0
        if facts:
            self._admit_again = True
            self._admit_ms = min(self._admit_ms, self._rested_ms)
        for at_ms, command in self._own():
            if at_ms <= now_ms:
                if isinstance(command, Preempt):
                    self._preempt(now_ms)
                elif isinstance(command, Admit):
                    self._admit(now_ms)
                else:
                    self._do(command, now_ms)
                await time_slice.pause_when_over()
        if not self._commit.decisions:
            self._core.state.now_ms = before_ms  # without a commit, followers know of no later time
        self._commit.inbox_seq, self._commit.now_ms = self._seq, self._core.state.now_ms
        return self._commit, trace

    def _own(self) -> list[tuple[int, Command]]:
        """The commands of the deciding process itself, and when they are due."""
        state = self._core.state
        if self._is_idle:
            return []
        own: list[tuple[int, Command]] = [(self._calculate_ms, CalculateEntitlements())]
        if state.timers:
            own.append((max(state.timers[0][0], self._tick_ms), Tick()))
        if self._core.settings.preemption_enabled:
            own.append((self._preempt_ms, Preempt()))
        if state.waiting:
            own.append((self._admit_ms, Admit()))
        return own

    def _preempt(self, now_ms: int) -> None:
        """Begin a preemption cycle, or go on with it: for a part of the commit's time, the rest in the next one."""
        if not (self._to_preempt or self._victims):
            self._to_preempt = deque(self._core.state.pools)
        deadline, facts = time.perf_counter() + PREEMPTION_S, list[Fact]()
        while self._to_preempt or self._victims:
            if self._victims:
                more, _ = self._core.handle(Evict(_first(self._victims, VICTIMS_PER_STEP)), now_ms)
            else:
                preempt = Preempt(_first(self._to_preempt, POOLS_PER_LOOK), VICTIMS_PER_STEP)
                more, later = self._core.handle(preempt, now_ms)
                self._victims.extend(later)
            facts += more
            if time.perf_counter() >= deadline:
                break
        if not (self._to_preempt or self._victims):
            self._preempt_ms = now_ms + _ms(self._periods.preemption_s)
        if facts:
            self._write(self._commit.decisions.add(command=Preempt.__name__), facts)

    def _admit(self, now_ms: int) -> None:
        """Begin an admission pass, or go on with it: for a part of the commit, the rest in the next one. No leaf has a
        second turn before the others had theirs."""
        state, began, facts = self._core.state, time.perf_counter(), list[Fact]()
        if not self._to_admit:
            self._to_admit, self._admit_again = deque(state.waiting), False
        while self._to_admit and state.ready_count < READY_GANGS and len(facts) < FACTS_PER_COMMIT:
            admit = Admit((self._to_admit.popleft(),))
            facts += self._core.handle(admit, now_ms, FACTS_PER_COMMIT - len(facts))[0]
            if time.perf_counter() >= began + ADMISSION_S:
                break
        took_ms = (time.perf_counter() - began) * 1_000
        self._rested_ms = now_ms + ADMISSIONS_APART_MS + int(took_ms / ADMISSION_SHARE)
        self._admit_again |= bool(facts)
        goes_on = state.ready_count < READY_GANGS and (self._to_admit or self._admit_again)
        self._admit_ms = self._rested_ms if goes_on else max(self._rested_ms, now_ms + _ms(self._periods.admission_s))
        if facts:
            self._write(self._commit.decisions.add(command=Admit.__name__), facts)

    def _do(self, command: Command, now_ms: int) -> None:
        """Decide a command of its own. Without facts, no decision is recorded."""
        facts, _ = self._core.handle(command, now_ms)
        if isinstance(command, CalculateEntitlements):
            self._calculate_ms = now_ms + _ms(self._periods.entitlement_s)
        else:
            self._tick_ms = now_ms + TIMERS_MS
        if facts:
            self._write(self._commit.decisions.add(command=type(command).__name__), facts)

    def _answer(self, message: InboxMessage, now_ms: int, trace: dict[str, str]) -> int:
        """Decide an RPC. Returns the number of facts."""
        self._seq = message.seq
        self._seen(message.seq)
        decision = self._commit.decisions.add(inbox_seq=message.seq, traceparent=trace.get(subjects.TRACEPARENT, ""))
        try:
            asked = inbox_pb2.Command.FromString(message.payload)
            decision.correlation_id = asked.correlation_id
            rpc = _rpc_of(asked.rpc)
            request = rpc.request.FromString(asked.request)
            command = pool_rpcs.with_id(_command(rpc, request), asked.new_id)
        except (DecodeError, rpcs.RpcError) as error:  # any other error is a fault
            log.error("unreadable command skipped", inbox_seq=message.seq, error=repr(error))
            decision.command = UNREADABLE
            return 0
        decision.command = asked.rpc
        facts, response = self._taken(rpc, request, now_ms) if rpc.waits else self._done(rpc, request, command, now_ms)
        self._write(decision, facts)
        decision.answer = response.SerializeToString()
        return len(facts)

    def _done(self, rpc: Any, request: Any, command: Command, now_ms: int) -> tuple[list[Fact], Message]:
        facts, answer = self._core.handle(command, now_ms)
        return facts, rpc.answer(request, answer)

    def _taken(self, rpc: Any, request: Any, now_ms: int) -> tuple[list[Fact], Message]:
        """Take what there is, one after the other, up to the limit of the request or ANSWER_BYTES."""
        one_by_one = type(request)()
        one_by_one.CopyFrom(request)
        one_by_one.limit = 1
        command = _command(rpc, one_by_one)
        facts: list[Fact] = []
        response = rpc.answer(request, ())
        left = ANSWER_BYTES
        for _ in range(min(request.limit, LIMIT_PER_CALL)):
            more, answer = self._core.handle(command, now_ms)
            facts += more
            if not answer:
                break
            part = rpc.answer(request, answer)
            response.MergeFrom(part)
            left -= part.ByteSize()
            if left <= 0:
                break
        return facts, response

    def _write(self, decision: log_pb2.Decision, facts: list[Fact]) -> None:
        self.facts_by_kind.update(map(type, facts))
        decision.facts.extend([write_fact(fact) for fact in facts])


def _rpc_of(name: str) -> rpcs.Rpc[Any, Any]:
    """Raises RpcError for one that this version does not know."""
    if name not in COMMANDS:
        raise rpcs.RpcError(rpcs.INVALID_ARGUMENT, f"rpc is {name[:64]!r}, expected one of {', '.join(COMMANDS)}")
    return COMMANDS[name]


def _command(rpc: rpcs.Rpc[Any, Any], request: Any) -> Command:
    assert rpc.command is not None
    if rpc.check is not None:
        rpc.check(request)
    return rpc.command(request)


def _first(waiting: deque[T], most: int) -> tuple[T, ...]:
    """Takes them out."""
    return tuple(waiting.popleft() for _ in range(min(len(waiting), most)))


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)
