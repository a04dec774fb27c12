"""A lease: who leads. An entry of a bucket whose entries expire, renewed as long as its holder lives. The holder also
answers whoever asks it, so that one that has died is followed long before its entry expires.

For liveness only: a holder that was stopped for a while may believe in a lease that is gone. What keeps two leaders
from doing harm is the log's chain."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from typing import Self

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, Entry, Message, NobodyListens, Refused
from remuda_bus.subjects import LEASES, Bucket

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease. `token` tells two processes of one name apart. `revision` is that of the entry, and another
    one with every renewal."""

    name: str
    token: str
    revision: int

    @classmethod
    def of(cls, entry: Entry) -> Self:
        said = json.loads(entry.value or b"{}")
        return cls(said.get("holder", ""), said.get("token", ""), entry.revision)


class Presence:
    """Whether the holder of a lease is still there. Silence says nothing, it may be busy or cut off. But if nobody
    listens twice where it has answered before, it is gone: the server sees the connection of a killed process end at
    once. That it has answered on this very connection matters, for after an outage of the bus everybody needs a moment
    to be there again."""

    def __init__(self, bus: Bus, key: str) -> None:
        self._bus = bus
        self._key = key
        self._heard: tuple[str, int] | None = None  # whose answer, and on which connection

    async def is_gone(self, holder: Holder, known: bool = False) -> bool:
        """`known`: it was there, although this process has not heard it."""
        if not await self._nobody_listens(holder, known):
            return False
        await asyncio.sleep(limits.ASK_HOLDER_EVERY_S)
        gone = await self._nobody_listens(holder, known)
        if gone:
            log.warning("the holder of a lease is gone", lease=self._key, holder=holder.name)
        return gone

    async def _nobody_listens(self, holder: Holder, known: bool) -> bool:
        here = (holder.token, self._bus.connections)
        try:
            await self._bus.request(subjects.lease_holder(self._key), timeout_s=limits.HOLDER_ANSWERS_WITHIN_S)
        except NobodyListens:
            return known or self._heard == (holder.token, self._bus.connections)
        except BusError:
            return False
        self._heard = here
        return False


class Lease:
    """`holder` is the name shown to people; two leases never mistake each other's entry, even under one name."""

    def __init__(self, bus: Bus, key: str, holder: str, bucket: Bucket = LEASES) -> None:
        if bucket.ttl_s <= 0:
            raise ValueError(f"bucket {bucket.name}: a lease needs entries that expire, its ttl_s is {bucket.ttl_s}")
        self._bus = bus
        self._key = key
        self._holder = holder
        self._bucket = bucket
        self._value = json.dumps({"holder": holder, "token": secrets.token_hex(8)}).encode()
        self._revision = 0
        self._renewed = 0.0
        self._task: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self.epoch = 0  # revision of the entry when it was acquired; grows from holder to holder

    @property
    def held(self) -> bool:
        return self._task is not None and not self._lost.is_set()

    async def acquire(self) -> None:
        """Waits until it is held. An outage of the bus is waited out as well."""
        presence = Presence(self._bus, self._key)
        while not await self._take_when_free(presence):  # noqa: ASYNC110 - who dies tells nobody
            await asyncio.sleep(limits.ASK_HOLDER_EVERY_S)

    async def _take_when_free(self, presence: Presence) -> bool:
        try:
            entry = await self._bus.get(self._bucket.name, self._key)
            if entry is None:
                return await self.take()
            holder = Holder.of(entry)
            # Of two processes with one name, the other was before this one.
            gone = await presence.is_gone(holder, known=holder.name == self._holder)
        except BusError as error:
            log.warning("lease not acquired yet", lease=self._key, error=str(error))
            return False
        return gone and await self.take(holder.revision)

    async def take(self, revision: int = 0) -> bool:
        """Try once. `revision`: that of the entry of a holder who is known to be gone, which is replaced; 0: nobody's.
        False when somebody else has it, or the bus is away."""
        await self._stop()
        started = _now()
        try:
            self.epoch = self._revision = await self._bus.put(self._bucket.name, self._key, self._value, revision)
        except Refused:
            return False
        except BusError as error:
            log.warning("lease not acquired yet", lease=self._key, error=str(error))
            return False
        self._renewed = started
        self._lost.clear()
        self._answering = asyncio.get_running_loop().create_task(self._answer_who_asks())
        self._task = asyncio.get_running_loop().create_task(self._renew())
        self._task.add_done_callback(self._ended)
        log.info("lease acquired", lease=self._key, epoch=self.epoch)
        return True

    async def lost(self) -> None:
        """Returns when it is no longer held: taken by another, or not renewed within its time."""
        await self._lost.wait()

    async def release(self) -> None:
        """Give it back, so that the next one need not wait for it to expire."""
        held = self.held
        await self._stop()
        if held:
            try:
                await self._delete()
            except BusError as error:
                log.info("lease not given back, it expires", lease=self._key, error=str(error))
        if self._answering is not None:
            await asyncio.gather(self._answering, return_exceptions=True)

    async def _delete(self) -> None:
        try:
            await self._bus.delete(self._bucket.name, self._key, self._revision)
        except Refused:
            if await self._still_ours():  # a renewal was on its way when it was stopped
                await self._bus.delete(self._bucket.name, self._key, self._revision)

    def _ended(self, renewing: asyncio.Task[None]) -> None:
        self._lost.set()
        if self._answering is not None:
            self._answering.cancel()

    async def _answer_who_asks(self) -> None:
        """Should this fail, who waits for the lease has to wait until it expires, no more."""
        name = f"lease-{subjects.token(self._key)}"
        serving = await self._bus.serve(subjects.lease_holder(self._key), self._answer, name)
        try:
            await asyncio.Event().wait()
        finally:
            await serving.close()

    async def _answer(self, message: Message) -> bytes:
        return json.dumps({"holder": self._holder, "epoch": self.epoch}).encode()

    async def _renew(self) -> None:
        every_s = pause_s = self._bucket.ttl_s / limits.RENEWALS_PER_TTL
        while _now() - self._renewed < self._bucket.ttl_s:
            await asyncio.sleep(pause_s)
            pause_s = every_s
            started = _now()
            try:
                async with asyncio.timeout(every_s):
                    self._revision = await self._bus.put(self._bucket.name, self._key, self._value, self._revision)
                self._renewed = started
            except Refused:
                if not await self._still_ours():
                    break
            except (BusError, TimeoutError) as error:
                log.warning("lease not renewed", lease=self._key, error=str(error) or "no answer")
                pause_s = limits.RETRY_S
        log.warning("lease lost", lease=self._key, epoch=self.epoch)

    async def _still_ours(self) -> bool:
        """A renewal that seemed to fail may have gone through: then the entry is ours under a later revision."""
        try:
            entry = await self._bus.get(self._bucket.name, self._key)
        except BusError:
            return False
        if entry is None or entry.value != self._value:
            return False
        self._revision, self._renewed = entry.revision, _now()
        return True

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _now() -> float:
    return asyncio.get_running_loop().time()
