"""Leases: which process works, and which process leads each RM.

A lease is an entry of a bucket whose entries expire; its holder renews it. The holder also answers requests on a
subject of the lease, so a process that waits for the lease notices a dead holder long before the entry expires.

A process that leads RMs holds one lease. The bucket LEADERS has an entry per RM, with the name of its leader and the
token of the leader's lease. That entry is not renewed. It is valid as long as the process holds the lease with that
token.

Leases are for liveness only. A holder that was stopped for a while may believe in a lease that has expired. The chain
of the log keeps two leaders from doing harm (docs/adr/leases-and-standbys.md, log-and-chain.md).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, Entry, Message, NoResponders, Refused
from remuda_bus.subjects import LEASES, Bucket
from remuda_bus.untrusted import Malformed, json_object

# Renewals within the life of a lease: two may fail before it expires.
RENEWALS_PER_TTL = 3
# After a renewal that failed. (Not a RetryPolicy: the next renewal also starts early when the entry's content changes.)
RENEWAL_RETRY_S = 0.2
# A process that waits for a lease checks its holder at this interval. Two checks without responders show that the
# holder is dead, so take-over takes half a second. A check costs both processes some 0.1 ms.
HOLDER_CHECK_INTERVAL_S = 0.25
# A holder that takes longer is busy, not dead. The lease's expiry decides.
HOLDER_CHECK_TIMEOUT_S = 1.0

log = structlog.get_logger()


class LeaseLost(BusError):
    """The process no longer holds the lease: another process may work now."""


class Lease:
    """A lease of this process: acquired, renewed and given back. `key`: the key of the lease. `holder`: the name of the
    process, shown to people. `bucket`: a bucket whose entries expire. `token`: a random value in the entry, which keeps
    two processes of one name apart. `epoch`: the entry's revision when the lease was acquired; it grows from holder to
    holder."""

    def __init__(self, bus: Bus, key: str, holder: str, bucket: Bucket = LEASES) -> None:
        if bucket.ttl_s <= 0:
            raise ValueError(f"bucket {bucket.name}: a lease needs entries that expire, its ttl_s is {bucket.ttl_s}")
        self._bus = bus
        self._key = key
        self._holder = holder
        self._bucket = bucket
        self.token = secrets.token_hex(8)
        self._about: dict[str, object] = {}
        self._news = asyncio.Event()
        self._revision = 0
        self._renewed = 0.0
        self._in_doubt = 0.0  # when the last renewal began whose outcome is unknown
        self._task: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._outage = OutageLog()
        self.epoch = 0

    @property
    def held(self) -> bool:
        """Whether this process holds the lease, as far as it has noticed."""
        return self._task is not None and not self._lost.is_set()

    @property
    def valid(self) -> bool:
        """Whether no other process can hold the lease now, by the clock of this process. It is false at once in a
        process that was stopped for longer than the lease lasts, even before its renewal task runs again."""
        return self.held and _now() - self._renewed < self._bucket.ttl_s

    @property
    def _value(self) -> bytes:
        return json.dumps({"holder": self._holder, "token": self.token, **self._about}).encode()

    def set_details(self, **about: object) -> None:
        """Set additional fields of the entry. They are published at once."""
        if self._about != about:
            self._about = about
            self._news.set()

    async def acquire(self) -> None:
        """Wait until the lease is held, through outages of the bus."""
        liveness = HolderLiveness(self._bus, self._key)
        while not await self._take_when_free(liveness):  # noqa: ASYNC110 - a dead holder publishes nothing
            await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)

    async def run_while_held(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work until it returns, or until the lease is lost; then it is cancelled. Raises what the work
        raises."""
        working = asyncio.ensure_future(work)
        lost = asyncio.ensure_future(self.lost())
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            lost.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _take_when_free(self, liveness: HolderLiveness) -> bool:
        try:
            entry = await self._bus.get(self._bucket.name, self._key)
            if entry is None:
                return await self.try_acquire()
            holder = Holder.of(entry)
            # A holder with the name of this process is a former process of that name.
            gone = await liveness.is_gone(holder, known=holder.name == self._holder)
        except BusError as error:
            self._outage.warn("lease not acquired yet", lease=self._key, error=str(error))
            return False
        return gone and await self.try_acquire(holder.revision)

    async def try_acquire(self, revision: int = 0) -> bool:
        """Try once to acquire the lease. `revision`: the entry's revision of a dead holder, whose entry is replaced; 0:
        there is no entry. Returns False when another process holds the lease, or the bus does not answer."""
        await self._stop()
        started = _now()
        try:
            self.epoch = self._revision = await self._bus.put(self._bucket.name, self._key, self._value, revision)
        except Refused:
            return False
        except BusError as error:
            self._outage.warn("lease not acquired yet", lease=self._key, error=str(error))
            return False
        self._renewed, self._in_doubt = started, 0.0
        self._lost.clear()
        self._answering = asyncio.get_running_loop().create_task(self._answer_requests())
        self._task = asyncio.get_running_loop().create_task(self._renew())
        self._task.add_done_callback(self._ended)
        log.info("lease acquired", lease=self._key, epoch=self.epoch)
        return True

    async def lost(self) -> None:
        """Return when the lease is no longer held: another process has it, or it was not renewed in time."""
        await self._lost.wait()

    async def work_until_lost(self) -> None:
        """End the tasks beside this one when the lease is no longer held: raises LeaseLost then."""
        await self._lost.wait()
        raise LeaseLost("the lease was lost")

    async def release(self, **last: object) -> None:
        """Give the lease back, so that the next holder need not wait for its expiry. `last`: additional fields of the
        entry, published before."""
        held = self.held
        await self._stop()
        if held:
            try:
                await self._publish_last(last)
                await self._delete()
            except BusError as error:
                log.info("lease not given back, it expires", lease=self._key, error=str(error))
        if self._answering is not None:
            await asyncio.gather(self._answering, return_exceptions=True)

    async def _publish_last(self, last: Mapping[str, object]) -> None:
        self._about = {**self._about, **last}
        if last:
            with suppress(Refused):  # a renewal was under way when the renewing task was cancelled
                self._revision = await self._bus.put(self._bucket.name, self._key, self._value, self._revision)

    async def _delete(self) -> None:
        try:
            await self._bus.delete(self._bucket.name, self._key, self._revision)
        except Refused:
            if await self._still_ours():  # a renewal was under way when the renewing task was cancelled
                await self._bus.delete(self._bucket.name, self._key, self._revision)

    def _ended(self, renewing: asyncio.Task[None]) -> None:
        self._lost.set()
        if self._answering is not None:
            self._answering.cancel()

    async def _answer_requests(self) -> None:
        """Answer requests for the holder. If this fails, take-over falls back to the lease's expiry."""
        name = f"lease-{subjects.token(self._key)}"

        def answers() -> bool:
            # A silent holder makes a waiting process wait for the expiry. So this process is silent only while it holds
            # a lease that may have expired.
            return self.valid or not self.held

        serving = await self._bus.serve(subjects.lease_holder(self._key), self._answer, name, answers)
        try:
            await asyncio.Event().wait()
        finally:
            await serving.close()

    async def _answer(self, message: Message) -> bytes:
        return json.dumps({"holder": self._holder, "epoch": self.epoch}).encode()

    async def _renew(self) -> None:
        every_s = pause_s = self._bucket.ttl_s / RENEWALS_PER_TTL
        while _now() - self._renewed < self._bucket.ttl_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            self._news.clear()
            pause_s = every_s
            started = _now()
            try:
                async with asyncio.timeout(every_s):
                    self._revision = await self._bus.put(self._bucket.name, self._key, self._value, self._revision)
                self._renewed = started
            except Refused:
                if not await self._still_ours():
                    break
                self._renewed = max(self._renewed, self._in_doubt)
            except (BusError, TimeoutError) as error:
                self._in_doubt = started
                log.warning("lease not renewed", lease=self._key, error=str(error) or "no answer")
                pause_s = RENEWAL_RETRY_S
        log.warning("lease lost", lease=self._key, epoch=self.epoch)

    async def _still_ours(self) -> bool:
        """Whether the entry is still that of this process. A renewal that seemed to fail may have succeeded: then the
        entry has a later revision, which is taken over."""
        try:
            entry = await self._bus.get(self._bucket.name, self._key)
        except BusError:
            return False
        if entry is None or self.token.encode() not in (entry.value or b""):
            return False
        self._revision = entry.revision
        return True

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease. `token`: distinguishes two processes with one name. `revision`: that of the entry, which
    changes with every renewal."""

    name: str
    token: str
    revision: int

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The holder in an entry. A malformed entry has an empty holder; it expires like any other."""
        try:
            said = json_object(entry.value or b"{}", entry.key)
        except Malformed:
            said = {}
        return cls(str(said.get("holder", "")), str(said.get("token", "")), entry.revision)


class HolderLiveness:
    """Tracks whether the holder of a lease is alive, by requests to it.

    A missing answer proves nothing: the holder may be busy or cut off. The holder is dead when the server twice reports
    no responders on a subject on which the holder has answered before: the server sees the connection of a killed
    process end at once. The earlier answer must have come over the present connection, because after an outage of the
    bus every process needs a moment to subscribe again."""

    def __init__(self, bus: Bus, key: str) -> None:
        self._bus = bus
        self._key = key
        self._answered: tuple[str, int] | None = None  # token of the holder, number of the connection
        self.is_answering = False  # whether the last request got an answer

    async def is_gone(self, holder: Holder, known: bool = False) -> bool:
        """Whether the holder is dead. `known`: the holder was alive, although it has not answered this process."""
        if not await self._has_no_responder(holder, known):
            return False
        await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        gone = await self._has_no_responder(holder, known)
        if gone:
            log.warning("the holder of a lease is gone", lease=self._key, holder=holder.name)
        return gone

    async def _has_no_responder(self, holder: Holder, known: bool) -> bool:
        here = (holder.token, self._bus.connection_count)
        self.is_answering = False
        try:
            await self._bus.request(subjects.lease_holder(self._key), timeout_s=HOLDER_CHECK_TIMEOUT_S)
        except NoResponders:
            return known or self._answered == (holder.token, self._bus.connection_count)
        except BusError:
            return False
        self._answered, self.is_answering = here, True
        return False


@dataclass(frozen=True, slots=True)
class Ownership:
    """The entry of an RM. `holder`: the process that leads it. `token`: that of the process's lease. `revision`: that
    of the entry, which is the epoch of the leader's commits. `inherited`: the former leader has not given the RM back
    (not stored in the entry)."""

    holder: str
    token: str
    revision: int
    inherited: bool = False

    def encode(self) -> bytes:
        return json.dumps({"holder": self.holder, "token": self.token}).encode()

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The ownership in an entry. An unreadable entry has an empty holder."""
        try:
            found = json.loads(entry.value or b"{}")
            return cls(str(found["holder"]), str(found["token"]), entry.revision)
        except (ValueError, KeyError, TypeError):
            return cls("", "", entry.revision)


async def leader_of(bus: Bus, rm_id: str) -> str | None:
    """The name of the process that leads the RM, or another log; None: no process does."""
    entry = await bus.get(subjects.LEADERS.name, subjects.key_of(rm_id))
    if entry is None or entry.value is None:
        return None
    ownership = Ownership.of(entry)
    lease = await bus.get(subjects.LEASES.name, subjects.member(ownership.holder, subjects.member_kind(rm_id)))
    valid = lease is not None and Holder.of(lease).token == ownership.token
    return ownership.holder if valid else None


class OutageLog:
    """Logs the warnings of one loop that may fail again and again for the same reason: a new text at once, the same
    text at intervals of OUTAGE_LOG_INTERVAL_S."""

    def __init__(self) -> None:
        self._last: tuple[str, object] | None = None
        self._at = 0.0

    def warn(self, event: str, *, error: str, **about: object) -> None:
        now = asyncio.get_running_loop().time()
        if self._last == (event, error) and now - self._at < limits.OUTAGE_LOG_INTERVAL_S:
            return
        self._last, self._at = (event, error), now
        log.warning(event, **about, error=error)


def _now() -> float:
    return asyncio.get_running_loop().time()
