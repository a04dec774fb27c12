"""The processes of one kind there are, which of them leads which resource manager, and which should lead or follow it.

A process holds one lease, its entry in the bucket LEASES. The RMs that it leads are in the bucket LEADERS (`leaders`).
Every process watches both, checks the liveness of all others, and acts on its own part alone. It follows the RMs that
it leads, should lead or stands by for, and no others (docs/adr/leases-and-standbys.md).

All of this is for liveness. Processes that see different things get in each other's way; the chain of the log keeps
them from doing harm.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from remuda_bus import health, limits, subjects
from remuda_bus.bus import Bus, BusError, Entry, Refused
from remuda_bus.limits import HOLDER_CHECK_INTERVAL_S
from remuda_bus.retry import RetryPolicy, pause
from remuda_replication.lease import Holder, HolderLiveness, Lease, OutageLog, Ownership
from remuda_replication.snapshots import SnapshotListing

log = structlog.get_logger()


class Members:
    """`name` is this process's own among them. `kind`: of these processes, as in their leases (`subjects.member_kind`).
    `standbys`: how many processes follow an RM beside its leader. The highest setting of all processes counts."""

    def __init__(self, bus: Bus, instance: str, standbys: int = limits.STANDBYS, kind: str = subjects.MEMBER) -> None:
        self.name = subjects.token(instance)
        self._kind = kind
        self._membership = Membership(bus, self.name, self._changed, kind)
        self.lease = self._membership.lease
        self._bus = bus
        self._standbys = standbys
        self._members: dict[str, Member] = {}
        self._ended: deque[str] = deque(maxlen=limits.ENDED_MEMBERS)  # tokens of processes that were not killed
        self._introduced = False  # this process sees itself, and so every process that was there before it
        self._owners: dict[str, Ownership] = {}
        self._replicas: dict[str, Replica] = {}
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
        self._replicas[rm_id] = Replica(last_ms)
        self._changed()

    async def follows(self, rm_id: str, follows: bool) -> None:
        """Return when this process should follow the RM; `follows` false: when it should not any more."""
        await self._replicas[rm_id].until(follows)

    def should_follow(self, rm_id: str) -> bool:
        return self._replicas[rm_id].follows is True

    def hot(self, rm_id: str, hot: bool = True) -> None:
        """This process has caught up with its log. Not `hot`: it does not follow it any more."""
        self._replicas[rm_id].hot = hot
        self._news.set()

    def forget(self, rm_id: str) -> None:
        """The RM is halted or gone: this process forgets it."""
        self._replicas.pop(rm_id, None)
        self._changed()

    async def elected(self, rm_id: str) -> Ownership:
        """Returns when this process leads the RM."""
        replica = self._replicas[rm_id]
        replica.elected = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            ownership = await replica.elected
            replica.leads = True
            return ownership
        finally:
            replica.elected = None

    def when_unsettled(self, rm_id: str, look: Callable[[], None]) -> None:
        """Call this whenever `may_stay` has become false."""
        self._replicas[rm_id].look = look

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
        replica, before = self._replicas.get(rm_id), self._owners.get(rm_id)
        if replica is not None:
            replica.leads, replica.look = False, lambda: None
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
            await self._membership.hold()
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

    def _should_follow(self, rm_id: str, replica: Replica) -> bool:
        """By the rule. A process that follows already is not replaced by one that is still starting."""
        owner = self._owner(rm_id)
        leader = self.leader_of(rm_id) or owner
        if self.name in (leader, owner):
            return True
        order = self._ranked(rm_id)
        ahead = [name for name in order[: order.index(self.name)] if name != leader]
        if replica.follows:
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
            self._shares = shares(self._replicas.keys() | holders.keys(), self._members.keys(), holders)
        return self._shares.get(rm_id)

    def _look(self) -> float | None:
        """Returns when to look again if nothing changes meanwhile."""
        due: list[float] = []
        free: list[tuple[str, Replica]] = []
        for rm_id, replica in self._replicas.items():
            if replica.leads:
                if not self.may_stay(rm_id):
                    replica.look()
                elif not self._settled() and self._owner(rm_id) not in (None, self.name):
                    due.append(self._settled_at())
                continue
            if self._introduced and not replica.taking and (at := self._assign(rm_id, replica)) is not None:
                due.append(at)
            if replica.elected is not None and replica.follows and not replica.taking and self.lease.held:
                at = self._may_take_at(rm_id, replica)
                if at is not None and at <= _now():
                    free.append((rm_id, replica))
                elif at is not None:
                    due.append(at)
        for rm_id, replica in sorted(free, key=lambda one: -one[1].last_ms()):
            replica.taking = True
            self._tasks.create_task(self._take(rm_id, replica))
        return min(due, default=None)

    def _assign(self, rm_id: str, replica: Replica) -> float | None:
        """Begin or stop to follow the RM once the rule has required it for long enough. Returns when to check again."""
        follows = self._should_follow(rm_id, replica)
        if replica.follows is follows:
            replica.differs_since = None
            return None
        if replica.differs_since is None:
            replica.differs_since = _now()
        waits_s = limits.FOLLOWS_AFTER_S if follows else limits.FOLLOWS_ON_S
        at = replica.differs_since + (0.0 if replica.follows is None or self._leads(rm_id) else waits_s)
        if at > _now():
            return at
        replica.assign(follows)
        return None

    def _may_take_at(self, rm_id: str, replica: Replica) -> float | None:
        """When this process should take it: now if it is its turn, later if the process whose turn it is does not take
        it; None: it is led by another process."""
        ownership = self._owners.get(rm_id)
        if ownership is not None and self._valid(ownership):
            self._free_since.pop(rm_id, None)
            replica.stood_by = replica.hot
            return 0.0 if ownership.token == self.lease.token else None
        free_since = self._free_since.setdefault(rm_id, _now())
        heir = (
            ownership is not None and ownership.token != "" and replica.stood_by and self._is_heir_of(ownership, rm_id)
        )
        return free_since + (0.0 if heir or self._owner(rm_id) in (None, self.name) else limits.LEFT_TO_OWNER_S)

    def _is_heir_of(self, gone: Ownership, rm_id: str) -> bool:
        """Whether this process is the first that stood by while that one led the RM."""
        return next(name for name in self._ranked(rm_id) if name != gone.holder) == self.name

    async def _take(self, rm_id: str, replica: Replica) -> None:
        try:
            async with self.takes:
                ownership = self._owners.get(rm_id)
                if ownership is None or not self._leads(rm_id):
                    ownership = await self._take_from(rm_id, ownership)
                if replica.elected is not None and not replica.elected.done():
                    replica.elected.set_result(ownership)
                elif self._replicas.get(rm_id) is not replica:
                    await self.release(rm_id)
        except Refused:
            pass  # another process was first; the watch delivers that, or has done so
        except BusError as error:
            log.warning("not taken yet", rm=rm_id, error=str(error))
            await pause(RetryPolicy(limits.TAKE_RETRY_S))
        finally:
            replica.taking = False
            self._news.set()  # this replica was not looked at meanwhile

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
            self._ready = self._introduced and all(
                replica.hot for replica in self._replicas.values() if replica.follows
            )
        elif not self._ready:
            again = _now() + limits.READY_AFTER_S
        self.lease.set_details(**self._details())
        health.PROCESS_HEALTH.set_status(
            "leads, and follows hot" if self._ready else "catches up with the logs", self._ready
        )
        return again

    def _details(self) -> dict[str, object]:
        could_lead = (
            rm_id for rm_id, replica in self._replicas.items() if replica.elected is not None and not replica.leads
        )
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
            self._membership.watch_over(name, self._members, self._tasks)
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
            if ownership.token == self.lease.token and rm_id not in self._replicas:  # handed over while it was halted
                self._tasks.create_task(self.release(rm_id))
        self._changed()

    def _changed(self) -> None:
        self._shares = None
        self._news.set()


@dataclass(slots=True)
class Replica:
    """`last_ms`: time of the RM's last commit that is known here. `follows`: by the rule, this process follows or leads
    the RM; None: not decided yet. `differs_since`: since when the rule requires the opposite. `hot`: it has caught up
    with the log. `stood_by`: it was hot while another process led. `elected`: resolved when this process leads."""

    last_ms: Callable[[], int] = lambda: 0
    follows: bool | None = None
    differs_since: float | None = None
    hot: bool = False
    stood_by: bool = False
    elected: asyncio.Future[Ownership] | None = None
    taking: bool = False
    leads: bool = False
    look: Callable[[], None] = lambda: None  # the leader checks whether it may stay
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def assign(self, follows: bool) -> None:
        self.follows, self.differs_since = follows, None
        self._changed.set()

    async def until(self, follows: bool) -> None:
        """Return when the process should follow the RM, or should not any more."""
        while self.follows is not follows:
            self._changed.clear()
            await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Member:
    """The value of the lease of a process. `ready`: it has caught up with its RMs since its start. `token`
    distinguishes processes of the same name. `standbys`: its setting. `awaits`: RMs that it should lead, and could lead
    at once. `revision`: of the lease's entry, another one with every renewal. `ends`: it ends in an orderly way."""

    token: str
    ready: bool
    standbys: int
    awaits: frozenset[str]
    revision: int
    ends: bool = False

    @classmethod
    def of(cls, entry: Entry) -> Member:
        said = json.loads(entry.value or b"{}")
        return cls(
            str(said.get("token")),
            bool(said.get("ready")),
            int(said.get("standbys", 0)),
            frozenset(said.get("awaits", ())),
            entry.revision,
            bool(said.get("ends")),
        )


class Membership:
    """`name` is that of this process; `changed` is called when its lease is acquired or lost."""

    def __init__(self, bus: Bus, name: str, changed: Callable[[], None], kind: str = subjects.MEMBER) -> None:
        self._kind = kind
        self.lease = Lease(bus, subjects.member(name, kind), name)
        self._bus = bus
        self._name = name
        self._changed = changed
        self._watched_over: set[str] = set()
        self._outage = OutageLog()

    async def hold(self) -> None:
        """Hold the lease, again and again. Does not return; gives it back when it is cancelled. Raises ValueError when
        another process has this name."""
        liveness = HolderLiveness(self._bus, subjects.member(self._name, self._kind))
        heard_at: float | None = None
        try:
            while True:
                if await self._take_lease(liveness):
                    heard_at = None
                    self._changed()
                    await self.lease.lost()
                    self._changed()
                    continue
                if not liveness.is_answering:
                    heard_at = None
                elif heard_at is None:
                    heard_at = _now()
                elif _now() - heard_at >= limits.NAMESAKE_ENDS_S:
                    raise ValueError(
                        f"instance {self._name!r}: another process has this name; each needs one of its own"
                    )
                await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        finally:
            await self.lease.release(ends=True)

    async def _take_lease(self, liveness: HolderLiveness) -> bool:
        """Whether it is held now."""
        try:
            entry = await self._bus.get(subjects.LEASES.name, subjects.member(self._name, self._kind))
            if entry is None:
                return await self.lease.try_acquire()
            holder = Holder.of(entry)
            if holder.token == self.lease.token or await liveness.is_gone(holder, known=True):
                return await self.lease.try_acquire(holder.revision)
        except BusError as error:
            self._outage.warn("lease not acquired yet", instance=self._name, error=str(error))
        return False

    def watch_over(self, name: str, members: dict[str, Member], tasks: asyncio.TaskGroup) -> None:
        """Ask that process whether it lives, as long as it is in `members`, and end its lease if it does not."""
        if name != self._name and name not in self._watched_over:
            self._watched_over.add(name)
            tasks.create_task(self._watch_over(name, members))

    async def _watch_over(self, name: str, members: dict[str, Member]) -> None:
        liveness = HolderLiveness(self._bus, subjects.member(name, self._kind))
        while (member := members.get(name)) is not None:
            if await liveness.is_gone(Holder(name, member.token, member.revision)):
                now = members.get(name, member)
                with suppress(BusError):  # it has renewed it, or another process was first
                    await self._bus.delete(subjects.LEASES.name, subjects.member(name, self._kind), now.revision)
            await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        self._watched_over.discard(name)


def shares(rms: Collection[str], members: Collection[str], holders: Mapping[str, str]) -> dict[str, str]:
    """The member that should lead each RM. The numbers of RMs of two members differ by one at most. A leader keeps its
    RMs unless it has too many. Rendezvous hashing selects the RMs that move, and their new leaders.

    `holders`: the present leaders. Returns an empty map when there are no members."""
    if not members:
        return {}
    held: dict[str, list[str]] = {member: [] for member in members}
    for rm in rms:
        if holders.get(rm) in held:
            held[holders[rm]].append(rm)
    least, more = divmod(len(rms), len(members))
    most_first = sorted(members, key=lambda member: (-len(held[member]), member))
    room = {member: least + (place < more) for place, member in enumerate(most_first)}
    result: dict[str, str] = {}
    for member, has in held.items():
        kept = sorted(has, key=lambda rm: score(rm, member), reverse=True)[: room[member]]
        room[member] -= len(kept)
        result.update(dict.fromkeys(kept, member))
    for rm in sorted(set(rms) - set(result)):
        member = max((member for member, left in room.items() if left), key=lambda member: score(rm, member))
        room[member] -= 1
        result[rm] = member
    return result


def ranked(rm: str, members: Collection[str]) -> tuple[str, ...]:
    """The members in the order in which they stand by for the RM (rendezvous hashing). The first one that does not lead
    takes over. A new or lost member does not change the order of the others."""
    return tuple(sorted(members, key=lambda member: score(rm, member), reverse=True))


def score(rm: str, member: str) -> bytes:
    return hashlib.blake2b(f"{rm} {member}".encode(), digest_size=8).digest()


def _now() -> float:
    return asyncio.get_running_loop().time()
