"""LOG -> CALLBACKS of one RM: reads the commits in force and tells the RM what concerns it, in order.

Where telling stopped is told by the callbacks themselves: the newest one names the commit and the fact. So there is no
second record that could disagree, and whoever takes over goes on exactly there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, BusError, Headers, Outgoing, Unreadable
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.log import START, LogEntry, LogReader, Position, check_commit
from remuda_bus.ordered import batches
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.callbacks import Callback, Question, callbacks_of
from remuda_rmproxy.limits import LOOK_EVERY_MESSAGES, LOOK_EVERY_S, UNACKNOWLEDGED_MESSAGES

log = structlog.get_logger()


OnDecision = Callable[[str, log_pb2.Decision], Awaitable[None]]
OnQuestions = Callable[[Sequence[LogEntry], Sequence[tuple[LogEntry, Question]]], None]


@dataclass(frozen=True, slots=True)
class Told:
    """The newest callback: of which commit, of what in it, and its own stream sequence. Zeros: nothing was told yet."""

    commit: Position = START
    fact: int = -1
    callback_seq: int = 0

    def __str__(self) -> str:
        return f"{self.commit.seq}.{self.fact}"


class Teller:
    """`on_decision` is awaited for every decision that answers a correlated command, before what it led to is told.
    `on_questions` gets what the RM is to be asked, with all that was read at once. `in_a_hurry`: whether somebody
    waits for what comes behind that which is not told yet."""

    def __init__(
        self,
        bus: Bus,
        rm_id: str,
        on_decision: OnDecision,
        on_questions: OnQuestions,
        in_a_hurry: Callable[[], bool],
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._on_decision = on_decision
        self._on_questions = on_questions
        self._limit = bus.max_payload - HEADER_ROOM_BYTES
        self._told = Told()  # is durable
        self._newest = Told()  # is made
        self._read = START
        self._trimmed_below = 0
        self._in_a_hurry = in_a_hurry
        self._not_looked_at = LOOK_EVERY_MESSAGES  # appended since it was looked whether the RM keeps up

    async def run(self) -> None:
        while True:
            try:
                await self._tell_from_where_it_stopped()
            except Unreadable:
                raise
            except BusError as error:
                # Whether the last callbacks are there is not known: look.
                log.warning("telling is interrupted, trying again", rm=self._rm_id, error=str(error))
                await asyncio.sleep(limits.TELL_RETRY_S)

    async def trim(self) -> None:
        """Delete callbacks the RM has acknowledged, but the newest: it holds the position."""
        if self._told.callback_seq == 0 or self._trimmed_below == self._told.callback_seq:
            return
        acknowledged = await self._bus.acknowledged(subjects.CALLBACKS.name, subjects.callback_consumer(self._rm_id))
        below = min(acknowledged + 1, self._told.callback_seq)
        if below > max(1, self._trimmed_below):
            await self._bus.trim(subjects.CALLBACKS.name, subjects.callback(self._rm_id, "*"), below)
            self._trimmed_below = below

    async def _tell_from_where_it_stopped(self) -> None:
        """What was read before an interruption has to be in the log still, and so has what the RM was told."""
        await check_commit(self._bus, self._rm_id, self._read)
        self._told = self._newest = told = await newest_callback(self._bus, self._rm_id)
        reader = await LogReader.open(self._bus, self._rm_id, told.commit if told.commit.seq else None, again=True)
        try:
            while True:
                entries = await reader.batch()
                self._read = reader.position
                await self._tell(entries)
        finally:
            await reader.close()

    async def _tell(self, entries: list[LogEntry]) -> None:
        batch: list[Outgoing] = []
        size = 0
        questions: list[tuple[LogEntry, Question]] = []
        with ExitStack() as spans:
            for entry in entries:
                messages = self._callbacks(entry, questions, spans)
                for first_fact, decision in correlated(entry.commit):
                    if begins_or_ends(decision):  # what came before is for the former registration
                        before, messages = cut_at(messages, first_fact)
                        await self._append_all([*batch, *before])
                        batch, size = [], 0
                    await self._on_decision(self._rm_id, decision)
                for message in messages:
                    if batch and (
                        len(batch) >= limits.BATCH_MESSAGES or size + len(message.payload) > limits.BATCH_BYTES
                    ):
                        await self._append(batch)
                        batch, size = [], 0
                    batch.append(message)
                    size += len(message.payload)
            if questions:
                self._on_questions(entries, questions)
            if batch:
                await self._append(batch)

    def _callbacks(
        self, entry: LogEntry, questions: list[tuple[LogEntry, Question]], spans: ExitStack
    ) -> list[Outgoing]:
        rm_id = self._rm_id
        after_fact = self._told.fact if entry.seq == self._told.commit.seq else -1
        asked: list[Question] = []
        callbacks = list(callbacks_of(entry.commit, rm_id, self._limit, after_fact, asked))
        questions.extend((entry, question) for question in asked)
        if not callbacks:
            return []
        span = spans.enter_context(telemetry.span("rmproxy.callback", entry.headers, rm=rm_id, log_seq=entry.seq))
        common = {**entry.position.headers(), **span.headers()}
        made: list[Outgoing] = []
        for callback in callbacks:
            made.append(self._message(entry, callback, common))
            self._newest = Told(entry.position, callback.last_fact)
        return made

    def _message(self, entry: LogEntry, callback: Callback, common: dict[str, str]) -> Outgoing:
        return Outgoing(
            subjects.callback(self._rm_id, callback.kind),
            callback.payload,
            {
                **common,
                subjects.LOG_FACT: str(callback.last_fact),
                subjects.AFTER: str(self._newest),
                # By the hash: a log that has lost its end gives its sequences to other commits.
                subjects.MSG_ID: f"{self._rm_id}.{entry.position.hash.hex()}.{callback.last_fact}",
            },
        )

    async def _append_all(self, messages: list[Outgoing]) -> None:
        for batch in batches(messages):
            await self._append(list(batch))

    async def _append(self, batch: list[Outgoing]) -> None:
        await self._until_it_keeps_up(len(batch))
        callback_seq = await self._bus.append_all(batch, limits.APPEND_WITHIN_S)
        self._told = told_by(batch[-1].headers, callback_seq)

    async def _until_it_keeps_up(self, more: int) -> None:
        """A slow RM delays nobody but itself: what it is not told yet waits in the log, not where all others want room
        too."""
        self._not_looked_at += more
        if self._not_looked_at < LOOK_EVERY_MESSAGES:
            return
        said = False
        while not self._in_a_hurry() and (waiting := await self._unacknowledged()) > UNACKNOWLEDGED_MESSAGES:
            if not said:
                log.warning("the RM is told no more until it acknowledges", rm=self._rm_id, unacknowledged=waiting)
                said = True
            await asyncio.sleep(LOOK_EVERY_S)
        self._not_looked_at = 0

    async def _unacknowledged(self) -> int:
        state = await self._bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer(self._rm_id))
        return 0 if state is None else state.waiting


def correlated(commit: log_pb2.Commit) -> Iterator[tuple[int, log_pb2.Decision]]:
    """Decisions somebody waits for, each with the index of its first fact."""
    first_fact = 0
    for decision in commit.decisions:
        if decision.correlation_id:
            yield first_fact, decision
        first_fact += len(decision.facts)


def begins_or_ends(decision: log_pb2.Decision) -> bool:
    """Whether it is a registration, or the end of one."""
    return any(fact.HasField("rm_registered") or fact.HasField("rm_stopped") for fact in decision.facts)


def cut_at(messages: Sequence[Outgoing], fact: int) -> tuple[list[Outgoing], list[Outgoing]]:
    """Those that tell of facts before this one of their commit, and those that tell of it and others behind it."""
    before = [message for message in messages if int(message.headers[subjects.LOG_FACT]) < fact]
    return before, list(messages[len(before) :])


def told_by(headers: Headers, callback_seq: int) -> Told:
    return Told(Position.of(headers), int(headers[subjects.LOG_FACT]), callback_seq)


async def newest_callback(bus: Bus, rm_id: str) -> Told:
    """The newest message out of the log among the callbacks of an RM. (A dead letter is not out of the log.)"""
    newest = await asyncio.gather(
        *(bus.last(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    told = [
        told_by(message.headers, message.seq)
        for message in newest
        if message is not None and subjects.LOG_SEQ in message.headers
    ]
    return max(told, key=lambda one: (one.commit.seq, one.fact), default=Told())
