"""Forgets RMs: removes everything that is stored of an RM that has deregistered long ago, or whose registration was
never decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import structlog

from remuda_bus.bus import Bus, BusError
from remuda_replication.rms.forget import BEING_FORGOTTEN, forget
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord, State

log = structlog.get_logger()


class RmForgetter:
    """Removes what is stored of RMs that deregistered long ago. `after_s`: time from the deregistration of an RM to its
    removal, unless the RM announces a shorter one.
    """

    def __init__(
        self,
        bus: Bus,
        registry: RmRegistry,
        halts: Halts,
        instance: str,
        clock_ms: Callable[[], int],
        after_s: float,
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._halts = halts
        self._instance = instance
        self._clock_ms = clock_ms
        self._after_s = after_s
        self._started_ms = clock_ms()
        self._registering_since_ms: dict[str, int] = {}

    async def run(self) -> None:
        """Runs until cancelled. Removes one RM after the other, because a removal takes seconds and room for it on the
        server is what the other RMs need."""
        while True:
            await asyncio.sleep(limits.FORGET_INTERVAL_S)
            for rm_id, states in list(self.due()):
                await self._forget(rm_id, states)

    def due(self) -> Iterator[tuple[str, Sequence[State]]]:
        """Yields the RMs to be removed now, with the states in which their records must still be; none: there is no
        record.
        """
        for record in self._registry.in_state("forgetting"):  # the removal was interrupted
            yield record.rm_id, ("forgetting",)
        for rm_id in self._halts.halted_because(BEING_FORGOTTEN):
            if self._registry.get(rm_id) is None:  # interrupted in its last step
                yield rm_id, ()
        for record in self._registry.in_state("deregistered"):
            if self._is_expired(record):
                yield record.rm_id, ("deregistered",)
        for rm_id in self._abandoned_registrations():
            yield rm_id, ("registering",)

    def _is_expired(self, record: RmRecord) -> bool:
        announced_s = record.forget_after_s
        after_s = self._after_s if announced_s is None else min(self._after_s, announced_s)
        # Former versions did not record the time of the deregistration.
        return self._clock_ms() - (record.deregistered_ms or self._started_ms) >= after_s * 1_000

    def _abandoned_registrations(self) -> list[str]:
        """RMs whose first registration the core has not decided for long: the command did not reach the inbox, or the
        core refused it while no rmproxy waited for the answer."""
        now_ms = self._clock_ms()
        registering = {record.rm_id for record in self._registry.in_state("registering")}
        self._registering_since_ms = {rm_id: self._registering_since_ms.get(rm_id, now_ms) for rm_id in registering}
        abandoned_ms = limits.REGISTRATION_ABANDONED_S * 1_000
        return [rm_id for rm_id, since_ms in self._registering_since_ms.items() if now_ms - since_ms >= abandoned_ms]

    async def _forget(self, rm_id: str, states: Sequence[State]) -> None:
        try:
            is_forgotten = await forget(self._bus, rm_id, self._instance, self._clock_ms, states)
        except BusError as error:
            log.info("the RM is not removed this time", rm=rm_id, error=str(error))
            return
        if is_forgotten:
            log.info("RM forgotten", rm=rm_id)
