"""Which core process leads which RM.

A core process holds one lease. The bucket LEADERS has an entry per RM, with the name of its leader and the token of the
leader's lease. The entry is not renewed. It is valid as long as the process holds the lease with that token."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry
from remuda_replication.lease.holder import Holder


@dataclass(frozen=True, slots=True)
class Ownership:
    """The entry of an RM. `holder`: the process that leads it. `token`: that of the process's lease. `revision`: that
    of the entry, which is the epoch of the leader's commits. `inherited`: the former leader has not given the RM back
    (not stored in the entry)."""

    holder: str
    token: str
    revision: int
    inherited: bool = False

    def encode(self) -> bytes:
        return json.dumps({"holder": self.holder, "token": self.token}).encode()

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The ownership in an entry. An unreadable entry has an empty holder."""
        try:
            found = json.loads(entry.value or b"{}")
            return cls(str(found["holder"]), str(found["token"]), entry.revision)
        except (ValueError, KeyError, TypeError):
            return cls("", "", entry.revision)


async def leader_of(bus: Bus, rm_id: str) -> str | None:
    """The name of the process that leads the RM, or another log; None: no process does."""
    entry = await bus.get(subjects.LEADERS.name, subjects.key_of(rm_id))
    if entry is None or entry.value is None:
        return None
    ownership = Ownership.of(entry)
    lease = await bus.get(subjects.LEASES.name, subjects.member(ownership.holder, subjects.member_kind(rm_id)))
    valid = lease is not None and Holder.of(lease).token == ownership.token
    return ownership.holder if valid else None
