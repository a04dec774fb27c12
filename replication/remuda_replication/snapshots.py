"""Snapshots of one RM: written by its leader into an object bucket, and restored by a starting process.

After a snapshot the leader trims the log and the inbox. A message is deleted when no reader needs it any more: it is
older than the replay horizon, the oldest snapshot kept was taken behind it, and what is derived from it has been
published. A trimmed log begins with the first part of a commit in force, because readers without a position begin
there.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged, Message, Refused, Unanswered
from remuda_bus.metrics import rm_label
from remuda_bus.status_codes import UNAVAILABLE
from remuda_replication.child import Child, ChildFailed, InProcess, Work
from remuda_replication.log import Position, first_parent, first_part
from remuda_replication.machine import Machine
from remuda_replication.settings import ReplicationSettings

# Or after so many bytes of the inbox, even without facts. INBOX holds the messages since the older of two snapshots:
# some 500 MB of its 8 GiB for an RM that sends as fast as it can. Such snapshots are written nearly at once. While one
# is written, which may take long, the leader reads no more than so many bytes.
SNAPSHOT_INBOX_BYTES = 128_000_000
SNAPSHOT_INBOX_APART_S = 1.0
READ_WHILE_WRITING_BYTES = 512_000_000
# Bytes of a message in a stream besides its payload: subject, headers, framing.
AROUND_MESSAGE_BYTES = 200
# The shortest wait: clocks round to this.
CLOCK_S = 0.001
# A state with so few objects is encoded in 2 ms, less than a fork of a large process takes.
SNAPSHOT_HERE = 300
# How long a listing of all snapshots is used: a process that starts with thousands of RMs needs it for each.
LISTING_KEPT_S = 10.0
# An idle leader checks so often whether the snapshot in work is written.
SNAPSHOT_LOOK_S = 1.0
# Digests at the same time: each takes a fork and a second of a processor.
DIGESTS_AT_ONCE = 2
# Snapshots kept per RM: the newest, and the one before in case the newest is unreadable.
SNAPSHOTS_KEPT = 2
# A stream fuller than this part is trimmed regardless of the replay horizon, because a full stream stops its RMs.
TRIMMED_FROM = 0.5

log = structlog.get_logger()

Source = Child | InProcess
_ENDED: Final = "this process does not lead any more, try again"


class Snapshots:
    """The snapshots and digests that a leader takes. Between commits the leader calls `wanted`, and if that is true,
    `take`. `stopped_s`: the duration of the last fork. `wake` is called when a digest is wanted."""

    def __init__(
        self,
        bus: Bus,
        machine: Machine,
        settings: ReplicationSettings,
        facts: int = 0,
        listing: SnapshotListing | None = None,
    ) -> None:
        """`facts`: the number of facts replayed since the last snapshot."""
        self._listing = listing or SnapshotListing(bus)
        self._kept: list[int] | None = None  # only the leader writes and deletes snapshots
        # Spreads the first snapshots when a process takes over thousands of RMs at the same time.
        self._later_s = settings.snapshot_s * fraction(machine.log_id) if facts else 0.0
        self._bus = bus
        self._machine = machine
        self._settings = settings
        self._facts = facts
        self._inbox_bytes = 0  # bytes read since the last snapshot
        self._taken_at = asyncio.get_running_loop().time()
        self._writing: asyncio.Task[None] | None = None
        self.stopped_s = 0.0
        self._asked = 0  # digests in work or queued
        self._digests: list[asyncio.Future[tuple[int, Source]]] = []
        self._closed = False
        self.wake: Callable[[], None] = lambda: None

    def idle_s(self) -> float | None:
        """The time for which no snapshot is due unless something happens, in s; None: no limit."""
        if not (self._facts or self._inbox_is_large):
            return None
        writing = self._writing is not None and not self._writing.done()
        age_s, settings = asyncio.get_running_loop().time() - self._taken_at, self._settings
        due_s = 0.0 if self._facts >= settings.snapshot_facts else settings.snapshot_s + self._later_s
        due_s = SNAPSHOT_INBOX_APART_S if self._inbox_is_large else max(due_s, settings.snapshot_apart_s)
        left_s = due_s - age_s
        return max(left_s, SNAPSHOT_LOOK_S if writing else CLOCK_S)

    def count(self, facts: int) -> None:
        """Count facts of a commit."""
        self._facts += facts

    def count_inbox(self, messages: Iterable[Message]) -> None:
        """Count messages read from the inbox."""
        self._inbox_bytes += sum(len(message.payload) + AROUND_MESSAGE_BYTES for message in messages)

    @property
    def _inbox_is_large(self) -> bool:
        return self._inbox_bytes >= SNAPSHOT_INBOX_BYTES

    async def room(self) -> None:
        """Return when the inbox may be read: no snapshot is being written, or little was read since it was started."""
        if self._writing is not None and self._inbox_bytes >= READ_WHILE_WRITING_BYTES:
            await asyncio.wait([self._writing])

    def wanted(self) -> bool:
        """Whether a snapshot is due or a digest was requested."""
        return bool(self._digests) or self._due()

    def take(self, position: Position) -> None:
        """Take the snapshot that is due and the digests that were requested, of the state at the commit `position`.
        Blocks for the duration of a fork."""
        digests, self._digests = self._digests, []
        try:
            for wanted in digests:
                self._take_digest(position, wanted)
            if self._due():
                self._taken_at = asyncio.get_running_loop().time()
                self._take_snapshot(position)
        except OSError as error:  # no memory or no process is left for a child
            log.error("fork failed", rm=self._machine.log_id, error=repr(error))
            _refuse(digests, f"fork failed: {error}")

    def _take_digest(self, position: Position, wanted: asyncio.Future[tuple[int, Source]]) -> None:
        if not wanted.done():
            wanted.set_result((position.seq, self._beside(lambda: [self._machine.digest()])))

    def _take_snapshot(self, position: Position) -> None:
        source = self._beside(lambda: self._machine.save(position))
        counted = (self._facts, self._inbox_bytes)
        self._facts, self._inbox_bytes, self._later_s = 0, 0, 0.0
        self._writing = asyncio.create_task(self._write(position, counted, source))

    async def digest(self) -> tuple[int, str]:
        """The sequence of a durable commit and the digest of its state (SHA-256, hexadecimal). Raises Refused."""
        if self._closed:
            raise Refused(_ENDED, UNAVAILABLE)
        if self._asked >= DIGESTS_AT_ONCE:
            raise Refused(f"{self._asked} digests are being made, try again", UNAVAILABLE)
        self._asked += 1
        try:
            wanted: asyncio.Future[tuple[int, Source]] = asyncio.get_running_loop().create_future()
            self._digests.append(wanted)
            self.wake()
            seq, source = await wanted
            try:
                return seq, b"".join([part async for part in source.output()]).decode()
            finally:
                await source.close()
        finally:
            self._asked -= 1

    async def close(self) -> None:
        """Give up the snapshot that is being written, and refuse queued digests and later ones."""
        self._closed = True
        _refuse(self._digests, _ENDED)
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _due(self) -> bool:
        if self._writing is not None:
            if not self._writing.done():
                return False
            self._writing.result()  # raises the exception of a bug
        age_s, settings = asyncio.get_running_loop().time() - self._taken_at, self._settings
        if self._inbox_is_large:
            return age_s >= SNAPSHOT_INBOX_APART_S
        if not self._facts:
            return False
        if self._facts < settings.snapshot_facts and age_s < settings.snapshot_s + self._later_s:
            return False
        return age_s >= settings.snapshot_apart_s

    def _beside(self, work: Work) -> Source:
        started = time.perf_counter()
        small = self._machine.size() <= SNAPSHOT_HERE
        source = Child(work) if self._settings.snapshot_in_child and not small else InProcess(work)
        self.stopped_s = time.perf_counter() - started
        return source

    async def _write(self, position: Position, counted: tuple[int, int], source: Source) -> None:
        """Write a snapshot, delete old ones, and trim. After a failure the next attempt is made when a snapshot is due.
        `counted`: facts and inbox bytes since the snapshot before."""
        rm_id, (facts, inbox_bytes) = self._machine.log_id, counted
        stopped_ms, started = round(self.stopped_s * 1_000, 1), asyncio.get_running_loop().time()
        try:
            await self._bus.put_object(subjects.snapshots_of(rm_id), name_of(rm_id, position.seq), source.output())
            seconds = round(asyncio.get_running_loop().time() - started, 3)
            self._machine.metrics.snapshots.labels(rm_label(rm_id)).inc()
            self._machine.metrics.snapshot_stopped_seconds.observe(stopped_ms / 1_000)
            log.info("snapshot", rm=rm_id, log_seq=position.seq, facts=facts, stopped_ms=stopped_ms, seconds=seconds)
        except (BusError, ChildFailed, OSError) as error:
            self._facts += facts
            self._inbox_bytes += inbox_bytes
            log.error("snapshot not written", rm=rm_id, log_seq=position.seq, error=repr(error))
        else:
            await self._tidy(rm_id, position, inbox_bytes >= SNAPSHOT_INBOX_BYTES)
        finally:
            await source.close()

    async def _tidy(self, rm_id: str, position: Position, inbox_is_large: bool) -> None:
        """Delete old snapshots and trim. After a failure, the rest is deleted after the next snapshot."""
        try:
            if self._kept is None:
                self._kept = await self._listing.kept(rm_id)
            seqs = self._kept = sorted({*self._kept, position.seq})
            for seq in seqs[:-SNAPSHOTS_KEPT]:
                await self._bus.delete_object(subjects.snapshots_of(rm_id), name_of(rm_id, seq))
                self._kept = [one for one in self._kept if one != seq]
            if len(seqs) >= SNAPSHOTS_KEPT:
                await trim(
                    self._bus,
                    self._machine,
                    seqs[-SNAPSHOTS_KEPT],
                    self._settings.replay_horizon_s,
                    inbox_is_large,
                )
        except BusError as error:
            log.error("trimming failed", rm=rm_id, error=repr(error))


def _refuse(digests: list[asyncio.Future[tuple[int, Source]]], reason: str) -> None:
    for wanted in digests:
        if not wanted.done():
            wanted.set_exception(Refused(reason, UNAVAILABLE))


def fraction(rm_id: str) -> float:
    """A number from 0 to 1 that is derived from the rmID."""
    return int.from_bytes(hashlib.blake2b(rm_id.encode(), digest_size=4).digest(), "big") / 2**32


async def trim(bus: Bus, machine: Machine, snapshot_seq: int, horizon_s: float, inbox_is_large: bool = False) -> None:
    """Delete what no reader needs. `snapshot_seq`: the stream sequence of the commit at which the oldest snapshot was
    taken. `horizon_s`: the replay horizon; ignored for a stream that is too full, and for the inbox when
    `inbox_is_large`. Raises LogTrimmed when another process trims at the same time."""
    rm_id = machine.log_id
    first = await bus.first_message(subjects.log_stream(rm_id), subjects.log(rm_id))
    if first is None:
        return
    beyond_horizon = await _last_commit_beyond_horizon(bus, rm_id, horizon_s, snapshot_seq)
    inbox_up_to = (
        snapshot_seq if inbox_is_large or await _is_too_full(bus, subjects.inbox_stream(rm_id)) else beyond_horizon
    )
    if inbox_up_to >= first.seq:
        _, commit = await first_part(bus, rm_id, inbox_up_to)
        await bus.trim(subjects.inbox_stream(rm_id), subjects.inbox(rm_id), commit.inbox_seq)
    log_up_to = min(await machine.published_up_to(bus, snapshot_seq), snapshot_seq)
    if not await _is_too_full(bus, subjects.log_stream(rm_id)):
        log_up_to = min(log_up_to, beyond_horizon)
    if log_up_to >= first.seq:
        seq, _ = await first_part(bus, rm_id, log_up_to)
        await bus.trim(subjects.log_stream(rm_id), subjects.log(rm_id), seq)
        log.debug("trimmed", rm=rm_id, log_seq=seq)


async def _is_too_full(bus: Bus, stream: str) -> bool:
    """The replay horizon does not hold for the stream."""
    return await bus.fullness(stream) >= TRIMMED_FROM


async def _last_commit_beyond_horizon(bus: Bus, rm_id: str, horizon_s: float, newest: int) -> int:
    """The stream sequence of the last commit in force that is older than the horizon, `newest` at most. 0: there is
    none."""
    younger = await bus.first_sequence_since(subjects.log_stream(rm_id), subjects.log(rm_id), horizon_s)
    if younger is None or younger > newest:
        return newest
    _, commit = await first_part(bus, rm_id, younger)
    return commit.parent  # in force, because a later commit has it as its parent


class SnapshotListing:
    """The sequences of the snapshots of all RMs. A process has one listing, because a bucket is listed as a whole, and
    all logs of a process have their snapshots in one bucket."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._listing: asyncio.Future[dict[str, list[int]]] | None = None
        self._listed_at = 0.0

    async def kept(self, rm_id: str, *, fresh: bool = False) -> list[int]:
        """The sequences of the snapshots of the RM, in order, at most LISTING_KEPT_S old; `fresh`: listed now."""
        listing = self._listing
        if listing is None or fresh or (listing.done() and self._is_old(listing)):
            self._listed_at = asyncio.get_running_loop().time()
            listing = self._listing = asyncio.ensure_future(self._list(subjects.snapshots_of(rm_id)))
        return list((await asyncio.shield(listing)).get(_owner(rm_id), ()))

    def _is_old(self, listing: asyncio.Future[dict[str, list[int]]]) -> bool:
        age_s = asyncio.get_running_loop().time() - self._listed_at
        return listing.exception() is not None or age_s >= LISTING_KEPT_S

    async def _list(self, bucket: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name in await self._bus.object_names(bucket):
            key, _, seq = name.rpartition(".")
            if seq.isdecimal():
                found.setdefault(key, []).append(int(seq))
        return {key: sorted(seqs) for key, seqs in found.items()}


async def restore(bus: Bus, machine: Machine, listing: SnapshotListing | None = None) -> Position:
    """Restore the newest readable snapshot into the machine. Returns its position; Position() without any. Raises
    HistoryChanged when the log was trimmed beyond that position."""
    rm_id, listing = machine.log_id, listing or SnapshotListing(bus)
    seqs = await listing.kept(rm_id)
    while True:
        position = await _newest(bus, machine, seqs)
        parent = await first_parent(bus, rm_id)
        if parent <= position.seq:
            return position
        before, seqs = seqs, await listing.kept(rm_id, fresh=True)
        if seqs == before:  # else the leader has written a newer one, and trimmed the log
            raise HistoryChanged(
                f"{subjects.log(rm_id)} begins behind {parent}, and there is no snapshot from which to continue"
            )


async def _newest(bus: Bus, machine: Machine, seqs: list[int]) -> Position:
    for seq in reversed(seqs):
        if (position := await _restore(bus, machine, name_of(machine.log_id, seq))) is not None:
            return position
    machine.begin()
    return Position()


async def _restore(bus: Bus, machine: Machine, name: str) -> Position | None:
    """Restore one snapshot. None: it was deleted, or is unreadable."""
    rm_id, started = machine.log_id, time.perf_counter()
    try:
        payload = await bus.get_object(subjects.snapshots_of(rm_id), name)
        if payload is None:
            return None
        position = await machine.restore(payload)
    except Unanswered:
        raise
    except Exception as error:  # noqa: BLE001 - the snapshot before may be readable
        log.error("unreadable snapshot, trying the one before", rm=rm_id, snapshot=name, error=repr(error))
        return None
    seconds = round(time.perf_counter() - started, 3)
    log.info("restored", rm=rm_id, snapshot=name, bytes=len(payload), seconds=seconds)
    return position


def name_of(rm_id: str, seq: int | str) -> str:
    """The name of the snapshot that was taken at the commit with this sequence."""
    return f"{_owner(rm_id)}.{seq}"


def _owner(rm_id: str) -> str:
    """The owner of the snapshots of a log. It has no '.'."""
    return subjects.key_of(rm_id).replace(".", "/")
