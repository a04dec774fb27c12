"""The holder of a lease, and whether it is alive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, BusError, Entry, NoResponders
from remuda_bus.untrusted import Malformed, json_object

log = structlog.get_logger()


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
        await asyncio.sleep(limits.HOLDER_CHECK_INTERVAL_S)
        gone = await self._has_no_responder(holder, known)
        if gone:
            log.warning("the holder of a lease is gone", lease=self._key, holder=holder.name)
        return gone

    async def _has_no_responder(self, holder: Holder, known: bool) -> bool:
        here = (holder.token, self._bus.connection_count)
        self.is_answering = False
        try:
            await self._bus.request(subjects.lease_holder(self._key), timeout_s=limits.HOLDER_CHECK_TIMEOUT_S)
        except NoResponders:
            return known or self._answered == (holder.token, self._bus.connection_count)
        except BusError:
            return False
        self._answered, self.is_answering = here, True
        return False
