"""The processes of one kind there are, which of them leads which resource manager, and which should lead or follow it.

A process holds one lease, its entry in the bucket LEASES. The RMs that it leads are in the bucket LEADERS (`leaders`).
Every process watches both, checks the liveness of all others, and acts on its own part alone. It follows the RMs that
it leads, should lead or stands by for, and no others (docs/adr/leases-and-standbys.md).

All of this is for liveness. Processes that see different things get in each other's way; the chain of the log keeps
them from doing harm.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog

from remuda_bus import health, limits, subjects
from remuda_bus.bus import Bus, BusError, Entry, Refused
from remuda_bus.retry import RetryPolicy, pause
from remuda_replication.lease.leaders import Ownership
from remuda_replication.presence import Member, Presence
from remuda_replication.seat import Seat
from remuda_replication.sharing import ranked, shares
from remuda_replication.snapshots import SnapshotListing

log = structlog.get_logger()


class Members:
    """`name` is this process's own among them. `kind`: of these processes, as in their leases (`subjects.member_kind`).
    `standbys`: how many processes follow an RM beside its leader. The highest setting of all processes counts."""

    def __init__(self, bus: Bus, instance: str, standbys: int = limits.STANDBYS, kind: str = subjects.MEMBER) -> None:
        self.name = subjects.token(instance)
        self._kind = kind
        self._presence = Presence(bus, self.name, self._changed, kind)
        self.lease = self._presence.lease
        self._bus = bus
        self._standbys = standbys
        self._members: dict[str, Member] = {}
        self._ended: deque[str] = deque(maxlen=limits.ENDED_MEMBERS)  # tokens of processes that were not killed
        self._introduced = False  # this process sees itself, and so every process that was there before it
        self._owners: dict[str, Ownership] = {}
        self._seats: dict[str, Seat] = {}
        self._free_since: dict[str, float] = {}  # of every RM that no process leads
        self._ready = False
        self._members_changed = _now()
        self._shares: dict[str, str] | None = None  # RM -> the process that should lead it; None: outdated
        self._ranks: dict[str, tuple[str, ...]] = {}  # of each RM; computed again when processes come and go
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self.takes = asyncio.Semaphore(limits.TAKES_AT_ONCE)
        self.restores = asyncio.Semaphore(limits.RESTORES_AT_ONCE)
        self.listing = SnapshotListing(bus)

    # State of this process.

    def know(self, rm_id: str, last_ms: Callable[[], int] = lambda: 0) -> None:
        """There is such an RM. `last_ms`: when something was decided for it: the most recent is taken first."""
        self._seats[rm_id] = Seat(last_ms)
        self._changed()

    async def follows(self, rm_id: str, follows: bool) -> None:
        """Return when this process should follow the RM; `follows` false: when it should not any more."""
        await self._seats[rm_id].until(follows)

    def should_follow(self, rm_id: str) -> bool:
        return self._seats[rm_id].follows is True

    def hot(self, rm_id: str, hot: bool = True) -> None:
        """This process has caught up with its log. Not `hot`: it does not follow it any more."""
        self._seats[rm_id].hot = hot
        self._news.set()

    def forget(self, rm_id: str) -> None:
        """The RM is halted or gone: this process forgets it."""
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
        """Whether this process, which leads the RM, should keep it: it gives the RM up only to a process that can lead
        it at once. A flapping core gets no RMs."""
        return self._leads(rm_id) and (not self._settled() or self._successor(rm_id) is None)

    async def hand_over(self, rm_id: str) -> None:
        """Hand the RM over: its successor leads it from now on. If this fails, a take-over waits for the end of
        the lease."""
        await self._give_up(rm_id, self._successor(rm_id))

    async def release(self, rm_id: str) -> None:
        """Stop leading the RM, without a successor. If this fails, a take-over waits for the end of the lease."""
        await self._give_up(rm_id, None)

    async def _give_up(self, rm_id: str, successor: Ownership | None) -> None:
        seat, before = self._seats.get(rm_id), self._owners.get(rm_id)
        if seat is not None:
            seat.leads, seat.look = False, lambda: None
        if before is None or before.token != self.lease.token:
            return
        self._owners[rm_id] = Ownership("", "", before.revision)  # until the watch delivers the change
        self._changed()
        bucket, key = subjects.LEADERS.name, subjects.key_of(rm_id)
        try:
            if successor is not None:
                await self._bus.put(bucket, key, successor.encode(), before.revision)
            else:
                await self._bus.delete(bucket, key, before.revision)
        except BusError as error:
            log.info("not given back", rm=rm_id, error=str(error))

    # Tasks.

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        for work in (self._hold(), self._watch_members(), self._watch_leaders(), self._elect()):
            tasks.create_task(work)

    async def _hold(self) -> None:
        """Does not return. Where no other process sees this one end, its RMs are given back one by one: who leads them
        next knows that it was not killed."""
        try:
            await self._presence.hold()
        finally:
            if not self._members.keys() - {self.name}:
                led = [rm_id for rm_id, one in self._owners.items() if one.token == self.lease.token]
                with suppress(TimeoutError):
                    async with asyncio.timeout(limits.GIVES_BACK_WITHIN_S):
                        await asyncio.gather(*(self.release(rm_id) for rm_id in led))

    async def _watch_members(self) -> None:
        """Does not return."""
        async for entry in self._bus.watch(subjects.LEASES.name):
            kind, _, name = entry.key.rpartition(".")
            if kind == self._kind:
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
            due = min((at for at in (self._look(), self._publish(begun)) if at is not None), default=None)
            # With thousands of RMs a look takes milliseconds, and changes come one by one.
            await asyncio.sleep(limits.LOOKS_APART * (_now() - started))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            self._news.clear()

    # Derived.

    def leader_of(self, rm_id: str) -> str | None:
        ownership = self._owners.get(rm_id)
        return ownership.holder if ownership is not None and self._valid(ownership) else None

    def answerer(self, rm_id: str, *, of_leader: bool) -> str | None:
        """Which process answers questions about the RM: the first that stands by for it, else its leader; None:
        `of_leader`, and there is none."""
        leader = self.leader_of(rm_id)
        if of_leader:
            return leader
        among = [name for name in self._ranked(rm_id) if name != leader and name in self._members]
        ready = [name for name in among if self._members[name].ready] or among
        return ready[0] if ready and self.standbys else leader or self.name

    @property
    def standbys(self) -> int:
        """How many processes follow an RM beside its leader."""
        return max([self._standbys, *(member.standbys for member in self._members.values())])

    def _ranked(self, rm_id: str) -> tuple[str, ...]:
        """All processes, this one included, in the order in which they stand by for the RM."""
        found = self._ranks.get(rm_id)
        if found is None:
            found = self._ranks[rm_id] = ranked(rm_id, {*self._members, self.name})
        return found

    def _should_follow(self, rm_id: str, seat: Seat) -> bool:
        """By the rule. A process that follows already is not replaced by one that is still starting."""
        owner = self._owner(rm_id)
        leader = self.leader_of(rm_id) or owner
        if self.name in (leader, owner):
            return True
        order = self._ranked(rm_id)
        ahead = [name for name in order[: order.index(self.name)] if name != leader]
        if seat.follows:
            ahead = [name for name in ahead if self._members[name].ready]
        return len(ahead) < self.standbys

    def _successor(self, rm_id: str) -> Ownership | None:
        """The process that should lead the RM instead of this one, and could at once."""
        name = self._owner(rm_id)
        member = self._members.get(name) if name not in (None, self.name) else None
        return Ownership(name or "", member.token, 0) if member is not None and rm_id in member.awaits else None

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
        return self._members_changed + limits.SETTLED_S

    def _owner(self, rm_id: str) -> str | None:
        """The process that should lead the RM."""
        if self._shares is None:
            holders = {rm_id: one.holder for rm_id, one in self._owners.items() if self._valid(one)}
            self._shares = shares(self._seats.keys() | holders.keys(), self._members.keys(), holders)
        return self._shares.get(rm_id)

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
                continue
            if self._introduced and not seat.taking and (at := self._assign(rm_id, seat)) is not None:
                due.append(at)
            if seat.elected is not None and seat.follows and not seat.taking and self.lease.held:
                at = self._may_take_at(rm_id, seat)
                if at is not None and at <= _now():
                    free.append((rm_id, seat))
                elif at is not None:
                    due.append(at)
        for rm_id, seat in sorted(free, key=lambda one: -one[1].last_ms()):
            seat.taking = True
            self._tasks.create_task(self._take(rm_id, seat))
        return min(due, default=None)

    def _assign(self, rm_id: str, seat: Seat) -> float | None:
        """Begin or stop to follow the RM once the rule has required it for long enough. Returns when to check again."""
        follows = self._should_follow(rm_id, seat)
        if seat.follows is follows:
            seat.differs_since = None
            return None
        if seat.differs_since is None:
            seat.differs_since = _now()
        waits_s = limits.FOLLOWS_AFTER_S if follows else limits.FOLLOWS_ON_S
        at = seat.differs_since + (0.0 if seat.follows is None or self._leads(rm_id) else waits_s)
        if at > _now():
            return at
        seat.assign(follows)
        return None

    def _may_take_at(self, rm_id: str, seat: Seat) -> float | None:
        """When this process should take it: now if it is its turn, later if the process whose turn it is does not take
        it; None: it is led by another process."""
        ownership = self._owners.get(rm_id)
        if ownership is not None and self._valid(ownership):
            self._free_since.pop(rm_id, None)
            seat.stood_by = seat.hot
            return 0.0 if ownership.token == self.lease.token else None
        free_since = self._free_since.setdefault(rm_id, _now())
        heir = ownership is not None and ownership.token != "" and seat.stood_by and self._is_heir_of(ownership, rm_id)
        return free_since + (0.0 if heir or self._owner(rm_id) in (None, self.name) else limits.LEFT_TO_OWNER_S)

    def _is_heir_of(self, gone: Ownership, rm_id: str) -> bool:
        """Whether this process is the first that stood by while that one led the RM."""
        return next(name for name in self._ranked(rm_id) if name != gone.holder) == self.name

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
            pass  # another process was first; the watch delivers that, or has done so
        except BusError as error:
            log.warning("not taken yet", rm=rm_id, error=str(error))
            await pause(RetryPolicy(limits.TAKE_RETRY_S))
        finally:
            seat.taking = False
            self._news.set()  # this seat was not looked at meanwhile

    async def _take_from(self, rm_id: str, before: Ownership | None) -> Ownership:
        made = Ownership(self.name, self.lease.token, before.revision if before is not None else 0)
        revision = await self._bus.put(subjects.LEADERS.name, subjects.key_of(rm_id), made.encode(), made.revision)
        killed = before is not None and before.token not in ("", *self._ended)
        made = Ownership(made.holder, made.token, revision, inherited=killed)
        self._owners[rm_id] = made
        self._free_since.pop(rm_id, None)
        return made

    def _publish(self, begun: float) -> float | None:
        """Set the value of the lease. The process is ready once it has caught up with all RMs that it should follow,
        and from then on. RMs become known one by one, so the first of them alone does not make it ready. Returns when
        to look again if nothing changes meanwhile."""
        again = None
        if not self._ready and self.lease.held and _now() - begun >= limits.READY_AFTER_S:
            self._ready = self._introduced and all(seat.hot for seat in self._seats.values() if seat.follows)
        elif not self._ready:
            again = _now() + limits.READY_AFTER_S
        self.lease.set_details(**self._details())
        health.PROCESS_HEALTH.set_status(
            "leads, and follows hot" if self._ready else "catches up with the logs", self._ready
        )
        return again

    def _details(self) -> dict[str, object]:
        could_lead = (rm_id for rm_id, seat in self._seats.items() if seat.elected is not None and not seat.leads)
        awaits = sorted(
            rm_id
            for rm_id in could_lead
            if self._owner(rm_id) == self.name and self.leader_of(rm_id) not in (None, self.name)
        )
        return {"ready": self._ready, "standbys": self._standbys, "awaits": awaits[: limits.AWAITED_AT_ONCE]}

    def _see_member(self, name: str, entry: Entry) -> None:
        before = self._members.pop(name, None)
        if before is not None and before.ends:
            self._ended.append(before.token)
        if entry.value is not None:
            self._members[name] = Member.of(entry)
        after = self._members.get(name)
        if after is not None and after.token == self.lease.token:
            self._introduced = True
        if after is not None:
            self._presence.watch_over(name, self._members, self._tasks)
        if before is not None and after is not None and replace(before, revision=after.revision) == after:
            return
        if before is None or after is None or (before.token, before.ready) != (after.token, after.ready):
            self._members_changed = _now()
            self._ranks.clear()
        self._changed()

    def _see_owner(self, rm_id: str, entry: Entry) -> None:
        before = self._owners.get(rm_id)
        if before is not None and entry.revision < before.revision:
            return  # this process has written since
        if entry.value is None:
            self._owners.pop(rm_id, None)
        else:
            self._owners[rm_id] = ownership = Ownership.of(entry)
            if ownership.token == self.lease.token and rm_id not in self._seats:  # handed over while it was halted
                self._tasks.create_task(self.release(rm_id))
        self._changed()

    def _changed(self) -> None:
        self._shares = None
        self._news.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
