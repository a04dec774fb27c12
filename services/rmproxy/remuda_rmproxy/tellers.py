"""One `Teller` per RM, so that none waits for another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from remuda_bus.bus import Bus, BusError, Unanswered
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
        """Tell this RM, if it is not told already. Raises Unanswered when this process is ending."""
        if rm_id in self._followed:
            return
        self._followed.add(rm_id)
        asker = Asker(self._bus, rm_id, self._group)

        async def tell() -> None:
            teller = self._tellers[rm_id] = Teller(
                self._bus, rm_id, self._on_decision, asker.ask, lambda: self._hurried[rm_id] > 0
            )
            await teller.run()

        self._begin(asker.run(), f"answers of {rm_id}")
        self._begin(self._halts.guard(rm_id, tell), f"tell {rm_id}")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            self._group.create_task(work, name=name)
        except RuntimeError:  # a request may still be answered when the lease is lost
            work.close()
            raise Unanswered("this rmproxy is ending") from None

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
