"""The core processes there are, which of them leads which resource manager, and which should.

A process holds one lease, its entry in the bucket LEASES. What it leads is in the bucket LEADERS (`leaders`). Every
process watches both, asks all others whether they live, and acts on its own part alone.

All of this is for liveness. Processes that see different things get in each other's way; the chain of the log keeps
them from doing harm.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, Entry, Refused
from remuda_bus.lease import Holder, HolderLiveness, Lease
from remuda_bus.lease.leaders import Ownership
from remuda_bus.limits import HOLDER_CHECK_INTERVAL_S
from remuda_bus.retry import RetryPolicy, pause

from .. import limits
from .sharing import score, shares
from .snapshots import Shelf

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Member:
    """`ready`: it follows hot what it should lead. `token` tells a process from another of the same name. `revision`:
    of its lease's entry, another one with every renewal."""

    token: str
    ready: bool
    revision: int


@dataclass(slots=True)
class Seat:
    """What this process has to do with one RM."""

    last_ms: Callable[[], int]
    hot: bool = False
    elected: asyncio.Future[Ownership] | None = None  # whoever waits to lead it
    taking: bool = False
    leads: bool = False
    look: Callable[[], None] = lambda: None  # whether the leader may stay


class Members:
    """`name` is this process's own among them."""

    def __init__(self, bus: Bus, instance: str) -> None:
        self.name = subjects.token(instance)
        self.lease = Lease(bus, subjects.member(instance), self.name)
        self._bus = bus
        self._members: dict[str, Member] = {}
        self._owners: dict[str, Ownership] = {}
        self._seats: dict[str, Seat] = {}
        self._free_since: dict[str, float] = {}  # of every RM that no process leads
        self._ready = False
        self._ready_changed = _now()
        self._shares: dict[str, str] | None = None  # who should lead whom; None: to be found out
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self.takes = asyncio.Semaphore(limits.TAKES_AT_ONCE)
        self.restores = asyncio.Semaphore(limits.RESTORES_AT_ONCE)
        self.shelf = Shelf(bus)
        self._watched_over: set[str] = set()

    # What this process knows and does.

    def know(self, rm_id: str, last_ms: Callable[[], int] = lambda: 0) -> None:
        """There is such an RM. `last_ms`: when something was decided for it: the most recent is taken first."""
        self._seats[rm_id] = Seat(last_ms)
        self._changed()

    def hot(self, rm_id: str) -> None:
        """This process has caught up with its log."""
        self._seats[rm_id].hot = True
        self._news.set()

    def forget(self, rm_id: str) -> None:
        """It is halted or gone."""
        self._seats.pop(rm_id, None)
        self._changed()

    async def elected(self, rm_id: str) -> Ownership:
        """Returns when this process leads the RM."""
        seat = self._seats[rm_id]
        seat.elected = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            ownership = await seat.elected
            seat.leads = True
            return ownership
        finally:
            seat.elected = None

    def when_unsettled(self, rm_id: str, look: Callable[[], None]) -> None:
        """Call this whenever `may_stay` has become false."""
        self._seats[rm_id].look = look

    def may_stay(self, rm_id: str) -> bool:
        """Whether this process, which leads it, should go on. A core that comes and goes all the time gets nothing."""
        return self._leads(rm_id) and (not self._settled() or self._owner(rm_id) in (None, self.name))

    async def release(self, rm_id: str) -> None:
        """It is not led any more. If this fails, a take-over waits for the end of the lease."""
        seat, ownership = self._seats.get(rm_id), self._owners.get(rm_id)
        if seat is not None:
            seat.leads, seat.look = False, lambda: None
        if ownership is None or ownership.token != self.lease.token:
            return
        self._owners[rm_id] = Ownership("", "", ownership.revision)  # until the watch tells
        self._changed()
        try:
            await self._bus.delete(subjects.LEADERS.name, subjects.key_of(rm_id), ownership.revision)
        except BusError as error:
            log.info("not given back", rm=rm_id, error=str(error))

    # What runs beside.

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        for work in (self._hold(), self._watch_members(), self._watch_leaders(), self._elect()):
            tasks.create_task(work)

    async def _hold(self) -> None:
        """Hold the lease, again and again. Does not return; gives it back when it is cancelled. Raises ValueError when
        another core has this name."""
        presence = HolderLiveness(self._bus, subjects.member(self.name))
        heard_at: float | None = None
        try:
            while True:
                if await self._take_lease(presence):
                    heard_at = None
                    self._changed()
                    await self.lease.lost()
                    self._changed()
                    continue
                if not presence.is_answering:
                    heard_at = None
                elif heard_at is None:
                    heard_at = _now()
                elif _now() - heard_at >= limits.NAMESAKE_ENDS_S:
                    raise ValueError(f"instance {self.name!r}: another core has this name; each needs one of its own")
                await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        finally:
            await self.lease.release()

    async def _watch_members(self) -> None:
        """Does not return."""
        async for entry in self._bus.watch(subjects.LEASES.name):
            kind, _, name = entry.key.partition(".")
            if kind == subjects.MEMBER:
                self._see_member(name, entry)

    async def _watch_leaders(self) -> None:
        """Does not return."""
        async for entry in self._bus.watch(subjects.LEADERS.name):
            self._see_owner(subjects.rm_of_key(entry.key), entry)

    async def _elect(self) -> None:
        """Take what this process should lead, and have its leaders look whether they may stay, whenever something has
        changed. Does not return."""
        begun = _now()
        while True:
            started = _now()
            due = self._look()
            self._look_ready(begun)
            # With thousands of RMs a look takes milliseconds, and changes come one by one.
            await asyncio.sleep(limits.LOOKS_APART * (_now() - started))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            self._news.clear()

    # What follows from it.

    def leader_of(self, rm_id: str) -> str | None:
        ownership = self._owners.get(rm_id)
        return ownership.holder if ownership is not None and self._valid(ownership) else None

    def answerer(self, rm_id: str, *, of_leader: bool) -> str | None:
        """Which process answers questions about the RM: one that follows it, else its leader; None: `of_leader`, and
        there is none."""
        leader = self.leader_of(rm_id)
        if of_leader:
            return leader
        ready = {name for name, member in self._members.items() if member.ready} or self._members.keys()
        others = ready - {leader}
        return max(others, key=lambda name: score(rm_id, name)) if others else leader or self.name

    def _valid(self, ownership: Ownership) -> bool:
        if ownership.token == self.lease.token:
            return self.lease.held
        member = self._members.get(ownership.holder)
        return member is not None and member.token == ownership.token

    def _leads(self, rm_id: str) -> bool:
        ownership = self._owners.get(rm_id)
        return ownership is not None and ownership.token == self.lease.token and self.lease.held

    def _settled(self) -> bool:
        return _now() >= self._settled_at()

    def _settled_at(self) -> float:
        return self._ready_changed + limits.SETTLED_S

    def _owner(self, rm_id: str) -> str | None:
        if self._shares is None:
            self._shares = self._share({name for name, member in self._members.items() if member.ready})
        return self._shares.get(rm_id)

    def _share(self, ready: set[str]) -> dict[str, str]:
        """Who should lead whom. Those that are not ready count where none is."""
        holders = {rm_id: one.holder for rm_id, one in self._owners.items() if self._valid(one)}
        return shares(self._seats.keys() | holders.keys(), ready or self._members.keys(), holders)

    def _look(self) -> float | None:
        """Returns when to look again if nothing changes meanwhile."""
        due: list[float] = []
        free: list[tuple[str, Seat]] = []
        for rm_id, seat in self._seats.items():
            if seat.leads:
                if not self.may_stay(rm_id):
                    seat.look()
                elif not self._settled() and self._owner(rm_id) not in (None, self.name):
                    due.append(self._settled_at())
            elif seat.elected is not None and not seat.taking and self.lease.held:
                at = self._may_take_at(rm_id)
                if at is not None and at <= _now():
                    free.append((rm_id, seat))
                elif at is not None:
                    due.append(at)
        for rm_id, seat in sorted(free, key=lambda one: -one[1].last_ms()):
            seat.taking = True
            self._tasks.create_task(self._take(rm_id, seat))
        return min(due, default=None)

    def _may_take_at(self, rm_id: str) -> float | None:
        """When this process should take it: now if it is its turn, later if whose turn it is does not come; None: it is
        led by another process."""
        ownership = self._owners.get(rm_id)
        if ownership is not None and self._valid(ownership):
            self._free_since.pop(rm_id, None)
            return 0.0 if ownership.token == self.lease.token else None
        free_since = self._free_since.setdefault(rm_id, _now())
        return free_since + (0.0 if self._owner(rm_id) in (None, self.name) else limits.LEFT_TO_OWNER_S)

    async def _take(self, rm_id: str, seat: Seat) -> None:
        try:
            async with self.takes:
                ownership = self._owners.get(rm_id)
                if ownership is None or not self._leads(rm_id):
                    ownership = await self._take_from(rm_id, ownership)
                if seat.elected is not None and not seat.elected.done():
                    seat.elected.set_result(ownership)
                elif self._seats.get(rm_id) is not seat:
                    await self.release(rm_id)
        except Refused:
            pass  # another process was first; the watch tells
        except BusError as error:
            log.warning("not taken yet", rm=rm_id, error=str(error))
            await pause(RetryPolicy(limits.TAKE_RETRY_S))
            self._news.set()
        finally:
            seat.taking = False

    async def _take_from(self, rm_id: str, before: Ownership | None) -> Ownership:
        made = Ownership(self.name, self.lease.token, before.revision if before is not None else 0)
        revision = await self._bus.put(subjects.LEADERS.name, subjects.key_of(rm_id), made.encode(), made.revision)
        made = Ownership(made.holder, made.token, revision, inherited=before is not None and before.token != "")
        self._owners[rm_id] = made
        self._free_since.pop(rm_id, None)
        return made

    async def _take_lease(self, presence: HolderLiveness) -> bool:
        """Whether it is held now."""
        try:
            entry = await self._bus.get(subjects.LEASES.name, subjects.member(self.name))
            if entry is None:
                return await self.lease.try_acquire()
            holder = Holder.of(entry)
            if holder.token == self.lease.token or await presence.is_gone(holder, known=True):
                return await self.lease.try_acquire(holder.revision)
        except BusError as error:
            log.warning("lease not acquired yet", instance=self.name, error=str(error))
        return False

    async def _watch_over(self, name: str) -> None:
        """Ask that process whether it lives, and end its lease if it does not."""
        presence = HolderLiveness(self._bus, subjects.member(name))
        while (member := self._members.get(name)) is not None:
            if await presence.is_gone(Holder(name, member.token, member.revision)):
                now = self._members.get(name, member)
                with suppress(BusError):  # it has renewed it, or another process was first
                    await self._bus.delete(subjects.LEASES.name, subjects.member(name), now.revision)
            await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        self._watched_over.discard(name)

    def _look_ready(self, begun: float) -> None:
        """It is ready when it follows hot what it should lead, and from then on. RMs become known one by one: having
        caught up with the first of them does not count."""
        if not self._ready and self.lease.held and _now() - begun >= limits.READY_AFTER_S:
            ready = {one for one, member in self._members.items() if member.ready} | {self.name}
            own = (self._seats.get(rm_id) for rm_id, name in self._share(ready).items() if name == self.name)
            self._ready = all(seat is None or seat.hot for seat in own)
        elif not self._ready:
            asyncio.get_running_loop().call_later(limits.READY_AFTER_S, self._news.set)
        self.lease.set_details(ready=self._ready)
        health.PROCESS_HEALTH.set_status(
            "leads, and follows hot" if self._ready else "catches up with the logs", self._ready
        )

    def _see_member(self, name: str, entry: Entry) -> None:
        before = self._members.pop(name, None)
        if entry.value is not None:
            said = json.loads(entry.value)
            self._members[name] = Member(str(said.get("token")), bool(said.get("ready")), entry.revision)
        after = self._members.get(name)
        if after is not None and name != self.name and name not in self._watched_over:
            self._watched_over.add(name)
            self._tasks.create_task(self._watch_over(name))
        if before is None or after is None or (before.token, before.ready) != (after.token, after.ready):
            if (before is not None and before.ready) != (after is not None and after.ready):
                self._ready_changed = _now()
            self._changed()

    def _see_owner(self, rm_id: str, entry: Entry) -> None:
        before = self._owners.get(rm_id)
        if before is not None and entry.revision < before.revision:
            return  # this process has written since
        if entry.value is None:
            self._owners.pop(rm_id, None)
        else:
            self._owners[rm_id] = Ownership.of(entry)
        self._changed()

    def _changed(self) -> None:
        self._shares = None
        self._news.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
