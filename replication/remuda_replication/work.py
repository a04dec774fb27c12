"""What a process does for each log that there is: stands by for it, and halts it when it or its messages are bad."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from remuda_bus.bus import Bus, BusError, HistoryChanged
from remuda_replication import trial
from remuda_replication.members import Members
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import FAULT, Halts
from remuda_replication.standby import Standby

S = TypeVar("S", bound=Standby)


class Work(Generic[S]):
    """`make`: makes the standby of a log. `standbys`: those that this process has, by log."""

    def __init__(
        self, bus: Bus, members: Members, halts: Halts, clock_ms: Callable[[], int], make: Callable[[str], S]
    ) -> None:
        self.standbys: dict[str, S] = {}
        self._members = members
        self._halts = halts
        self._faults = Faults(bus, halts, members.name, clock_ms)
        self._make = make

    async def stand_by(self, log_id: str) -> None:
        """Does not return. Raises what `Standby.run` raises, unless that halts the log."""
        await self._halts.guard(log_id, partial(self._stand_by, log_id))

    async def _stand_by(self, log_id: str) -> None:
        members, standbys = self._members, self.standbys
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
        except trial.DeadlyMessage as deadly:
            await self._halts.halt(standby.rm_id, str(deadly), FAULT)
        except Exception as fault:
            if not await self._faults.record(standby.rm_id, *standby.place_of(fault), fault):
                raise  # the state of this process may be damaged: it exits
        else:
            return
        await asyncio.get_running_loop().create_future()  # until the guard sees the halt

    def what_it_does(self) -> object:
        return {
            "instance": self._members.name,
            "rms": [
                {"rm": log_id, "leads": one.leads, "log_seq": one.position.seq, "at_ms": one.at_ms}
                for log_id, one in self.standbys.items()
            ],
        }
