"""One `Teller` per RM, so that none waits for another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from remuda_bus.bus import Bus, BusError
from remuda_bus.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.predicates import Asker
from remuda_rmproxy.tell import OnDecision, Teller

log = structlog.get_logger()


class Tellers:
    """The tasks live in `group`; an RM whose log cannot be read ends the process, one whose log has changed is halted
    and told nothing."""

    def __init__(self, bus: Bus, group: asyncio.TaskGroup, halts: Halts, on_decision: OnDecision) -> None:
        self._bus = bus
        self._halts = halts
        self._group = group
        self._on_decision = on_decision
        self._followed: set[str] = set()
        self._hurried: Counter[str] = Counter()
        self._tellers: dict[str, Teller] = {}

    def follow(self, rm_id: str) -> None:
        """Tell this RM, if it is not told already."""
        if rm_id in self._followed:
            return
        self._followed.add(rm_id)
        asker = Asker(self._bus, rm_id, self._group)

        async def tell() -> None:
            teller = self._tellers[rm_id] = Teller(
                self._bus, rm_id, self._on_decision, asker.ask, lambda: self._hurried[rm_id] > 0
            )
            await teller.run()

        self._group.create_task(asker.run(), name=f"answers of {rm_id}")
        self._group.create_task(self._halts.guard(rm_id, tell), name=f"tell {rm_id}")

    @contextmanager
    def in_a_hurry(self, rm_id: str) -> Iterator[None]:
        """While somebody waits for a decision, the RM is told on whatever it has not acknowledged: what it waits for is
        behind that."""
        self._hurried[rm_id] += 1
        try:
            yield
        finally:
            self._hurried[rm_id] -= 1

    async def trim(self) -> None:
        """For ever, now and then: make room in CALLBACKS."""
        while True:
            await asyncio.sleep(limits.TRIM_CALLBACKS_EVERY_S)
            for teller in list(self._tellers.values()):
                try:
                    await teller.trim()
                except BusError as error:
                    log.info("callbacks not trimmed this time", error=str(error))
