"""The lease with which this process shows that it lives, its value, and the end of leases of dead processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, Entry
from remuda_bus.limits import HOLDER_CHECK_INTERVAL_S
from remuda_replication.lease import Holder, HolderLiveness, Lease
from remuda_replication.outage_log import OutageLog

log = structlog.get_logger()


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


class Presence:
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
        presence = HolderLiveness(self._bus, subjects.member(self._name, self._kind))
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
                    raise ValueError(
                        f"instance {self._name!r}: another process has this name; each needs one of its own"
                    )
                await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        finally:
            await self.lease.release(ends=True)

    async def _take_lease(self, presence: HolderLiveness) -> bool:
        """Whether it is held now."""
        try:
            entry = await self._bus.get(subjects.LEASES.name, subjects.member(self._name, self._kind))
            if entry is None:
                return await self.lease.try_acquire()
            holder = Holder.of(entry)
            if holder.token == self.lease.token or await presence.is_gone(holder, known=True):
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
        presence = HolderLiveness(self._bus, subjects.member(name, self._kind))
        while (member := members.get(name)) is not None:
            if await presence.is_gone(Holder(name, member.token, member.revision)):
                now = members.get(name, member)
                with suppress(BusError):  # it has renewed it, or another process was first
                    await self._bus.delete(subjects.LEASES.name, subjects.member(name, self._kind), now.revision)
            await asyncio.sleep(HOLDER_CHECK_INTERVAL_S)
        self._watched_over.discard(name)


def _now() -> float:
    return asyncio.get_running_loop().time()
