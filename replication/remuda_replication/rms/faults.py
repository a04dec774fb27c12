"""Faults: exceptions that are no outage, recorded by the message at which they were raised.

A fault that is raised again at the same message of the same RM will be raised whenever that message is handled. It
halts that RM alone: the message is kept, and the other RMs continue. `FAULTS_BEFORE_HALT` faults of one RM
within an hour, at any messages, halt it as well: each of them has ended a process that works for other RMs
(docs/adr/halts-and-faults.md)."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Entry
from remuda_bus.retry import retry
from remuda_proto.names import RM_ID
from remuda_replication.rms.halts import FAULT, RECORD_RETRY, Halts

# The text of a recorded exception, shown to operators. It may quote a request of an RM.
FAULT_CHARACTERS = 500
# Faults of one RM, at any messages, within the window that halt it. Each has ended a process, from which the other RMs
# need a second to recover.
FAULTS_BEFORE_HALT = 3
FAULTS_WINDOW_MS = 3_600_000

log = structlog.get_logger()

# The streams at whose messages faults are recorded: rmproxy reads REQUESTS and LOG, the core INBOX, the event service
# LOG, for events and for the ledger; rmproxy numbers questions to RMs; a core records the commit at which a process
# was killed, and the commit of a state that violates an invariant.
EVENTS_OF_LOG = "LOG-events"
LEDGER_OF_LOG = "LOG-ledger"
QUESTIONS = "questions"
KILLED = "KILLED"
AUDIT = "AUDIT"
STREAMS = (
    subjects.REQUESTS.name, subjects.INBOX.name, subjects.LOG.name, EVENTS_OF_LOG, LEDGER_OF_LOG, QUESTIONS, KILLED,
    AUDIT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception raised while the message at `seq` of `stream` was handled for the RM. `by`: the name of the process.
    `at_ms`: when, ms since 1970. `before_ms`: the times of the faults before it within the last hour."""

    rm_id: str
    stream: str
    seq: int
    error: str
    by: str
    at_ms: int
    before_ms: tuple[int, ...] = ()

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Fault:
        fields = {"before_ms": (), **json.loads(value)}
        fields["before_ms"] = tuple(fields["before_ms"])
        return cls(**{name: fields[name] for name in cls.__slots__})

    def explanation(self) -> str:
        """The fault for people: the message and the error."""
        return f"message {self.seq} of {self.stream}: {self.error}"


class Faults:
    """Records the faults that this process meets. `by`: the name of this process."""

    def __init__(self, bus: Bus, halts: Halts, by: str, clock_ms: Callable[[], int]) -> None:
        self._bus = bus
        self._halts = halts
        self._by = by
        self._clock_ms = clock_ms

    async def record(self, rm_id: str, stream: str, seq: int, error: Exception) -> bool:
        """Record a fault. Returns once it is stored, through outages of the bus.

        Returns True when a fault was on record at this message already, or this one is one too many within an hour. The
        RM is halted then (unless `rm_id` is no valid rmID)."""
        fault = Fault(rm_id, stream, seq, describe_error(error), self._by, self._clock_ms())
        log.error("a fault", rm=rm_id, stream=stream, seq=seq, error=fault.error, exc_info=error)
        is_rm = bool(RM_ID.matches(rm_id))
        key = subjects.fault_key(rm_id if is_rm else "_", stream)

        def report(outage: Exception) -> None:
            log.error("the fault is not on record yet, trying again", rm=rm_id, error=str(outage))

        earlier_ms, repeated = await retry(partial(self._store, key, fault), RECORD_RETRY, on=BusError, report=report)
        if not repeated and not (is_rm and len(earlier_ms) + 1 >= FAULTS_BEFORE_HALT):
            return False
        if is_rm:
            often = f", the last of {len(earlier_ms) + 1} within an hour" if earlier_ms else ""
            await self._halts.halt(rm_id, f"an exception was raised again at {fault.explanation()}{often}", FAULT)
        return True

    async def _store(self, key: str, fault: Fault) -> tuple[tuple[int, ...], bool]:
        """Store the fault unless it repeats the stored one. Returns the times of the faults before it (when it was
        stored), and whether it repeats the stored one."""
        stored = await self._bus.get(subjects.FAULTS.name, key)
        if is_repeated(stored, fault):
            return (), True
        earlier_ms = recent_fault_times(stored, fault.at_ms)
        await self._bus.put(subjects.FAULTS.name, key, replace(fault, before_ms=earlier_ms).encode())
        return earlier_ms, False


def told_key(rm_id: str) -> str:
    """Key in EVENT_BOOKMARKS: the last violation that is told in the event history, JSON {"error", "at_ms"}."""
    return f"{subjects.key_of(rm_id)}.{AUDIT}"


def recent_fault_times(entry: Entry | None, now_ms: int) -> tuple[int, ...]:
    """The times of the stored fault and of those before it, as far as they are within an hour of `now_ms`."""
    if entry is None or entry.value is None:
        return ()
    before = Fault.decode(entry.value)
    if before.at_ms == now_ms:
        return before.before_ms
    return tuple(at_ms for at_ms in (*before.before_ms, before.at_ms) if now_ms - at_ms < FAULTS_WINDOW_MS)


def is_repeated(entry: Entry | None, fault: Fault) -> bool:
    """Whether the entry is an earlier fault at the same message. (It may be this very fault, when the answer to its
    `put` was lost.)"""
    if entry is None or entry.value is None:
        return False
    before = Fault.decode(entry.value)
    same_place = (before.rm_id, before.stream, before.seq) == (fault.rm_id, fault.stream, fault.seq)
    return same_place and (before.by, before.at_ms) != (fault.by, fault.at_ms)


def describe_error(error: BaseException) -> str:
    """The type of an error, the beginning of its text, and the file and line that raised it."""
    where = traceback.extract_tb(error.__traceback__)
    at = f" at {where[-1].filename.rpartition('/')[2]}:{where[-1].lineno}" if where else ""
    return f"{type(error).__name__}: {error}"[:FAULT_CHARACTERS] + at
