"""LOG to CALLBACKS of one RM: reads the commits in force and publishes a callback for each fact that concerns the RM,
in order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

import structlog

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, BusError, Headers, HistoryChanged, LogTrimmed, Message, Outgoing, Unanswered, Unreadable
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.metrics import exemplar_of, rm_label
from remuda_bus.retry import Backoff, pause
from remuda_bus.streams.ordered_append import batches
from remuda_bus.untrusted import Malformed, number_in
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import START, LogEntry, LogReader, Position, check_commit

from .. import limits, metrics
from ..records.request_times import WAITING, Cause, RequestTimes
from .callbacks import Callback, Question, callbacks_of

log = structlog.get_logger()

OnDecision = Callable[[str, log_pb2.Decision], Awaitable[None]]
OnQuestions = Callable[[Sequence[LogEntry], Sequence[tuple[LogEntry, Question]]], None]


class CallbackPublisher:
    """Publishes the callbacks of one RM. `on_decision` is awaited for each decision that answers a request, after the
    callbacks before it and before those of the decision. `on_questions` receives the questions to the RM, with all
    entries that were read together. `is_unthrottled`: publish also what the RM does not acknowledge, because a
    request waits for a later decision. `times`: when the requests were published. `on_published` is called when
    there may be callbacks to trim. `openings` bounds how many publishers start at the same time.
    """

    def __init__(
        self,
        bus: Bus,
        rm_id: str,
        on_decision: OnDecision,
        on_questions: OnQuestions,
        is_unthrottled: Callable[[], bool],
        on_published: Callable[[], None] = lambda: None,
        openings: asyncio.Semaphore | None = None,
        times: RequestTimes | None = None,
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._on_decision = on_decision
        self._on_questions = on_questions
        self._on_published = on_published
        self._openings = openings or asyncio.Semaphore()
        self._times = times or RequestTimes()
        metrics.show_rm(rm_id)
        self._window = AcknowledgementWindow(bus, rm_id, is_unthrottled)
        self._payload_limit = bus.max_payload - HEADER_ROOM_BYTES
        self._published = PublishedPosition()  # of the newest durable callback
        self._prepared = PublishedPosition()  # of the newest callback that was made
        self._read_position = START
        self._is_open = False  # the position has been read
        self._dead_letter_seq = 0  # of the newest callback about a dead letter
        self._trimmed_below = 1
        self.log_seq = 0  # of the entry whose callbacks are published, or the next one

    async def run(self) -> None:
        """Runs until cancelled. Raises Unreadable, HistoryChanged."""
        while True:
            try:
                await self._publish_from_position()
            except Unreadable:
                raise
            except BusError as error:
                # Whether the last batch is durable is not known: read the position again.
                log.warning("publishing of callbacks is interrupted, trying again", rm=self._rm_id, error=str(error))
                await pause(limits.PUBLISH_RETRY)

    def note_dead_letter(self, callback_seq: int) -> None:
        """Records that a callback about a dead letter was published."""
        self._dead_letter_seq = callback_seq

    @property
    def is_trimmed(self) -> bool:
        return not self._is_open or self._trimmed_below >= self._trimmable_below

    @property
    def _trimmable_below(self) -> int:
        """The newest callback from the log holds the position and stays. Where there is none, all may go."""
        return self._published.callback_seq or self._dead_letter_seq + 1

    async def trim(self) -> None:
        """Deletes acknowledged callbacks. Raises BusError."""
        if self.is_trimmed:
            return
        acknowledged = await self._bus.acknowledged_sequence(
            subjects.CALLBACKS.name, subjects.callback_consumer(self._rm_id)
        )
        below = min(acknowledged + 1, self._trimmable_below)
        if below > self._trimmed_below:
            kind = "*" if self._published.callback_seq else "dead_letter"
            await self._bus.trim(subjects.CALLBACKS.name, subjects.callback(self._rm_id, kind), below)
            self._trimmed_below = below

    async def _publish_from_position(self) -> None:
        """The log must still contain what was read before an interruption, and the commit of the newest callback."""
        async with self._openings:
            await check_commit(self._bus, self._rm_id, self._read_position)
            position = await read_published_position(self._bus, self._rm_id)
            reader = await self._read_from(position)
        self._published = self._prepared = position
        self._is_open = True
        self.log_seq = position.commit.seq + 1
        self._on_published()
        try:
            while True:
                entries = await reader.batch()
                self._read_position = reader.position
                await self._publish(entries)
                self.log_seq = self._read_position.seq + 1
        finally:
            await reader.close()

    async def _read_from(self, position: PublishedPosition) -> LogReader:
        """The log keeps the commit of the newest callback. Raises HistoryChanged, LogTrimmed."""
        try:
            commit = position.commit if position.commit.seq else None
            return await LogReader.open(self._bus, self._rm_id, commit, inclusive=True)
        except LogTrimmed as error:
            if await read_published_position(self._bus, self._rm_id) != position:
                raise  # another process has published meanwhile
            raise HistoryChanged(f"{error}: no callback of the RM is behind it") from None

    async def _publish(self, entries: list[LogEntry]) -> None:
        batch: list[Outgoing] = []
        size = 0
        questions: list[tuple[LogEntry, Question]] = []
        answered: list[tuple[LogEntry, Sequence[Cause]]] = []  # commits with callbacks
        with ExitStack() as spans:
            for entry in entries:
                self.log_seq = entry.seq
                causes = self._times.causes(self._rm_id, entry.commit)
                messages = self._messages_of(entry, questions, causes, spans)
                answered += [(entry, causes)] if messages else []
                for first_fact, decision in correlated_decisions(entry.commit):
                    if changes_session(decision):  # earlier callbacks belong to the former registration
                        before, messages = split_at_fact(messages, first_fact)
                        for part in batches([*batch, *before]):
                            await self._append(part)
                        batch, size = [], 0
                    await self._on_decision(self._rm_id, decision)
                for message in messages:
                    is_full = len(batch) >= limits.BATCH_MESSAGES or size + len(message.payload) > limits.BATCH_BYTES
                    if batch and is_full:
                        await self._append(batch)
                        batch, size = [], 0
                    batch.append(message)
                    size += len(message.payload)
            if questions:
                self._on_questions(entries, questions)
            if batch:
                await self._append(batch)
        now_ns = time.time_ns()
        for entry, causes in answered:
            late_s = max(0.0, now_ns / 1_000_000_000 - entry.commit.now_ms / 1_000)
            metrics.CALLBACK_SECONDS.observe(late_s, exemplar_of(entry.headers))
            for cause in causes:
                if cause.answer == WAITING:
                    continue
                took_s = max(0.0, (now_ns - cause.published_ns) / 1_000_000_000)
                exemplar = exemplar_of({subjects.TRACEPARENT: cause.traceparent})
                metrics.PUBLISH_TO_CALLBACK_SECONDS.labels(cause.answer).observe(took_s, exemplar)

    def _messages_of(
        self,
        entry: LogEntry,
        questions: list[tuple[LogEntry, Question]],
        causes: Sequence[Cause],
        spans: ExitStack,
    ) -> list[Outgoing]:
        """The callbacks of a commit that are not published. Its questions are added to `questions`."""
        after_fact = self._published.fact if entry.seq == self._published.commit.seq else -1
        asked: list[Question] = []
        callbacks = list(callbacks_of(entry.commit, self._rm_id, self._payload_limit, after_fact, asked))
        questions.extend((entry, question) for question in asked)
        if not callbacks:
            return []
        headers = {**entry.position.headers(), **self._traced(entry, causes, spans)}
        messages: list[Outgoing] = []
        for callback in callbacks:
            messages.append(self._message(entry, callback, headers))
            self._prepared = PublishedPosition(entry.position, callback.last_fact)
        return messages

    def _traced(self, entry: LogEntry, causes: Sequence[Cause], spans: ExitStack) -> Headers:
        """Begin the span of a commit's callbacks. The trace of a commit is that of its first request, so the span links
        to those of other asks with an allocation in it, and each of these traces has a span that links back."""
        reasons: dict[str, list[str]] = {}  # why asks wait, by trace
        for cause in causes if tracing.enabled() else ():
            if cause.traceparent:
                reasons.setdefault(cause.traceparent, []).extend([cause.reason] if cause.reason else [])
        own = trace_of(entry.headers.get(subjects.TRACEPARENT, ""))
        others = [one for one in reasons if trace_of(one) != own][: limits.LINKED_TRACES]
        about: dict[str, object] = {"rm": self._rm_id, "log_seq": entry.seq}
        waits = _waits(chain.from_iterable(reasons.values()))
        span = tracing.span("rmproxy.callback", entry.headers, others, **about, **waits)
        headers = spans.enter_context(span).headers()
        for other in others:
            answer = tracing.span("rmproxy.answer", other, [headers], **about, **_waits(reasons[other]))
            spans.enter_context(answer)
        return headers

    def _message(self, entry: LogEntry, callback: Callback, headers: dict[str, str]) -> Outgoing:
        return Outgoing(
            subjects.callback(self._rm_id, callback.kind),
            callback.payload,
            {
                **headers,
                subjects.LOG_FACT: str(callback.last_fact),
                subjects.AFTER: str(self._prepared),
                # The hash, because a log that has lost its end gives the same sequences to other commits.
                subjects.MSG_ID: f"{self._rm_id}.{entry.position.hash.hex()}.{callback.last_fact}",
            },
        )

    async def _append(self, batch: Sequence[Outgoing]) -> None:
        await self._window.wait_for_room(len(batch))
        callback_seq = await self._bus.append_all(batch, limits.APPEND_TIMEOUT_S)
        self._published = position_in(batch[-1].headers, callback_seq)
        metrics.CALLBACKS.labels(rm_label(self._rm_id)).inc(len(batch))
        self._window.record(callback_seq, sum(len(message.payload) for message in batch))
        self._on_published()


def _waits(reasons: Iterable[str]) -> dict[str, str]:
    """The attribute of a span that says why asks wait: the first reasons, each once."""
    found = list(dict.fromkeys(reasons))[: limits.TRACED_REASONS]
    return {"waits": "; ".join(found)} if found else {}


def trace_of(traceparent: str) -> str:
    """Returns the version and the trace ID of a `traceparent`."""
    return traceparent[:35]


def correlated_decisions(commit: log_pb2.Commit) -> Iterator[tuple[int, log_pb2.Decision]]:
    """Yields the decisions that answer a request, each with the index of its first fact in the commit."""
    first_fact = 0
    for decision in commit.decisions:
        if decision.correlation_id:
            yield first_fact, decision
        first_fact += len(decision.facts)


def changes_session(decision: log_pb2.Decision) -> bool:
    """Returns whether the decision begins or ends a registration."""
    return any(fact.HasField("rm_registered") or fact.HasField("rm_stopped") for fact in decision.facts)


def split_at_fact(messages: Sequence[Outgoing], fact: int) -> tuple[list[Outgoing], list[Outgoing]]:
    """Splits the callbacks of a commit into those about earlier facts, and those about `fact` and later facts."""
    before = [message for message in messages if int(message.headers[subjects.LOG_FACT]) < fact]
    return before, list(messages[len(before) :])


class AcknowledgementWindow:
    """Bounds the callbacks that one RM has not acknowledged. While `is_unthrottled()`, nothing waits.

    Further callbacks wait in the log of the RM, and not in the stream CALLBACKS, where all RMs need room.
    """

    def __init__(self, bus: Bus, rm_id: str, is_unthrottled: Callable[[], bool]) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._is_unthrottled = is_unthrottled
        self._published_since_check = limits.ACKNOWLEDGED_CHECK_MESSAGES  # the first batch is checked
        # Batches that may not be acknowledged: the sequence of the last callback, and bytes.
        self._batches: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def record(self, callback_seq: int, size: int) -> None:
        """Records a batch of `size` bytes; its last callback has this sequence."""
        self._batches.append((callback_seq, size))
        self._bytes += size

    async def wait_for_room(self, messages: int) -> None:
        """Returns when so many more callbacks may be published. Raises BusError."""
        self._published_since_check += messages
        is_check_due = self._published_since_check >= limits.ACKNOWLEDGED_CHECK_MESSAGES
        if not is_check_due and self._bytes < limits.UNACKNOWLEDGED_BYTES:
            return
        backoff: Backoff | None = None
        began = asyncio.get_running_loop().time()
        while not self._is_unthrottled() and (unacknowledged := await self._excess()):
            if backoff is None:
                log.warning("callbacks wait until the RM acknowledges", rm=self._rm_id, unacknowledged=unacknowledged)
                backoff = Backoff(limits.ACKNOWLEDGED_CHECK)
            await backoff.pause()
        if backoff is not None:
            waited_s = asyncio.get_running_loop().time() - began
            metrics.THROTTLED_SECONDS.labels(rm_label(self._rm_id)).inc(waited_s)
        self._published_since_check = 0

    async def _excess(self) -> int:
        """The number of callbacks that the RM has not acknowledged; 0 while there is room."""
        state = await self._bus.consumer_state(subjects.CALLBACKS.name, subjects.callback_consumer(self._rm_id))
        while self._batches and (state is None or self._batches[0][0] <= state.acknowledged):
            self._bytes -= self._batches.popleft()[1]
        metrics.UNACKNOWLEDGED.labels(rm_label(self._rm_id)).set(0 if state is None else state.waiting)
        if state is None:
            return 0
        is_full = state.waiting > limits.UNACKNOWLEDGED_MESSAGES or self._bytes >= limits.UNACKNOWLEDGED_BYTES
        return state.waiting if is_full else 0


DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class PublishedPosition:
    """The position of the newest callback of an RM that comes from the log: publishing resumes behind it.

    `commit` and `fact` (its index in the commit): the last fact of the callback. `callback_seq`: the sequence of the
    callback in CALLBACKS. The default: nothing has been published. The headers of the callback hold the position, so
    there is no second record of it that could disagree with the callbacks.
    """

    commit: Position = START
    fact: int = -1
    callback_seq: int = 0

    def __str__(self) -> str:
        return f"{self.commit.seq}.{self.fact}"


def position_in(headers: Headers, callback_seq: int) -> PublishedPosition:
    """Reads the position from the headers of a callback. Raises Malformed."""
    return PublishedPosition(Position.of(headers), number_in(headers, subjects.LOG_FACT), callback_seq)


async def read_published_position(bus: Bus, rm_id: str) -> PublishedPosition:
    """Reads the position of the newest callback of the RM. Raises HistoryChanged when the newest callback was not
    written by rmproxy: where to resume is not known then.
    """
    newest = await asyncio.gather(
        *(bus.last_message(subjects.CALLBACKS.name, subjects.callback(rm_id, kind)) for kind in subjects.CALLBACK_KINDS)
    )
    position = _newest_position(message for message in newest if message is not None)
    dead_letter = newest[subjects.CALLBACK_KINDS.index(DEAD_LETTER)]
    if dead_letter is None or subjects.LOG_SEQ in dead_letter.headers or dead_letter.seq < position.callback_seq:
        return position
    behind = _newest_position(await _dead_letters(bus, rm_id, position.callback_seq, dead_letter.seq))
    return behind if behind.callback_seq else position


def _newest_position(callbacks: Iterable[Message]) -> PublishedPosition:
    """Callbacks that do not come from the log hold no position. Raises HistoryChanged."""
    try:
        positions = [
            position_in(message.headers, message.seq) for message in callbacks if subjects.LOG_SEQ in message.headers
        ]
    except Malformed as problem:
        raise HistoryChanged(f"the newest callback is none of ours: {problem}") from None
    return max(positions, key=lambda one: (one.commit.seq, one.fact), default=PublishedPosition())


async def _dead_letters(bus: Bus, rm_id: str, after: int, last: int) -> list[Message]:
    """Callbacks about dead letters come from the log, when the core has refused a configuration, or from the forwarder
    of requests. So one without a position may be behind one with it. The CALLBACKS sequences are `after`, exclusive,
    to `last`. Raises Unanswered."""
    reader = await bus.read(subjects.CALLBACKS.name, subjects.callback(rm_id, DEAD_LETTER), after)
    found: list[Message] = []
    try:
        while not found or found[-1].seq < last:
            batch = await reader.batch(timeout_s=limits.DEAD_LETTER_CALLBACKS_READ_WITHIN_S)
            if not batch:
                raise Unanswered(f"no callback {last} of {rm_id!r} in {subjects.CALLBACKS.name}")
            found += batch
    finally:
        await reader.close()
    return found
