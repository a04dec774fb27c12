"""Members: the live processes of one kind, which of them leads each resource manager (RM), and which should lead or
follow it.

A process holds one lease, its entry in the bucket LEASES. The RMs that it leads are in the bucket LEADERS
(`lease.Ownership`). Every process watches both buckets, checks the liveness of all other members, and changes entries
of its own alone. It follows the RMs that it leads, should lead or stands by for, and no others
(docs/adr/leases-and-standbys.md).

The assignment is pure: all processes compute the same leaders and standbys from the same members, by rendezvous
hashing. All of this is for liveness. Processes that see different members may hinder each other; the chain of the log
keeps them from doing harm.
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

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, Entry, Refused
from remuda_bus.retry import RetryPolicy, pause
from remuda_replication.lease import HOLDER_CHECK_INTERVAL_S, Holder, HolderLiveness, Lease, OutageLog, Ownership
from remuda_replication.settings import STANDBYS
from remuda_replication.snapshots import SnapshotListing

# Processes that have ended in an orderly way, of which the RMs that they led may not be taken over yet.
ENDED_MEMBERS = 100
# An only process gives back what it led when it ends: thousands of RMs, if the bus answers.
GIVES_BACK_WITHIN_S = 2.0
# A core begins to follow an RM that it has not followed so far when the rule has said so for this long: a process that
# crashes is started again within it.
FOLLOWS_AFTER_S = 2.0
# A core follows an RM for so long after another was assigned: the other restores the state meanwhile, and a flapping
# core causes no restores.
FOLLOWS_ON_S = 15.0
# A lease's entry names at most so many RMs that its process could lead from now on: some 10 kB.
AWAITED_AT_ONCE = 64
# A lease that is free is left so long to the core whose turn it is.
LEFT_TO_OWNER_S = 1.0
# RMs are handed over when the same cores have been ready for so long: longer than a crashing process takes to start
# again, and a new core need not help within seconds.
SETTLED_S = 5.0
# Time after its start in which a core learns of all RMs.
READY_AFTER_S = 0.5
# The pause after an election, as a multiple of its duration.
LOOKS_APART = 4
# RMs that a process takes at the same time: more only wait for each other.
TAKES_AT_ONCE = 64
# After an outage of the bus, before an RM is taken again.
TAKE_RETRY_S = 0.2
# RMs whose snapshot is read and whose log is caught up with at the same time, when a core starts.
RESTORES_AT_ONCE = 16
# A process that is being stopped answers for at most so long; one that answers later is another of the same name.
NAMESAKE_ENDS_S = 2.0

log = structlog.get_logger()


class Members:
    """The members as this process sees them, and the replicas of this process.

    `name`: the name of this process among the members. `kind`: the kind of the processes, as in their leases
    (`subjects.member_kind`). `standbys`: how many processes follow an RM beside its leader; the highest setting of all
    processes counts. `takes` bounds the RMs that this process begins to lead at the same time, `restores` the RMs that
    it restores. `listing`: the snapshots of all RMs."""

    def __init__(self, bus: Bus, instance: str, standbys: int = STANDBYS, kind: str = subjects.MEMBER) -> None:
        self.name = subjects.token(instance)
        self._kind = kind
        self._membership = Membership(bus, self.name, self._changed, kind)
        self.lease = self._membership.lease
        self._bus = bus
        self._standbys = standbys
        self._members: dict[str, Member] = {}
        self._ended: deque[str] = deque(maxlen=ENDED_MEMBERS)  # tokens of processes that were not killed
        self._introduced = False  # this process sees its own lease, and so every older lease
        self._owners: dict[str, Ownership] = {}
        self._replicas: dict[str, Replica] = {}
        self._free_since: dict[str, float] = {}  # by RM that no process leads: since when, in s of the loop
        self._ready = False
        self._members_changed = _now()
        self._shares: dict[str, str] | None = None  # RM -> the process that should lead it; None: outdated
        self._ranks: dict[str, tuple[str, ...]] = {}  # by RM; computed again when a member joins or leaves
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup
        self.takes = asyncio.Semaphore(TAKES_AT_ONCE)
        self.restores = asyncio.Semaphore(RESTORES_AT_ONCE)
        self.listing = SnapshotListing(bus)

    # State of this process.

    def know(self, rm_id: str, last_ms: Callable[[], int] = lambda: 0) -> None:
        """Add an RM. `last_ms` returns the time of its last commit, in ms since 1970: among free RMs, this process
        takes the most recently active one first."""
        self._replicas[rm_id] = Replica(last_ms)
        self._changed()

    async def follows(self, rm_id: str, follows: bool) -> None:
        """Return when this process should follow the RM; with `follows` False, when it should no longer follow it."""
        await self._replicas[rm_id].until(follows)

    def should_follow(self, rm_id: str) -> bool:
        """Whether this process is assigned to follow or lead the RM."""
        return self._replicas[rm_id].follows is True

    def hot(self, rm_id: str, hot: bool = True) -> None:
        """Record that this process has caught up with the log of the RM; with `hot` False, that it no longer follows
        the log."""
        self._replicas[rm_id].hot = hot
        self._news.set()

    def forget(self, rm_id: str) -> None:
        """Remove an RM that is halted or was forgotten."""
        self._replicas.pop(rm_id, None)
        self._changed()

    async def elected(self, rm_id: str) -> Ownership:
        """Wait until this process leads the RM. Returns the entry of the RM in LEADERS."""
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
        """Call `look` whenever `may_stay` has become false for the RM."""
        self._replicas[rm_id].look = look

    def may_stay(self, rm_id: str) -> bool:
        """Whether this process, which leads the RM, should keep the lead. A process gives an RM up only to a process
        that can lead it at once, and only while the members are settled, so a flapping process gets no RMs."""
        return self._leads(rm_id) and (not self._settled() or self._successor(rm_id) is None)

    async def hand_over(self, rm_id: str) -> None:
        """Hand the RM over to its successor. If this fails, a take-over waits for the end of the lease."""
        await self._give_up(rm_id, self._successor(rm_id))

    async def release(self, rm_id: str) -> None:
        """Give the RM up without a successor. If this fails, a take-over waits for the end of the lease."""
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
        """Hold the lease of this process. Does not return. When the last member ends, no other member sees its last
        entry, so it gives its RMs back one by one: the next leader then knows that this process was not killed."""
        try:
            await self._membership.hold()
        finally:
            if not self._members.keys() - {self.name}:
                led = [rm_id for rm_id, one in self._owners.items() if one.token == self.lease.token]
                with suppress(TimeoutError):
                    async with asyncio.timeout(GIVES_BACK_WITHIN_S):
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
        """Whenever something has changed, take the RMs that this process should lead, and have its leaders check
        whether they may stay. Does not return."""
        begun = _now()
        while True:
            started = _now()
            due = min((at for at in (self._look(), self._publish(begun)) if at is not None), default=None)
            # With thousands of RMs a look takes milliseconds, and changes come one by one.
            await asyncio.sleep(LOOKS_APART * (_now() - started))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            self._news.clear()

    # Derived.

    def leader_of(self, rm_id: str) -> str | None:
        """The name of the live process that leads the RM; None: no process does."""
        ownership = self._owners.get(rm_id)
        return ownership.holder if ownership is not None and self._valid(ownership) else None

    def answerer(self, rm_id: str, *, of_leader: bool) -> str | None:
        """The name of the process that answers questions about the RM: the first standby that is ready, else the
        leader. With `of_leader`, the leader alone answers; None: no process leads the RM."""
        leader = self.leader_of(rm_id)
        if of_leader:
            return leader
        among = [name for name in self._ranked(rm_id) if name != leader and name in self._members]
        ready = [name for name in among if self._members[name].ready] or among
        return ready[0] if ready and self.standbys else leader or self.name

    @property
    def standbys(self) -> int:
        """The number of processes that follow an RM beside its leader."""
        return max([self._standbys, *(member.standbys for member in self._members.values())])

    def _ranked(self, rm_id: str) -> tuple[str, ...]:
        """All processes, this one included, in the order in which they stand by for the RM."""
        found = self._ranks.get(rm_id)
        if found is None:
            found = self._ranks[rm_id] = ranked(rm_id, {*self._members, self.name})
        return found

    def _should_follow(self, rm_id: str, replica: Replica) -> bool:
        """Whether the rule assigns the RM to this process. A process that is still starting does not replace a
        follower."""
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
        """The entry of the process that should lead the RM instead of this process, and could at once; None: no process
        should and could."""
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
        return self._members_changed + SETTLED_S

    def _owner(self, rm_id: str) -> str | None:
        """The process that should lead the RM."""
        if self._shares is None:
            holders = {rm_id: one.holder for rm_id, one in self._owners.items() if self._valid(one)}
            self._shares = shares(self._replicas.keys() | holders.keys(), self._members.keys(), holders)
        return self._shares.get(rm_id)

    def _look(self) -> float | None:
        """Check every RM: whether this process may stay its leader, should follow it, or may take it. Returns when to
        check again if nothing changes meanwhile."""
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
        waits_s = FOLLOWS_AFTER_S if follows else FOLLOWS_ON_S
        at = replica.differs_since + (0.0 if replica.follows is None or self._leads(rm_id) else waits_s)
        if at > _now():
            return at
        replica.assign(follows)
        return None

    def _may_take_at(self, rm_id: str, replica: Replica) -> float | None:
        """When this process should take the RM: at once if this process comes first, later if the process that comes
        first does not take it; None: another process leads it."""
        ownership = self._owners.get(rm_id)
        if ownership is not None and self._valid(ownership):
            self._free_since.pop(rm_id, None)
            replica.stood_by = replica.hot
            return 0.0 if ownership.token == self.lease.token else None
        free_since = self._free_since.setdefault(rm_id, _now())
        heir = (
            ownership is not None and ownership.token != "" and replica.stood_by and self._is_heir_of(ownership, rm_id)
        )
        return free_since + (0.0 if heir or self._owner(rm_id) in (None, self.name) else LEFT_TO_OWNER_S)

    def _is_heir_of(self, gone: Ownership, rm_id: str) -> bool:
        """Whether this process was the first standby while the former leader led the RM."""
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
            pass  # another process was first; the watch delivers its entry, or has delivered it
        except BusError as error:
            log.warning("not taken yet", rm=rm_id, error=str(error))
            await pause(RetryPolicy(TAKE_RETRY_S))
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
        """Set the value of the lease. The process is ready, for good, once it has caught up with all RMs that it should
        follow. RMs become known one by one, so the process waits for READY_AFTER_S before it counts as ready. Returns
        when to check again if nothing changes meanwhile."""
        again = None
        if not self._ready and self.lease.held and _now() - begun >= READY_AFTER_S:
            self._ready = self._introduced and all(
                replica.hot for replica in self._replicas.values() if replica.follows
            )
        elif not self._ready:
            again = _now() + READY_AFTER_S
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
        return {"ready": self._ready, "standbys": self._standbys, "awaits": awaits[:AWAITED_AT_ONCE]}

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
    """The part of this process for one RM: it follows the RM, waits to lead it, or leads it.

    `last_ms` returns the time of the last commit that this process has applied, in ms since 1970. `follows`: the rule
    assigns the RM to this process; None: not decided yet. `differs_since`: since when the rule requires the opposite of
    `follows`, in s of the loop; None: it does not. `hot`: this process has caught up with the log. `stood_by`: this
    process was hot while the last leader led. `elected` is resolved when this process leads; None: the replica does not
    wait to lead. `taking`: an attempt to write the entry in LEADERS is under way; meanwhile the assignment does not
    change. `leads`: this process leads. `look`: makes the leader check whether it may stay."""

    last_ms: Callable[[], int] = lambda: 0
    follows: bool | None = None
    differs_since: float | None = None
    hot: bool = False
    stood_by: bool = False
    elected: asyncio.Future[Ownership] | None = None
    taking: bool = False
    leads: bool = False
    look: Callable[[], None] = lambda: None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def assign(self, follows: bool) -> None:
        """Begin or stop to follow the RM."""
        self.follows, self.differs_since = follows, None
        self._changed.set()

    async def until(self, follows: bool) -> None:
        """Return when `follows` has this value."""
        while self.follows is not follows:
            self._changed.clear()
            await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Member:
    """The value of the lease of a process. `token` distinguishes processes of the same name. `ready`: the process has
    caught up with its RMs since its start. `standbys`: its setting. `awaits`: RMs that it should lead, and could lead
    at once. `revision`: the revision of the entry, which changes with every renewal. `ends`: the process ends in an
    orderly way, so its messages are not suspected of having killed it."""

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
    """The lease with which this process shows that it lives, and the detection of members that no longer do.

    `name`: the name of this process. `changed` is called when its lease is acquired or lost."""

    def __init__(self, bus: Bus, name: str, changed: Callable[[], None], kind: str = subjects.MEMBER) -> None:
        self._kind = kind
        self.lease = Lease(bus, subjects.member(name, kind), name)
        self._bus = bus
        self._name = name
        self._changed = changed
        self._watched_over: set[str] = set()
        self._outage = OutageLog()

    async def hold(self) -> None:
        """Hold the lease, and acquire it again when it is lost. Does not return; gives the lease back when cancelled.
        Raises ValueError when another live process has this name."""
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
                elif _now() - heard_at >= NAMESAKE_ENDS_S:
                    raise ValueError(
                        f"instance {self._name!r}: another process has this name, expected a name that no other has"
                    )
                await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        finally:
            await self.lease.release(ends=True)

    async def _take_lease(self, liveness: HolderLiveness) -> bool:
        """Try to acquire the lease. Returns whether this process holds it."""
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
        """Check the liveness of the named process for as long as it is in `members`, and end its lease when it is
        dead."""
        if name != self._name and name not in self._watched_over:
            self._watched_over.add(name)
            tasks.create_task(self._watch_over(name, members))

    async def _watch_over(self, name: str, members: dict[str, Member]) -> None:
        liveness = HolderLiveness(self._bus, subjects.member(name, self._kind))
        while (member := members.get(name)) is not None:
            if await liveness.is_gone(Holder(name, member.token, member.revision)):
                now = members.get(name, member)
                with suppress(BusError):  # its holder has renewed the lease, or another process was first
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
    """The rendezvous hash of an RM and a member: the member with the highest score comes first."""
    return hashlib.blake2b(f"{rm} {member}".encode(), digest_size=8).digest()


def _now() -> float:
    return asyncio.get_running_loop().time()
