"""A lease: who leads. An entry of a bucket whose entries expire, renewed as long as its holder lives.

For liveness only: a holder that was stopped for a while may believe in a lease that is gone. What keeps two leaders
from doing harm is the log's chain."""

from __future__ import annotations

import asyncio
import json
import secrets

import structlog

from remuda_bus import limits
from remuda_bus.bus import Bus, BusError, Refused
from remuda_bus.subjects import LEASES, Bucket

log = structlog.get_logger()


class Lease:
    """`holder` is the name shown to people; two leases never mistake each other's entry, even under one name."""

    def __init__(self, bus: Bus, key: str, holder: str, bucket: Bucket = LEASES) -> None:
        if bucket.ttl_s <= 0:
            raise ValueError(f"bucket {bucket.name}: a lease needs entries that expire, its ttl_s is {bucket.ttl_s}")
        self._bus = bus
        self._key = key
        self._bucket = bucket
        self._value = json.dumps({"holder": holder, "token": secrets.token_hex(8)}).encode()
        self._revision = 0
        self._renewed = 0.0
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self.epoch = 0  # revision of the entry when it was acquired; grows from holder to holder

    @property
    def held(self) -> bool:
        return self._task is not None and not self._lost.is_set()

    async def acquire(self) -> None:
        """Waits until it is held. An outage of the bus is waited out as well."""
        while not await self.take():
            await self._until_free()

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
        self._task = asyncio.get_running_loop().create_task(self._renew())
        log.info("lease acquired", lease=self._key, epoch=self.epoch)
        return True

    async def lost(self) -> None:
        """Returns when it is no longer held: taken by another, or not renewed within its time."""
        await self._lost.wait()

    async def release(self) -> None:
        """Give it back, so that the next one need not wait for it to expire."""
        held = self.held
        await self._stop()
        self._lost.set()
        if held:
            try:
                await self._delete()
            except BusError as error:
                log.info("lease not given back, it expires", lease=self._key, error=str(error))

    async def _delete(self) -> None:
        try:
            await self._bus.delete(self._bucket.name, self._key, self._revision)
        except Refused:
            if await self._still_ours():  # a renewal was on its way when it was stopped
                await self._bus.delete(self._bucket.name, self._key, self._revision)

    async def _until_free(self) -> None:
        """Returns when the entry is gone, at the latest after the time in which it would expire."""
        entries = self._bus.watch(self._bucket.name)
        try:
            async with asyncio.timeout(self._bucket.ttl_s):
                async for entry in entries:
                    if entry.key == self._key and entry.value is None:
                        return
        except TimeoutError:
            pass
        finally:
            await entries.aclose()  # type: ignore[attr-defined]  # an async generator

    async def _renew(self) -> None:
        pause_s = self._bucket.ttl_s / limits.RENEWALS_PER_TTL
        while True:
            await asyncio.sleep(pause_s)
            started = _now()
            try:
                async with asyncio.timeout(pause_s):
                    self._revision = await self._bus.put(self._bucket.name, self._key, self._value, self._revision)
                self._renewed = started
            except Refused:
                if not await self._still_ours():
                    break
            except (BusError, TimeoutError) as error:
                log.warning("lease not renewed", lease=self._key, error=str(error) or "no answer")
            if _now() - self._renewed >= self._bucket.ttl_s:
                break
        log.warning("lease lost", lease=self._key, epoch=self.epoch)
        self._lost.set()

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
