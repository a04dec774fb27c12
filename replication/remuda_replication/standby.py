"""Standbys: each follows one log in this process, leads it while the process is elected, and follows it again, on one
and the same machine.

A process has a standby for each log that it should follow. A log is halted when its messages are bad, or when its
history has changed; the other logs of the process go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, HistoryChanged
from remuda_bus.retry import RetryPolicy, retry
from remuda_bus.streams.history_check import check_message
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication import snapshots
from remuda_replication.leader import Leader
from remuda_replication.lease import Ownership
from remuda_replication.log import FactTooLarge, LogEntry, LogReader, LogWriter, Position, check_commit
from remuda_replication.machine import Machine
from remuda_replication.members import Members
from remuda_replication.poison_messages import PoisonMessage, check_for_poison_message
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import FAULT, Halts
from remuda_replication.settings import ReplicationSettings
from remuda_replication.snapshots import Snapshots

# Commits that a follower applies before other RMs of the process work: the largest take 10 ms each.
COMMITS_FOLLOWED_AT_ONCE = 8
# A leader whose append failed waits so long for the bus before it exits, to check that the log still holds the last
# durable commit: longer than a server takes to restart.
LOOK_BACK_WITHIN_S = 30.0
LOOK_BACK_RETRY_S = 0.2

log = structlog.get_logger()


S = TypeVar("S", bound="Standby")


class Standbys(Generic[S]):
    """The standbys of this process. `by_log`: each standby that runs now, by the name of its log. `make` creates the
    standby of a log."""

    def __init__(
        self, bus: Bus, members: Members, halts: Halts, clock_ms: Callable[[], int], make: Callable[[str], S]
    ) -> None:
        self.by_log: dict[str, S] = {}
        self._members = members
        self._halts = halts
        self._faults = Faults(bus, halts, members.name, clock_ms)
        self._make = make

    async def stand_by(self, log_id: str) -> None:
        """Stand by for the log. Does not return. Raises the errors of `Standby.run` that do not halt the log."""
        await self._halts.guard(log_id, partial(self._stand_by, log_id))

    async def _stand_by(self, log_id: str) -> None:
        members, standbys = self._members, self.by_log
        members.know(log_id, lambda: standbys[log_id].at_ms if log_id in standbys else 0)
        try:
            while True:
                await members.follows(log_id, True)
                standbys[log_id] = standby = self._make(log_id)
                await self._run(standby)
                del standbys[log_id]
        except HistoryChanged:
            await members.release(log_id)
            raise
        finally:
            if self._halts.get(log_id) is not None:
                await members.release(log_id)
            standbys.pop(log_id, None)
            members.forget(log_id)

    async def _run(self, standby: S) -> None:
        try:
            await standby.run()
        except (BusError, HistoryChanged):
            raise
        except PoisonMessage as poison:
            await self._halts.halt(standby.rm_id, str(poison), FAULT)
        except Exception as fault:
            if not await self._faults.record(standby.rm_id, *standby.place_of(fault), fault):
                raise  # the state of this process may be damaged: it exits
        else:
            return
        await asyncio.get_running_loop().create_future()  # until the guard sees the halt

    def description(self) -> object:
        """The name of this process, and for each of its logs the position and whether this process leads, for JSON."""
        return {
            "instance": self._members.name,
            "rms": [
                {"rm": log_id, "leads": one.leads, "log_seq": one.position.seq, "at_ms": one.at_ms}
                for log_id, one in self.by_log.items()
            ],
        }


class Standby:
    """One log in this process, for as long as this process should follow it.

    `applied` is called with each durable commit, `moved` when the position has changed, `leads_by` with the leader, or
    with None when this process no longer leads. `hot`: the machine is at the commit `position`, or led from there.

    `run` raises LostLeadership or an outage of the bus, after which the process must exit and start again from the
    log; HistoryChanged, after which the RM must be halted; or any other exception, which is a fault at the place that
    `place_of` returns."""

    def __init__(
        self,
        bus: Bus,
        machine: Machine,
        members: Members,
        clock_ms: Callable[[], int],
        settings: ReplicationSettings,
    ) -> None:
        self.rm_id = machine.log_id
        self._leader: Leader | None = None
        self._machine = machine
        self._bus = bus
        self._members = members
        self._clock_ms = clock_ms
        self._settings = settings
        self._follower = Follower(bus, machine)
        self._follower.moved = self._moved
        self._follower.applied = self._applied
        self.moved: Callable[[], None] = lambda: None
        self.applied: Callable[[log_pb2.Commit], None] = lambda _: None
        self.leads_by: Callable[[Leader | None], None] = lambda _: None
        self.hot = False

    def _moved(self) -> None:
        self.moved()

    def _applied(self, commit: log_pb2.Commit) -> None:
        self.applied(commit)

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def at_ms(self) -> int:
        """The time of the last commit that was applied, in ms."""
        return self._machine.now_ms

    @property
    def position(self) -> Position:
        return self._follower.position if self._leader is None else self._leader.position

    async def run(self) -> None:
        """Follow the log, and lead it while this process is elected. Returns when this process should no longer follow
        it."""
        async with self._members.restores:
            if not self._members.should_follow(self.rm_id):
                return
            await self._follower.open(await snapshots.restore(self._bus, self._machine, self._members.listing))
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
        await self._machine.discard()

    def place_of(self, fault: Exception) -> tuple[str, int]:
        """The stream and the sequence of the inbox message in work, or of the last commit if no message was in work."""
        seq = fault.inbox_seq if isinstance(fault, FactTooLarge) else self._leader.message_seq if self._leader else 0
        return (subjects.inbox_stream(self.rm_id), seq) if seq else (subjects.log_stream(self.rm_id), self.position.seq)

    async def _follow_until_elected(self) -> Ownership | None:
        """Follow the log until this process is elected. None: this process should no longer follow it."""
        following = asyncio.ensure_future(self._follower.follow())
        elected = asyncio.ensure_future(self._members.elected(self.rm_id))
        dismissed = asyncio.ensure_future(self._members.follows(self.rm_id, False))
        tasks: tuple[asyncio.Future[Any], ...] = (following, elected, dismissed)
        try:
            with self._machine.metrics.following.track_inprogress():
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
                await check_for_poison_message(
                    self._bus, self._machine, self._members.name, self._clock_ms, ownership.inherited
                )
            writer = await self._follower.close()
        kept = Snapshots(self._bus, self._machine, self._settings, self._follower.facts, self._members.listing)
        leader = Leader(self._bus, self._machine, ownership.revision, writer, self._clock_ms, kept)
        leader.moved, leader.applied = self._moved, self._applied
        self._leader = leader
        self.leads_by(leader)
        self._members.when_unsettled(self.rm_id, leader.wake)
        try:
            position = self._follower.position = await leader.lead(lambda: self._members.may_stay(self.rm_id))
        except BaseException:
            self.hot = False  # the machine may be ahead of the log
            raise
        finally:
            self.leads_by(None)
        self._leader = None
        return position

    async def _check_past(self) -> None:
        """Check that the inbox holds the last message that the log has answered, and what is derived from the log.
        Raises HistoryChanged."""
        if seq := self._machine.inbox_seq:
            await check_message(self._bus, subjects.inbox_stream(self.rm_id), subjects.inbox(self.rm_id), seq)
        await self._machine.check_past(self._bus)

    async def _look_back(self, position: Position) -> None:
        """Before the process exits, check that the log still holds the last durable commit, which no other process may
        know of. Waits LOOK_BACK_WITHIN_S for the bus. Raises HistoryChanged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_BACK_WITHIN_S):
                check = partial(check_commit, self._bus, self.rm_id, position)
                await retry(check, RetryPolicy(LOOK_BACK_RETRY_S), on=BusError)


class Follower:
    """Follows the log of one RM, so that the process can take over from the leader at any time. A follower applies
    facts. It decides nothing, and holds nothing that only decisions need.

    `position`: the last commit that was applied. `facts`: how many facts were applied since `open`. `applied` is called
    with each commit that was applied, `moved` when the position has changed."""

    def __init__(self, bus: Bus, machine: Machine) -> None:
        self._bus = bus
        self._machine = machine
        self._reader: LogReader
        self.position = Position()
        self.facts = 0
        self.moved: Callable[[], None] = lambda: None
        self.applied: Callable[[log_pb2.Commit], None] = lambda _: None

    async def open(self, position: Position) -> None:
        """Continue after the commit at `position`, which is the state of the machine. Returns at the end of the log."""
        self._machine.follow_only()
        self.position, self.facts = position, 0
        self._reader = await LogReader.open(
            self._bus, self._machine.log_id, position, commit_class=self._machine.commit_class
        )
        await self.catch_up()

    async def follow(self) -> None:
        """Apply commits until cancelled, which loses nothing. Raises HistoryChanged, LogTrimmed, Unreadable."""
        while True:
            entries = await self._reader.batch(COMMITS_FOLLOWED_AT_ONCE)
            await self._apply(entries)
            if entries:
                self._machine.metrics.count_applied(entries[-1].commit.now_ms)

    async def catch_up(self) -> None:
        """Apply the commits that the log holds at the time of the call."""
        async for entries in self._reader.read_to_end(COMMITS_FOLLOWED_AT_ONCE):
            await self._apply(entries)

    async def close(self) -> LogWriter:
        """Stop reading. Returns a writer that continues after the last commit read."""
        await self._reader.close()
        return LogWriter(self._bus, self._machine.log_id, self._reader.position, self._reader.last_seq)

    async def _apply(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            self.facts += self._machine.apply(entry.commit)
            self.applied(entry.commit)
        self.position = self._reader.position
        self.moved()
        await asyncio.sleep(0)  # let other RMs of this process work
