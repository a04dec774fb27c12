"""One resource manager in this process, as long as this process should follow it: followed, led while the process is
elected, followed again; on one and the same core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged
from remuda_bus.lease.leaders import Ownership
from remuda_bus.log import FactTooLarge, Position, check_commit, check_published
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.streams.history_check import check_message

from .. import limits
from ..core import Core
from . import metrics, snapshots, trial
from .discard import discard
from .follower import Follower
from .leader import Leader
from .members import Members
from .replica import Replica
from .settings import CoreSettings
from .snapshots import Snapshots

log = structlog.get_logger()


class Standby:
    """`run` raises LostLeadership or an outage of the bus, after which the process must exit and start again from the
    log; HistoryChanged, after which the RM must be halted; or any other exception, a fault at `place_of` it."""

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

        self.replica = Replica(self._core, lambda: self.position, clock_ms, settings.snapshot_in_child)
        self._follower.moved = self.replica.moved
        self.hot = False

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def at_ms(self) -> int:
        """The time of the last commit that was applied, in ms."""
        return self._core.state.now_ms

    @property
    def position(self) -> Position:
        return self._follower.position if self._leader is None else self._leader.position

    async def run(self) -> None:
        """Returns when this process should not follow the RM any more."""
        async with self._members.restores:
            if not self._members.should_follow(self.rm_id):
                return
            await self._follower.open(await snapshots.restore(self._bus, self._core, self._members.listing))
        log.info("following", rm=self.rm_id, log_seq=self.position.seq)
        self._members.hot(self.rm_id)
        self.hot = True
        try:
            while (ownership := await self._follow_until_elected()) is not None:
                position = await self._lead(ownership)
                await self._members.hand_over(self.rm_id)
                await self._follower.open(position)
        except BusError:
            await self._look_back(self.position)
            raise
        self.hot = False
        self._members.hot(self.rm_id, False)
        log.info("not following any more", rm=self.rm_id, log_seq=self.position.seq)
        await self._follower.close()
        await discard(self._core)

    def place_of(self, fault: Exception) -> tuple[str, int]:
        """The stream and the sequence of the inbox message in work, or of the last commit if no message was in work."""
        seq = fault.inbox_seq if isinstance(fault, FactTooLarge) else self._leader.message_seq if self._leader else 0
        return (subjects.INBOX.name, seq) if seq else (subjects.LOG.name, self.position.seq)

    async def _follow_until_elected(self) -> Ownership | None:
        """None: this process should not follow the RM any more."""
        following = asyncio.ensure_future(self._follower.follow())
        elected = asyncio.ensure_future(self._members.elected(self.rm_id))
        dismissed = asyncio.ensure_future(self._members.follows(self.rm_id, False))
        tasks: tuple[asyncio.Future[Any], ...] = (following, elected, dismissed)
        try:
            with metrics.FOLLOWING.track_inprogress():
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            return elected.result() if elected.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _lead(self, ownership: Ownership) -> Position:
        """Lead until the lease is lost or the RM is handed over. Returns the last commit."""
        async with self._members.takes:
            await self._follower.catch_up()
            await self._check_past()
            if self._settings.snapshot_in_child:
                await trial.check_for_deadly_message(
                    self._bus, self._core, self._members.name, self._clock_ms, ownership.inherited
                )
            writer = await self._follower.close()
        kept = Snapshots(self._bus, self._core, self._settings, self._follower.facts, self._members.listing)
        leader = Leader(
            self._bus, self._core, ownership.revision, writer, self._clock_ms, kept,
            self._settings.allocations_per_pass,
        )  # fmt: skip
        leader.moved = self.replica.moved
        self._leader = self.replica.leader = leader
        self._members.when_unsettled(self.rm_id, leader.wake)
        position = await leader.lead(lambda: self._members.may_stay(self.rm_id))
        self._leader = self.replica.leader = None
        return position

    async def _check_past(self) -> None:
        """Check that LOG holds all published commits, and that INBOX and REQUESTS hold what the log has answered:
        otherwise new requests would get the numbers of answered ones. Raises HistoryChanged."""
        state = self._core.state
        await check_published(self._bus, self.rm_id)
        if state.inbox_seq:
            await check_message(self._bus, subjects.INBOX.name, subjects.inbox(self.rm_id), state.inbox_seq)
        end = await self._bus.last_sequence(subjects.REQUESTS.name)
        if end < state.request_seq:
            raise HistoryChanged(f"stream {subjects.REQUESTS.name} ends at {end}, but {state.request_seq} was answered")

    async def _look_back(self, position: Position) -> None:
        """Before the process exits, check that the log still holds the last durable commit, which no other process may
        know of. Waits LOOK_BACK_WITHIN_S for the bus. Raises HistoryChanged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LOOK_BACK_WITHIN_S):
                check = partial(check_commit, self._bus, self.rm_id, position)
                await retry(check, RetryPolicy(limits.LOOK_BACK_RETRY_S), on=BusError)
