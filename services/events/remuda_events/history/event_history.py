"""The event history of one RM in the stream EVENTS. Each record is written exactly once.

The headers of a record name its commit and its index among the records of that commit, so the newest record says where
to resume. Each append expects the record that it follows. The server refuses it when another record is the newest: from
another process that believes in its lease, or from an earlier append of unknown fate. (docs/adr/events-and-stories.md)
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Full, HistoryChanged, LogTrimmed, Message, Outgoing, Refused, Unreadable
from remuda_bus.metrics import rm_label
from remuda_bus.retry import pause
from remuda_events import limits, metrics
from remuda_events.event_records import event_records_of
from remuda_replication.log import START, LogEntry, LogReader, Position, check_commit, check_retained

log = structlog.get_logger()


class EndMoved(BusError):
    """Another record than the expected one is the newest. Open the history again."""


@dataclass(frozen=True, slots=True)
class End:
    """The newest record. `event_seq`: its sequence in EVENTS; 0: there is none. `written`: how many records of its
    commit are written."""

    event_seq: int = 0
    commit: Position = START
    written: int = 0


class EventHistory:
    """Continues behind `end`. `complete`: the last commit whose records are all written; None: not known, the whole log
    is read."""

    def __init__(self, bus: Bus, rm_id: str, end: End, complete: Position | None) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._subject = subjects.event(rm_id)
        self._end = end
        self._last_seq = end.event_seq
        self._batch = limits.BATCH_RECORDS
        self._bookmarked: Position | None = None
        self.complete = complete
        self.log_seq = 0  # of the commit whose records are being written

    @classmethod
    async def open(cls, bus: Bus, rm_id: str, complete: Position | None = None) -> EventHistory:
        """`complete`: a commit up to which the caller knows all records to be written. Raises BusError."""
        write_bookmark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
        if write_bookmark is not None and write_bookmark.value is not None:
            complete = max(complete or START, decode_bookmark(write_bookmark.value), key=lambda position: position.seq)
        return cls(bus, rm_id, end_of(await bus.last_message(subjects.EVENTS.name, subjects.event(rm_id))), complete)

    async def open_log(self) -> LogReader:
        """A reader of the commits without records, including one with some of its records. Raises BusError,
        HistoryChanged."""
        try:
            return await self._open_log()
        except LogTrimmed as error:  # trimming keeps the newest commit with records
            now = await EventHistory.open(self._bus, self._rm_id, self.complete)
            if (now._end, now.complete) != (self._end, self.complete):
                raise  # another process has written more records meanwhile
            raise HistoryChanged(f"{error}: nothing behind it is in the event history") from None

    async def _open_log(self) -> LogReader:
        complete = self.complete or START
        if self._end.commit.seq > complete.seq:
            await check_commit(self._bus, self._rm_id, complete)
            return await LogReader.open(self._bus, self._rm_id, self._end.commit, inclusive=True)
        await check_retained(self._bus, self._rm_id, complete)
        return await LogReader.open(self._bus, self._rm_id, complete if complete.seq else None)

    async def append_events(self, entries: Sequence[LogEntry]) -> None:
        """Append the records of these commits, which follow `complete`. Raises EndMoved, and another
        BusError when the fate of an append is unknown."""
        waiting: list[Outgoing] = []
        for entry in entries:
            self.log_seq = entry.seq
            waiting.extend(self._records(entry))
            while len(waiting) >= limits.BATCH_RECORDS:
                await self._append(waiting[: limits.BATCH_RECORDS])
                del waiting[: limits.BATCH_RECORDS]
        if waiting:
            await self._append(waiting)
        self.complete = entries[-1].position
        metrics.LAG_SECONDS.labels(rm_label(self._rm_id)).set(max(0.0, time.time() - entries[-1].commit.now_ms / 1_000))

    async def write_bookmark(self) -> None:
        """Store the last complete commit, because EVENTS may delete all records of this RM as too old."""
        complete = self.complete
        if complete is not None and self._bookmarked != complete:
            write_bookmark = json.dumps({"seq": complete.seq, "hash": complete.hash.hex()}).encode()
            await self._bus.put(subjects.EVENT_BOOKMARKS.name, subjects.key_of(self._rm_id), write_bookmark)
            self._bookmarked = complete

    def _records(self, entry: LogEntry) -> Iterator[Outgoing]:
        """The records of a commit that are not written yet."""
        written = self._end.written if entry.seq == self._end.commit.seq else 0
        headers = entry.position.headers()
        if traceparent := entry.headers.get(subjects.TRACEPARENT):
            headers[subjects.TRACEPARENT] = traceparent
        for index, payload in enumerate(event_records_of(entry.commit)):
            if index >= written:
                yield Outgoing(self._subject, payload, {**headers, subjects.EVENT_INDEX: str(index)})

    async def _append(self, records: list[Outgoing]) -> None:
        written = 0
        while written < len(records):
            batch = records[written : written + self._batch]
            expectation = {subjects.EXPECTED_LAST: str(self._last_seq)}
            batch[0] = Outgoing(self._subject, batch[0].payload, {**batch[0].headers, **expectation})
            try:
                self._last_seq = await self._bus.append_all(batch, limits.BATCH_TIMEOUT_S)
            except Refused as refusal:
                await self._shrink_batch(len(batch), refusal)
            except Full as error:
                log.warning("the stream of events is full, waiting", rm=self._rm_id, error=str(error))
                await pause(limits.FULL_RETRY)
            else:
                written += len(batch)
                metrics.RECORDS.labels(rm_label(self._rm_id)).inc(len(batch))

    async def _shrink_batch(self, records: int, refusal: Refused) -> None:
        """Halve the size of batches after a refusal, unless the refusal has another reason than the size."""
        end = end_of(await self._bus.last_message(subjects.EVENTS.name, self._subject))
        if end.event_seq != self._last_seq:
            raise EndMoved(f"{self._subject} ends at {end.event_seq}, not at {self._last_seq}") from refusal
        if records == 1:
            raise refusal
        self._batch = records // 2
        log.warning("a batch of events is refused, trying less", rm=self._rm_id, records=records, error=str(refusal))


def end_of(last: Message | None) -> End:
    """The end that the newest record states. Raises Unreadable when this service did not write it."""
    if last is None:
        return End()
    try:
        return End(last.seq, Position.of(last.headers), int(last.headers[subjects.EVENT_INDEX]) + 1)
    except (KeyError, ValueError):
        raise Unreadable(
            f"the message at {last.seq} on {last.subject} has no {subjects.LOG_SEQ} and {subjects.EVENT_INDEX}: "
            "another client publishes there, and where to resume is not known"
        ) from None


def decode_bookmark(value: bytes) -> Position:
    write_bookmark = json.loads(value)
    return Position(write_bookmark["seq"], bytes.fromhex(write_bookmark["hash"]))
