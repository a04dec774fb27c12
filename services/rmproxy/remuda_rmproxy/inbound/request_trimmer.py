"""Deletes requests from REQUESTS once their commands are durable in the inbox."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.forwarding_progress import ForwardingProgress
from remuda_rmproxy.records.registry import RmRegistry

log = structlog.get_logger()


class RequestTrimmer:
    """Deletes complete requests from the stream. One call deletes everything up to the oldest request that is not
    complete. While a request waits for long, the requests of other RMs behind it are deleted RM by RM: they would
    reach the limit of their subjects otherwise.
    """

    def __init__(self, bus: Bus, registry: RmRegistry, progress: ForwardingProgress) -> None:
        self._bus = bus
        self._registry = registry
        self._progress = progress
        self._trimmed_seq = 0
        # Requests up to this sequence had been dispatched at this time.
        self._awaited_seq = 0
        self._awaited_since = 0.0

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            while not self._progress.queues and self._progress.dispatched_seq == self._trimmed_seq:
                await self._progress.change()
            await asyncio.sleep(limits.TRIM_REQUESTS_INTERVAL_S)
            try:
                await self._trim_all()
                if self._one_waits_for_long():
                    await self._trim_per_rm()
            except BusError as error:
                log.info("requests are not trimmed this time", error=str(error))

    async def _trim_all(self) -> None:
        forwarded_seq = self._progress.forwarded_seq
        if forwarded_seq != self._trimmed_seq:
            await self._bus.trim_all(subjects.REQUESTS.name, forwarded_seq + 1)
            self._trimmed_seq = forwarded_seq
            if not self._progress.queues:
                self._progress.all_trimmed()

    def _one_waits_for_long(self) -> bool:
        """Whether a request that was dispatched TRIM_PER_RM_AFTER_S ago is still not complete. Progress alone is no
        sign of the contrary: an RM whose requests are slow may have thousands of requests."""
        now = asyncio.get_running_loop().time()
        if self._trimmed_seq >= self._awaited_seq:
            self._awaited_seq, self._awaited_since = self._progress.dispatched_seq, now
        return self._trimmed_seq < self._awaited_seq and now - self._awaited_since >= limits.TRIM_PER_RM_AFTER_S

    async def _trim_per_rm(self) -> None:
        for rm_id in self._progress.take_untrimmed(limits.TRIM_PER_RM_AT_ONCE):
            if self._registry.get(rm_id) is not None:
                subject = subjects.request(subjects.check_rm_id(rm_id), "*")
                below = self._progress.forwarded_seq_of(rm_id) + 1
                await self._bus.trim(subjects.REQUESTS.name, subject, below)
