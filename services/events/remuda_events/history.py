"""The event history of one RM in the stream EVENTS: where it ends, and how it goes on with nothing twice or left out.

Every record says of which commit it tells and which of its records it is, so the end of the history tells where to go
on. Every append names the record it follows and is refused when the history has gone on otherwise: by another instance
that believes in its lease, or by an earlier append whose fate was not known. Knows nothing of leases and of other RMs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Full, Message, Outgoing, Refused, Unreadable
from remuda_bus.log import START, LogEntry, LogReader, Position, check_commit
from remuda_events import limits
from remuda_events.narrate import narrate

log = structlog.get_logger()


class GoneOn(BusError):
    """The history does not end where it was left. Open it again."""


@dataclass(frozen=True, slots=True)
class End:
    """The last record: `event_seq` in EVENTS, 0 if there is none; of its commit, `told` records are written."""

    event_seq: int = 0
    commit: Position = START
    told: int = 0


class History:
    """Goes on after `end`; `complete` is the last commit of which all is told, None: the log begins with news."""

    def __init__(self, bus: Bus, rm_id: str, end: End, complete: Position | None) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._subject = subjects.event(rm_id)
        self._end = end
        self._last_seq = end.event_seq
        self._batch = limits.BATCH_RECORDS
        self._marked: Position | None = None
        self.complete = complete

    @classmethod
    async def open(cls, bus: Bus, rm_id: str, complete: Position | None = None) -> History:
        """`complete`: the caller knows that all is told up to that commit. Raises BusError."""
        mark = await bus.get(subjects.EVENT_BOOKMARKS.name, subjects.key_of(rm_id))
        if mark is not None and mark.value is not None:
            complete = max(complete or START, read_mark(mark.value), key=lambda position: position.seq)
        return cls(bus, rm_id, end_of(await bus.last(subjects.EVENTS.name, subjects.event(rm_id))), complete)

    async def read(self) -> LogReader:
        """What is not told yet, a commit that is told in part included. Raises BusError, ChangedPast."""
        complete = self.complete or START
        if complete.seq:
            await check_commit(self._bus, self._rm_id, complete)
        if self._end.commit.seq > complete.seq:
            return await LogReader.open(self._bus, self._rm_id, self._end.commit, again=True)
        return await LogReader.open(self._bus, self._rm_id, complete if complete.seq else None)

    async def tell(self, entries: Sequence[LogEntry]) -> None:
        """Append the records of these commits, which follow `complete`. Raises GoneOn, and BusError when nobody
        knows what was appended."""
        waiting: list[Outgoing] = []
        for entry in entries:
            waiting.extend(self._records(entry))
            while len(waiting) >= limits.BATCH_RECORDS:
                await self._append(waiting[: limits.BATCH_RECORDS])
                del waiting[: limits.BATCH_RECORDS]
        if waiting:
            await self._append(waiting)
        self.complete = entries[-1].position

    async def mark(self) -> None:
        """Note how far all is told, for the day when EVENTS keeps no record of this RM any more."""
        complete = self.complete
        if complete is not None and self._marked != complete:
            mark = json.dumps({"seq": complete.seq, "hash": complete.hash.hex()}).encode()
            await self._bus.put(subjects.EVENT_BOOKMARKS.name, subjects.key_of(self._rm_id), mark)
            self._marked = complete

    def _records(self, entry: LogEntry) -> Iterator[Outgoing]:
        """Those that are not written yet."""
        told = self._end.told if entry.seq == self._end.commit.seq else 0
        headers = entry.position.headers()
        if traceparent := entry.headers.get(subjects.TRACEPARENT):
            headers[subjects.TRACEPARENT] = traceparent
        for index, payload in enumerate(narrate(entry.commit)):
            if index >= told:
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
                await self._take_less(len(batch), refusal)
            except Full as error:
                log.warning("no room for events, waiting", rm=self._rm_id, error=str(error))
                await asyncio.sleep(limits.FULL_PAUSE_S)
            else:
                written += len(batch)

    async def _take_less(self, records: int, refusal: Refused) -> None:
        """After a refusal: half as many at once from now on, if it was for the number of them."""
        end = end_of(await self._bus.last(subjects.EVENTS.name, self._subject))
        if end.event_seq != self._last_seq:
            raise GoneOn(f"{self._subject} ends at {end.event_seq}, not at {self._last_seq}") from refusal
        if records == 1:
            raise refusal
        self._batch = records // 2
        log.warning("a batch of events was refused, trying less", rm=self._rm_id, records=records, error=str(refusal))


def end_of(last: Message | None) -> End:
    """What the last record says. Raises Unreadable when it is not one of ours."""
    if last is None:
        return End()
    try:
        return End(last.seq, Position.of(last.headers), int(last.headers[subjects.EVENT_INDEX]) + 1)
    except (KeyError, ValueError):
        raise Unreadable(
            f"the message at {last.seq} on {last.subject} has no {subjects.LOG_SEQ} and {subjects.EVENT_INDEX}: "
            "somebody else publishes there, and where to go on cannot be known"
        ) from None


def read_mark(value: bytes) -> Position:
    mark = json.loads(value)
    return Position(mark["seq"], bytes.fromhex(mark["hash"]))
