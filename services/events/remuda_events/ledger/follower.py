"""The ledger of one RM: follows its log, appends each closed hour to the stream LEDGER, and stores checkpoints.

An hour is appended before the checkpoint behind it is stored. After an interruption the same commits are followed again
from the checkpoint, and close the same hours; the server refuses those that it has. A bookmark names the checkpoint,
and the core does not trim the log beyond it. Two processes that both believe in their lease close equal hours, and the
revision of the bookmark lets one of them go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Outgoing, Refused, Unreadable
from remuda_bus.metrics import rm_label
from remuda_events import limits, metrics
from remuda_events.ledger import checkpoints
from remuda_events.ledger.projection import ClosedDay, ClosedHour, Projection
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark, bookmark_of
from remuda_operations.ledger.hours import HOUR_MS
from remuda_replication.log import START, LogEntry, LogReader, Position, first_parent
from remuda_replication.snapshots import SnapshotListing, name_of

log = structlog.get_logger()


class CheckpointMoved(BusError):
    """Another process has stored a checkpoint. Open the ledger again."""


class Ledger:
    """Continues behind `position`. `log_seq`: of the commit that is being followed."""

    def __init__(
        self, bus: Bus, rm_id: str, projection: Projection, position: Position, bookmark: Bookmark | None, revision: int
    ) -> None:
        self._bus = bus
        self._rm_id = rm_id
        self._projection = projection
        self._bookmark = bookmark
        self._revision = revision
        self._facts = 0  # since the last checkpoint
        self.position = position
        self.log_seq = position.seq

    @classmethod
    async def open(cls, bus: Bus, rm_id: str, listed_tags: Iterable[str], listing: SnapshotListing) -> Ledger:
        """Raises BusError."""
        bookmark, revision = await bookmark_of(bus, rm_id)
        tags = tuple(listed_tags)
        found = await read_checkpoint(bus, rm_id, bookmark, tags) if bookmark is not None else None
        projection, position = found or await _begun(bus, rm_id, tags, listing)
        is_rebuilt = bookmark is not None and bookmark.rebuilt
        if is_rebuilt:
            log.warning("the log begins anew, and the ledger goes on", rm=rm_id)
            projection.forget_state()
            position = START
        ledger = cls(bus, rm_id, projection, position, bookmark if found else None, revision)
        if found is None or is_rebuilt:  # from now on the log is kept
            await ledger.store_checkpoint()
        return ledger

    async def open_log(self, listing: SnapshotListing) -> LogReader:
        """A reader of the commits that are not followed yet. Where the log no longer holds them, the ledger goes on
        with what runs behind them. Raises BusError, HistoryChanged."""
        if await first_parent(self._bus, self._rm_id) > self.position.seq:
            log.error("the log was trimmed before it was in the ledger", rm=self._rm_id, log_seq=self.position.seq)
            await self._go_on_from(*await _begun(self._bus, self._rm_id, self._projection.listed_tags, listing))
        return await LogReader.open(self._bus, self._rm_id, self.position)

    async def _go_on_from(self, projection: Projection, position: Position) -> None:
        """Keep what was used up to the last commit that was followed, and continue from another one."""
        was = self._projection
        was.forget_state()
        for closed in was.advance(projection.at_ms):
            await self._append(closed)
        projection.begun_ms = was.begun_ms or projection.begun_ms
        projection.add_rows(was)
        self._projection, self.position = projection, position
        await self.store_checkpoint()

    async def follow(self, entries: Iterable[LogEntry]) -> None:
        """Follow commits behind `position`. Raises BusError."""
        closed_one = False
        for entry in entries:
            self.log_seq = entry.seq
            for closed in self._projection.apply(entry.commit):
                await self._append(closed)
                closed_one = True
            self._facts += sum(len(decision.facts) for decision in entry.commit.decisions)
            self.position = entry.position
        begun_one = self._bookmark is None or self._bookmark.begun_ms != self._projection.begun_ms
        if closed_one or begun_one or self._facts >= limits.LEDGER_FACTS_APART:
            await self.store_checkpoint()

    def closes_at_ms(self) -> int | None:
        """When the open hour is closed though no commit comes; None: nothing is in it."""
        projection = self._projection
        return projection.hour_ms + HOUR_MS + limits.LEDGER_CLOSES_AFTER_MS if projection.rows else None

    async def close_hour(self) -> None:
        """Close the open hour without a commit behind it."""
        for closed in self._projection.close_ahead():
            await self._append(closed)
        await self.store_checkpoint()

    async def _append(self, closed: ClosedHour | ClosedDay) -> None:
        """Append an hour or a day, unless the stream has it."""
        begin_ms = closed[0]
        if isinstance(closed, ClosedHour):
            subject = subjects.ledger(self._rm_id, begin_ms // HOUR_MS)
        else:
            subject = subjects.ledger_days(self._rm_id, begin_ms // (hours.HOURS_OF_DAY * HOUR_MS))
        messages = [Outgoing(subject, payload) for payload in hours.encode(begin_ms, closed.rows)]
        messages[0] = Outgoing(subject, messages[0].payload, {subjects.EXPECTED_LAST: "0"})
        try:
            await self._bus.append_all(messages, limits.BATCH_TIMEOUT_S)
        except Refused as refusal:
            last = await self._bus.last_message(subjects.LEDGER.name, subject)
            if last is None:
                raise
            if last.payload != messages[-1].payload:
                log.error("it is in the ledger already, and otherwise", rm=self._rm_id, subject=subject)
            log.debug("it is in the ledger already", rm=self._rm_id, subject=subject, error=str(refusal))
        else:
            metrics.LEDGER_HOURS.labels(rm_label(self._rm_id)).inc(isinstance(closed, ClosedHour))

    async def store_checkpoint(self) -> None:
        """Raises CheckpointMoved, BusError."""
        projection, bookmark = self._projection, self._bookmark
        before = 0
        if bookmark is not None:
            before = bookmark.before if bookmark.seq == self.position.seq else bookmark.seq
        made = Bookmark(self.position.seq, self.position.hash.hex(), projection.begun_ms, projection.hour_ms, before)
        payload = checkpoints.encode(projection, self.position)
        await self._bus.put_object(subjects.LEDGERS.name, name_of(self._rm_id, made.seq), _parts(payload))
        try:
            value = made.encode()
            self._revision = await self._bus.put(
                subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(self._rm_id), value, self._revision
            )
        except Refused as refusal:
            raise CheckpointMoved(f"the bookmark of the ledger of {self._rm_id!r} has moved") from refusal
        if bookmark is not None and bookmark.before not in (made.seq, made.before):
            await self._bus.delete_object(subjects.LEDGERS.name, name_of(self._rm_id, bookmark.before))
        self._bookmark, self._facts = made, 0


async def _parts(payload: bytes) -> AsyncIterator[bytes]:
    yield payload


async def read_checkpoint(
    bus: Bus, rm_id: str, bookmark: Bookmark, tags: tuple[str, ...]
) -> tuple[Projection, Position] | None:
    """The checkpoint of the bookmark, or the one before: an upload may be damaged by that of another process. None:
    neither can be read, and the ledger goes on from the log or a snapshot."""
    for seq in (bookmark.seq, bookmark.before):
        try:
            payload = await bus.get_object(subjects.LEDGERS.name, name_of(rm_id, seq))
            if payload is not None:
                return checkpoints.decode(payload, tags)
            log.error("a checkpoint of the ledger is missing", rm=rm_id, log_seq=seq)
        except (Unreadable, ValueError) as error:
            log.error("a checkpoint of the ledger is unreadable", rm=rm_id, log_seq=seq, error=str(error))
    return None


async def _begun(bus: Bus, rm_id: str, tags: tuple[str, ...], listing: SnapshotListing) -> tuple[Projection, Position]:
    """A ledger that begins with the log, or, where the begin of the log is gone, at the newest snapshot. Raises
    BusError."""
    if await first_parent(bus, rm_id) == 0:
        return Projection(tags), START
    for seq in reversed(await listing.kept(rm_id, fresh=True)):
        payload = await bus.get_object(subjects.SNAPSHOTS.name, name_of(rm_id, seq))
        if payload is None:
            continue
        try:
            return checkpoints.from_snapshot(payload, rm_id, tags)
        except ValueError as error:
            log.error("a snapshot is unreadable, trying the one before", rm=rm_id, log_seq=seq, error=str(error))
    raise Unreadable(f"the begin of the log of {rm_id!r} is gone, and there is no snapshot: its ledger cannot begin")


async def end_ledger(bus: Bus, rm_id: str) -> None:
    """End the ledger of an RM whose ledger is no longer kept: its closed hours stay, and its log is trimmed as if it
    had none."""
    bookmark, revision = await bookmark_of(bus, rm_id)
    if bookmark is None:
        return
    await bus.delete(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(rm_id), revision)
    for seq in {bookmark.seq, bookmark.before}:
        await bus.delete_object(subjects.LEDGERS.name, name_of(rm_id, seq))
