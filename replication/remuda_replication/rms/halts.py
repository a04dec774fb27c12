"""Halts: no service works for a halted RM until an operator has decided.

The process that detects lost or changed history, or a repeated fault, stores an entry in the bucket HALTS. Every
service works for an RM under `Halts.guard`, which cancels the work. `remuda rebuild` removes the entry; `remuda resume`
removes it where the cause is a fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Entry, HistoryChanged, Refused
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.untrusted import Malformed, field_of, json_object

# After a halt or a fault that could not be stored. It is retried without end: a halt must not be lost.
RECORD_RETRY = RetryPolicy(0.5)

log = structlog.get_logger()

# The causes of a halt. Entries of earlier versions have none, which means PAST.
PAST = "past"  # a stream has lost or changed messages of the RM
FAULT = "fault"  # a message of the RM raises exceptions that end processes (`faults`)
OPERATOR = "operator"  # a command is removing the state of the RM; typed again, it continues


@dataclass(frozen=True, slots=True)
class Halt:
    """The entry of a halted RM. `by`: the name of the process that halted it. `at_ms`: when, ms since 1970. `cause`:
    PAST, FAULT or OPERATOR."""

    rm_id: str
    reason: str
    by: str
    at_ms: int
    cause: str = PAST

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Halt:
        """Raises Malformed."""
        found = {"cause": PAST, **json_object(value, "a halt")}
        kinds = {"rm_id": str, "reason": str, "by": str, "at_ms": int, "cause": str}
        return cls(**{name: field_of(found, name, kind, "a halt") for name, kind in kinds.items()})

    def explanation(self) -> str:
        """The reason for refusing a request of this RM, with the command that ends the halt."""
        return f"rmID {self.rm_id!r} is halted: {self.reason}. An operator has to type `{self.command}`"

    @property
    def command(self) -> str:
        """The command that ends the halt. After a fault, the operator first corrects the cause."""
        return f"remuda {'resume' if self.cause == FAULT else 'rebuild'} {self.rm_id}"


class Halts:
    """The halted RMs, as this process knows them. `watch()` must run in a task of its own. `by`: the name of this
    process."""

    def __init__(self, bus: Bus, by: str, clock_ms: Callable[[], int]) -> None:
        self._bus = bus
        self._by = by
        self._clock_ms = clock_ms
        self._halted: dict[str, Halt] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def get(self, rm_id: str) -> Halt | None:
        """The halt of the RM, as last seen by `watch` or `refresh`."""
        return self._halted.get(rm_id)

    @property
    def count(self) -> int:
        return len(self._halted)

    def halted_because(self, reason: str) -> list[str]:
        """The RMs that are halted for exactly this reason."""
        return [rm_id for rm_id, halt in self._halted.items() if halt.reason == reason]

    async def watch(self) -> None:
        """Follow the bucket HALTS without end."""
        async for entry in self._bus.watch(subjects.HALTS.name):
            self._apply(entry)

    async def halt(self, rm_id: str, reason: str, cause: str = PAST) -> None:
        """Halt the RM. Returns once the halt is stored, through outages of the bus: a halt must not be lost. An RM that
        is halted already keeps its first reason."""
        made = Halt(rm_id, reason, self._by, self._clock_ms(), cause)
        log.error("halted", rm=rm_id, reason=reason, command=made.command)

        def report(error: Exception) -> None:
            log.error("the halt is not on record yet, trying again", rm=rm_id, error=str(error))

        await retry(partial(self._store, made), RECORD_RETRY, on=BusError, report=report)
        await self.refresh(rm_id)

    async def _store(self, halt: Halt) -> None:
        """Store the halt unless the RM is halted already."""
        with suppress(Refused):
            await self._bus.put(subjects.HALTS.name, subjects.key_of(halt.rm_id), halt.encode(), 0)

    async def refresh(self, rm_id: str) -> Halt | None:
        """Read the halt of the RM from the bus. `watch` may lag behind."""
        entry = await self._bus.get(subjects.HALTS.name, subjects.key_of(rm_id))
        self._apply(entry or Entry(subjects.key_of(rm_id), None, 0))
        return self.get(rm_id)

    async def guard(self, rm_id: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work while the RM is not halted. A halt cancels the work; when the halt ends, the work starts anew.

        Halts the RM when the work raises HistoryChanged. Returns when the work returns. Raises any other error of the
        work; an exception that is no BusError gets a note that names the RM."""
        await self.refresh(rm_id)
        while True:
            while self.get(rm_id) is not None:
                await self._change(rm_id)
            working = asyncio.ensure_future(work())
            halted = asyncio.ensure_future(self._until_halted(rm_id))
            try:
                await asyncio.wait({working, halted}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            except HistoryChanged as error:
                await self.halt(rm_id, str(error))
            except BusError:
                raise
            except Exception as fault:
                fault.add_note(f"rm {rm_id}")
                raise
            finally:
                working.cancel()
                halted.cancel()
                await asyncio.gather(working, halted, return_exceptions=True)

    async def _until_halted(self, rm_id: str) -> None:
        while self.get(rm_id) is None:
            await self._change(rm_id)

    async def _change(self, rm_id: str) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(rm_id, set())
        waiting.add(changed)
        try:
            await changed
        finally:
            waiting.discard(changed)
            if not waiting and self._waiting.get(rm_id) is waiting:
                del self._waiting[rm_id]

    def _apply(self, entry: Entry) -> None:
        rm_id = subjects.rm_of_key(entry.key)
        if entry.value is not None:
            self._halted[rm_id] = _decoded(rm_id, entry.value)
        elif self._halted.pop(rm_id, None) is None:
            return
        for changed in self._waiting.get(rm_id, ()):
            if not changed.done():
                changed.set_result(None)


def _decoded(rm_id: str, value: bytes) -> Halt:
    """The halt in an entry. An unreadable entry halts the RM too: its writer wanted all work to stop."""
    try:
        return Halt.decode(value)
    except Malformed as problem:
        return Halt(rm_id, str(problem), "", 0)
