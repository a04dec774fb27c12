"""RMs that are halted because a stream has lost or changed its past: an alarm that stands until an operator has
decided.

Whoever notices writes an entry into the bucket HALTS. Every service that works for an RM does so under `Halts.guard`,
and stops; only `remuda rebuild` removes the entry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, ChangedPast, Entry, Refused

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Halt:
    """`by`: the process that noticed, as people know it; `at_ms`: when."""

    rm_id: str
    reason: str
    by: str
    at_ms: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Halt:
        fields = json.loads(value)
        return cls(**{name: fields[name] for name in cls.__slots__})

    def told(self) -> str:
        """To whoever asks for something of this RM."""
        return f"rmID {self.rm_id!r} is halted: {self.reason}. An operator has to type `{what_to_do(self.rm_id)}`"


def what_to_do(rm_id: str) -> str:
    return f"remuda rebuild {rm_id}"


class Halts:
    """Which RMs are halted. `watch()` has to run beside; `by` is the name of this process."""

    def __init__(self, bus: Bus, by: str, clock_ms: Callable[[], int]) -> None:
        self._bus = bus
        self._by = by
        self._clock_ms = clock_ms
        self._halted: dict[str, Halt] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def get(self, rm_id: str) -> Halt | None:
        return self._halted.get(rm_id)

    async def watch(self) -> None:
        """For ever."""
        async for entry in self._bus.watch(subjects.HALTS.name):
            self._tell(entry)

    async def halt(self, rm_id: str, reason: str) -> None:
        """Returns when it is on record, however long that takes: what has been noticed must not be forgotten. The first
        reason stands."""
        log.error("the past has changed: halted", rm=rm_id, reason=reason, command=what_to_do(rm_id))
        made = Halt(rm_id, reason, self._by, self._clock_ms())
        while True:
            try:
                await self._bus.put(subjects.HALTS.name, subjects.key_of(rm_id), made.encode(), 0)
                break
            except Refused:
                break  # it is halted
            except BusError as error:
                log.error("the halt is not on record yet, trying again", rm=rm_id, error=str(error))
                await asyncio.sleep(limits.HALTS_RETRY_S)
        await self.look(rm_id)

    async def look(self, rm_id: str) -> Halt | None:
        """As it is now, not as the watch has told."""
        entry = await self._bus.get(subjects.HALTS.name, subjects.key_of(rm_id))
        self._tell(entry or Entry(subjects.key_of(rm_id), None, 0))
        return self.get(rm_id)

    async def guard(self, rm_id: str, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work whenever the RM is not halted, from the start each time, and cancels it when it is. Halts it
        when the work raises ChangedPast. Returns when the work does, and raises what else it raises; a fault of ours
        says then whom it is about."""
        await self.look(rm_id)
        while True:
            while self.get(rm_id) is not None:
                await self._change()
            working = asyncio.ensure_future(work())
            halted = asyncio.ensure_future(self._until_halted(rm_id))
            try:
                await asyncio.wait({working, halted}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            except ChangedPast as error:
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
            await self._change()

    async def _change(self) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            await changed
        finally:
            self._waiting.discard(changed)

    def _tell(self, entry: Entry) -> None:
        rm_id = subjects.rm_of_key(entry.key)
        if entry.value is not None:
            self._halted[rm_id] = Halt.decode(entry.value)
        elif self._halted.pop(rm_id, None) is None:
            return
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)
