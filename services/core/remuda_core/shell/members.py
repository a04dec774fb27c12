"""The cores there are, who of them leads which resource manager, and who should: seen through one watch of the bucket
LEASES, in which each core also announces itself.

All of this is for liveness. Cores that see different things get in each other's way; the chain of the log keeps them
from doing harm.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, Entry
from remuda_bus.lease import Holder

from .. import limits
from .sharing import shares

log = structlog.get_logger()

ANNOUNCE_EVERY_S = subjects.LEASES.ttl_s / 3


@dataclass(frozen=True, slots=True)
class Member:
    """`ready`: it follows every RM hot. `token` tells a process from another of the same name."""

    token: str
    ready: bool


class Members:
    """`name` is this process's own among them."""

    def __init__(self, bus: Bus, instance: str) -> None:
        self.name = subjects.token(instance)
        self._bus = bus
        self._key = subjects.member(instance)
        self._token = secrets.token_hex(8)
        self._members: dict[str, Member] = {}
        self._holders: dict[str, Holder] = {}
        self._free_since: dict[str, float] = {}  # of every RM that nobody leads
        self._behind: set[str] = set()  # RMs that are not followed hot yet
        self._ready = False
        self._ready_changed = _now()
        self._shares: dict[str | None, dict[str, str]] = {}  # by who is left out of account
        self._change = asyncio.Event()
        self._news = asyncio.Event()

    # What this process knows and does.

    def know(self, rm_id: str) -> None:
        """There is such an RM."""
        if rm_id not in self._holders:
            self._free_since.setdefault(rm_id, _now())
        self._behind.add(rm_id)
        self._changed()

    def hot(self, rm_id: str) -> None:
        """This process has caught up with its log."""
        self._behind.discard(rm_id)
        self._news.set()

    async def announce(self) -> None:
        """Does not return; takes the announcement back when it is cancelled."""
        begun = _now()
        try:
            while True:
                # RMs become known one by one: having caught up with the first of them does not count.
                self._ready = self._ready or (not self._behind and _now() - begun >= limits.READY_AFTER_S)
                health.OWN.say("follows every RM hot" if self._ready else "catches up with the logs", self._ready)
                value = json.dumps({"token": self._token, "ready": self._ready}).encode()
                try:
                    await self._bus.put(subjects.LEASES.name, self._key, value)
                except BusError as error:
                    log.warning("not announced", error=str(error))
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(ANNOUNCE_EVERY_S):
                        await self._news.wait()
        finally:
            with suppress(BusError):
                await self._bus.delete(subjects.LEASES.name, self._key)

    async def watch(self) -> None:
        """Does not return. Raises ValueError when another core has this one's name."""
        async for entry in self._bus.watch(subjects.LEASES.name):
            kind, _, name = entry.key.partition(".")
            if kind == subjects.MEMBER:
                self._see_member(name, entry)
            elif kind == subjects.CORE_LEASE:
                self._see_holder(subjects.rm_of_key(name), entry)

    async def changed(self, within_s: float) -> None:
        """Returns when somebody came, went, or leads something else; at the latest after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._change.wait()

    # What follows from it.

    def holder(self, rm_id: str) -> Holder | None:
        return self._holders.get(rm_id)

    def may_take(self, rm_id: str) -> bool:
        """Whether this process should try for the lease, which nobody has: it is its turn, or whose turn it is does not
        come."""
        free_s = _now() - self._free_since.get(rm_id, _now())
        return self._owner(rm_id) in (None, self.name) or free_s >= limits.LEFT_TO_OWNER_S

    def is_heir(self, rm_id: str) -> bool:
        """Whether this process should follow the one that leads."""
        holder = self._holders.get(rm_id)
        return holder is not None and self._without(holder.name).get(rm_id) == self.name

    def may_stay(self, rm_id: str) -> bool:
        """Whether this process, which leads it, should go on. Who comes and goes all the time is given nothing."""
        settled = _now() - self._ready_changed >= limits.SETTLED_S
        return not settled or self._owner(rm_id) in (None, self.name)

    def _owner(self, rm_id: str) -> str | None:
        return self._without(None).get(rm_id)

    def _without(self, name: str | None) -> dict[str, str]:
        """Who should lead whom, if that member were not there. Those that are not ready count where nobody is."""
        found = self._shares.get(name)
        if found is None:
            ready = {one for one, member in self._members.items() if member.ready} - {name}
            rms = self._holders.keys() | self._free_since.keys()
            holders = {rm_id: holder.name for rm_id, holder in self._holders.items()}
            everyone = self._members.keys() - {name} if name is not None else set()
            found = self._shares[name] = shares(rms, ready or everyone, holders)
        return found

    def _see_member(self, name: str, entry: Entry) -> None:
        before = self._members.get(name)
        if entry.value is None:
            self._members.pop(name, None)
        else:
            said = json.loads(entry.value)
            self._members[name] = Member(said["token"], said["ready"])
            if name == self.name and before is not None and before.token == self._token != said["token"]:
                raise ValueError(f"instance {name!r}: another core has this name; each needs one of its own")
        after = self._members.get(name)
        if before != after:
            if (before is not None and before.ready) != (after is not None and after.ready):
                self._ready_changed = _now()
            self._changed()

    def _see_holder(self, rm_id: str, entry: Entry) -> None:
        before = self._holders.pop(rm_id, None)
        if entry.value is None:
            self._free_since[rm_id] = _now()
        else:
            self._holders[rm_id] = Holder.of(entry)
            self._free_since.pop(rm_id, None)
        after = self._holders.get(rm_id)
        if (before and before.token) != (after and after.token):
            self._changed()

    def _changed(self) -> None:
        self._shares.clear()
        self._change.set()
        self._change = asyncio.Event()


def _now() -> float:
    return asyncio.get_running_loop().time()
