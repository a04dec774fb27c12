"""The leader of one RM: reads the inbox, decides, and appends one commit after the other.

The lease decides which process leads; the chain fences. If another leader has written, an append is refused and this
process exits. A leader that loses its lease while all its commits are durable becomes a follower again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, Full, Message, NoResponders, Reader, Refused
from remuda_bus.metrics import rm_label
from remuda_bus.retry import Backoff, RetryPolicy, pause
from remuda_bus.status_codes import UNAVAILABLE
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogWriter, Position
from remuda_replication.machine import Machine
from remuda_replication.snapshots import Snapshots

# Messages that the leader reads from the inbox for one commit, with the same trade-off as allocations of a pass.
COMMANDS_PER_COMMIT = 256
INBOX_BYTES_PER_COMMIT = 256_000
# Between two attempts to append to a full log.
FULL_RETRY_S = 1.0
# A stream of a NATS cluster has no leader for a moment after a server fails. After this time it may be lost.
LEADERLESS_S = 3.0
LEADERLESS_RETRY_S = 0.05
# The leader waits for a wall clock that is behind by less: clocks are adjusted, and differ between machines.
CLOCKS_DIFFER_MS = 500
# Answers take so long of a leader's time between two commits, where no other core can give them.
ANSWERS_PER_COMMIT_S = 0.005

log = structlog.get_logger()

T = TypeVar("T")
Answer = tuple[asyncio.Future[tuple[Position, Any]], Any]


class Leader:
    """Leads one RM on a machine. `writer` continues after the commit at which the machine is. `applied` is called with
    each commit that is durable, `moved` when the position has changed. The methods raise LostLeadership, HistoryChanged
    or an outage of the bus, after each of which the process restarts from the log."""

    def __init__(
        self,
        bus: Bus,
        machine: Machine,
        epoch: int,
        writer: LogWriter,
        clock_ms: Callable[[], int],
        snapshots: Snapshots,
    ) -> None:
        self.rm_id = machine.log_id
        self._machine = machine
        self._bus = bus
        self._epoch = epoch
        self._taking: asyncio.Future[list[Message]] | None = None
        self._questions: dict[asyncio.Future[tuple[Position, Any]], Callable[[], Any]] = {}  # in order
        self._unanswered: set[asyncio.Future[tuple[Position, Any]]] = set()  # also those that wait for a commit
        self._ended = False
        self.moved: Callable[[], None] = lambda: None
        self.applied: Callable[[log_pb2.Commit], None] = lambda _: None
        self._writer = writer
        self.snapshots = snapshots
        snapshots.wake = self.wake
        clock = Clock(clock_ms, asyncio.get_running_loop().time, machine.now_ms)
        self._deciding = machine.deciding(clock.now_ms)

    @property
    def position(self) -> Position:
        """The last durable commit."""
        return self._writer.position

    @property
    def message_seq(self) -> int:
        """The sequence of the inbox message in work; 0: none."""
        return self._deciding.message_seq

    async def lead(self, may_lead: Callable[[], bool]) -> Position:
        """Lead while `may_lead()` is true; it is checked after every commit and after `wake`. Returns the last commit,
        which is durable and is the state of the machine."""
        log.info("leading", rm=self.rm_id, log_seq=self.position.seq, epoch=self._epoch)
        inbox: Reader | None = None
        try:
            inbox = await self._bus.read(
                subjects.inbox_stream(self.rm_id), subjects.inbox(self.rm_id), self._machine.inbox_seq
            )
            self._machine.metrics.leaderships.labels(rm_label(self.rm_id)).inc()
            with self._machine.metrics.leading.track_inprogress():
                await self._loop(inbox, may_lead)
        finally:
            self._refuse_questions()
            await self.snapshots.close()
            if inbox is not None:
                await inbox.close()
        log.info("led", rm=self.rm_id, log_seq=self.position.seq)
        return self.position

    async def ask(self, question: Callable[[], T]) -> tuple[Position, T]:
        """Evaluate `question` on the state between two commits. Returns the commit and the result when the commit is
        durable. Raises Refused when this process no longer leads."""
        if self._ended:
            raise _ended()
        answer: asyncio.Future[tuple[Position, Any]] = asyncio.get_running_loop().create_future()
        self._questions[answer] = question
        self._unanswered.add(answer)
        self.wake()
        try:
            return await answer
        finally:
            self._unanswered.discard(answer)
            self._questions.pop(answer, None)  # its sender has gone away

    def _refuse_questions(self) -> None:
        """Refuse all open questions when this leader ends: the commits that they wait for are not appended any more."""
        self._ended = True
        for answer in self._unanswered:
            if not answer.done():
                answer.set_exception(_ended())

    def wake(self) -> None:
        """Check for work although no message has arrived."""
        if self._taking is not None:
            self._taking.cancel()

    async def _loop(self, inbox: Reader, may_lead: Callable[[], bool]) -> None:
        """While one commit is being appended, the next is decided on top of it, and appended when the first is durable.
        Nothing of a commit is published before it is durable. If an append fails, this process exits."""
        appending: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
        messages: deque[Message] = deque()
        try:
            while may_lead():
                await self.snapshots.room()
                if not messages:
                    messages.extend(await self._take(inbox, 0.0))
                if not messages and not self._more_to_schedule:
                    await appending
                    self._resolve(self._answers())
                    messages.extend(await self._wait(inbox))
                    if self._questions and not messages:
                        continue
                if self.snapshots.wanted():
                    await appending
                    self.snapshots.take(self.position)
                inbox_seq = self._machine.inbox_seq
                with self._machine.metrics.decide_seconds.time():
                    commit, trace = await self._deciding.commit(messages, self._epoch)
                facts = self._deciding.facts_by_kind
                answers = self._answers()
                if commit.inbox_seq != inbox_seq or commit.decisions:
                    self.snapshots.count(facts.total())
                    await appending
                    appending = asyncio.ensure_future(self._append(commit, facts, trace, answers))
                    await asyncio.sleep(0)  # lets the append start
                elif answers:
                    await appending
                    self._resolve(answers)
            await appending
        except Exception:
            with suppress(Exception):
                await appending  # so that the next leader meets the fault at the same commit
            raise
        finally:
            appending.cancel()

    async def _take(self, inbox: Reader, timeout_s: float | None) -> list[Message]:
        messages = await inbox.batch(COMMANDS_PER_COMMIT, INBOX_BYTES_PER_COMMIT, timeout_s)
        self.snapshots.count_inbox(messages)
        if messages:
            self._machine.metrics.count_taken(messages[0])
        return messages

    async def _wait(self, inbox: Reader) -> list[Message]:
        """Wait for messages until other work is due. Cancelling loses no message."""
        if self.snapshots.wanted() or self._questions:
            return []
        idle = [one for one in (self._deciding.idle_s(), self.snapshots.idle_s()) if one is not None]
        self._taking = taking = asyncio.ensure_future(self._take(inbox, min(idle, default=None)))
        try:
            await asyncio.wait([taking])
            return [] if taking.cancelled() else taking.result()
        finally:
            self._taking = None
            taking.cancel()

    @property
    def _more_to_schedule(self) -> bool:
        return self._deciding.more_to_schedule

    def _answers(self) -> list[Answer]:
        """Evaluate queued questions for ANSWERS_PER_COMMIT_S. The results are returned when the state is durable."""
        answers: list[Answer] = []
        until = time.perf_counter() + ANSWERS_PER_COMMIT_S
        while self._questions and (not answers or time.perf_counter() < until):
            answer = next(iter(self._questions))
            question = self._questions.pop(answer)
            if answer.done():
                continue
            try:
                answers.append((answer, question()))
            except Exception as error:  # noqa: BLE001 - raised where the question was asked
                answer.set_exception(error)
        return answers

    def _resolve(self, answers: list[Answer]) -> None:
        for answer, result in answers:
            if not answer.done():
                answer.set_result((self.position, result))

    async def _append(
        self, commit: log_pb2.Commit, facts: Counter[type[Any]], trace: dict[str, str], answers: list[Answer]
    ) -> None:
        started = time.perf_counter()
        with tracing.span("core.commit", trace, rm=self.rm_id, inbox_seq=commit.inbox_seq) as span:
            leaderless = Backoff(RetryPolicy(LEADERLESS_RETRY_S, give_up_after_s=LEADERLESS_S))
            while True:
                try:
                    await self._writer.append(commit, span.headers() or None)
                    self._machine.metrics.count_commit(self.rm_id, commit, facts, time.perf_counter() - started)
                    self._resolve(answers)
                    self.applied(commit)
                    return self.moved()
                except NoResponders:
                    if leaderless.is_exhausted:
                        raise
                    await leaderless.pause()
                except Full as error:
                    log.error(
                        "the log is full, nothing can be decided until there is room", rm=self.rm_id, error=str(error)
                    )
                    await pause(RetryPolicy(FULL_RETRY_S))


def _ended() -> Refused:
    return Refused("this process does not lead any more, try again", UNAVAILABLE)


class Clock:
    """The clock of a leader: milliseconds since 1970 that never go back and never stop. If the wall clock is set back,
    or is behind the time in the log because the clock of another machine was ahead, time continues from there at the
    pace of `steady_s`, a monotonic clock in seconds. Otherwise no timer would be due until the wall clock has caught
    up."""

    def __init__(self, wall_ms: Callable[[], int], steady_s: Callable[[], float], not_before_ms: int) -> None:
        self._wall_ms = wall_ms
        self._steady_s = steady_s
        self._last_ms = float(max(wall_ms(), not_before_ms))
        self._at_s = steady_s()

    def now_ms(self) -> int:
        """The time, in ms since 1970."""
        wall_ms, at_s = self._wall_ms(), self._steady_s()
        if self._last_ms - wall_ms > CLOCKS_DIFFER_MS:
            self._last_ms += (at_s - self._at_s) * 1_000
        self._last_ms = max(self._last_ms, wall_ms)
        self._at_s = at_s
        return int(self._last_ms)
