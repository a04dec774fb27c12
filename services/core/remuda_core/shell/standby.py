"""One resource manager in this process: followed, led while its lease is held, followed again; on one and the same
core.

A leader that dies is noticed before its lease has expired: its heir asks it all the time, and when nobody listens any
more where it has just answered, the heir takes the lease over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, ChangedPast, Serving
from remuda_bus.lease import Lease, Presence
from remuda_bus.limits import ASK_HOLDER_EVERY_S
from remuda_bus.log import Position, check_commit, check_told
from remuda_bus.past import witness

from .. import limits
from ..core import Core
from . import snapshots
from .follower import Follower
from .leader import Leader
from .members import Members
from .queries import Queries
from .settings import CoreSettings
from .snapshots import Snapshots

log = structlog.get_logger()


class Standby:
    """`run` raises LostLeadership or an outage of the bus: whatever it was, the process has to die and be born again
    from the log. So it does for a fault of ours, which says where it was met. Or ChangedPast: then the RM has to be
    halted."""

    def __init__(
        self, bus: Bus, rm_id: str, members: Members, clock_ms: Callable[[], int], settings: CoreSettings
    ) -> None:
        self.rm_id = rm_id
        self._leader: Leader | None = None
        self._core = Core(rm_id)
        self._bus = bus
        self._members = members
        self._clock_ms = clock_ms
        self._settings = settings
        self._follower = Follower(bus, self._core)
        self._lease = Lease(bus, subjects.core_lease(rm_id), members.name)
        self._presence = Presence(bus, subjects.core_lease(rm_id))

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def at_ms(self) -> int:
        """Up to when this process knows what happened."""
        return self._core.state.now_ms

    @property
    def position(self) -> Position:
        return self._follower.position if self._leader is None else self._leader.position

    async def run(self) -> None:
        await self._follower.open(await snapshots.restore(self._bus, self._core))
        log.info("following", rm=self.rm_id, log_seq=self.position.seq)
        self._members.hot(self.rm_id)
        try:
            while True:
                await self._follow_until_elected()
                position = await self._lead()
                await self._lease.release()
                await self._follower.open(position)
        except BusError:
            await self._look_back(self.position)
            raise
        except ChangedPast:
            raise
        except Exception as fault:
            inbox_seq = self._core.state.inbox_seq
            fault.add_note(f"log_seq {self.position.seq}, message {inbox_seq} of its inbox or what follows")
            raise
        finally:
            await self._lease.release()

    async def _follow_until_elected(self) -> None:
        following = asyncio.ensure_future(self._follower.follow())
        electing = asyncio.ensure_future(self._elected())
        try:
            await asyncio.wait([following, electing], return_when=asyncio.FIRST_COMPLETED)
            for task in (following, electing):
                if task.done():
                    task.result()
        finally:
            for task in (following, electing):
                task.cancel()
            await asyncio.gather(following, electing, return_exceptions=True)

    async def _elected(self) -> None:
        """Returns with the lease."""
        while not await self._take():
            await self._members.changed(ASK_HOLDER_EVERY_S)

    async def _take(self) -> bool:
        holder = self._members.holder(self.rm_id)
        if holder is None:
            return self._members.may_take(self.rm_id) and await self._lease.take()
        # Of two processes with one name, the other was before this one.
        before = holder.name == self._members.name
        if before or (self._members.is_heir(self.rm_id) and await self._presence.is_gone(holder)):
            return await self._lease.take(holder.revision)
        return False

    async def _lead(self) -> Position:
        """Returns the last commit, when the lease is lost or the RM is another's."""
        serving: list[Serving] = []
        try:
            await self._follower.catch_up()
            await self._check_past()
            kept = Snapshots(self._bus, self._core, self._settings, self._follower.facts)
            leader = Leader(self._bus, self._core, self._lease, await self._follower.close(), self._clock_ms, kept)
            serving += [*await Queries(self._core).serve(self._bus), await kept.serve()]
            self._leader = leader
            position = await leader.lead(lambda: self._members.may_stay(self.rm_id))
            self._leader = None
            return position
        finally:
            await asyncio.gather(*(one.close() for one in serving))

    async def _check_past(self) -> None:
        """Nothing is decided on a log that has lost what others were told of it, nor where what the log answers was
        lost: what is asked next would be taken for answered. Raises ChangedPast."""
        state = self._core.state
        await check_told(self._bus, self.rm_id)
        if state.inbox_seq:
            await witness(self._bus, subjects.INBOX.name, subjects.inbox(self.rm_id), state.inbox_seq)
        end = await self._bus.end(subjects.REQUESTS.name)
        if end < state.request_seq:
            raise ChangedPast(f"stream {subjects.REQUESTS.name} ends at {end}, but {state.request_seq} was answered")

    async def _look_back(self, position: Position) -> None:
        """The last thing to do in doubt: nobody else may remember what was durable. Waits for an outage to end. Raises
        ChangedPast."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LOOK_BACK_WITHIN_S):
                while True:
                    try:
                        return await check_commit(self._bus, self.rm_id, position)
                    except BusError:
                        await asyncio.sleep(limits.LOOK_BACK_RETRY_S)
