"""Follows the bucket RMS: updates the registry, and starts or ends what rmproxy does for each RM with a record."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.inbound.request_worker import RequestWorker
from remuda_rmproxy.outbound.publishers import CallbackPublishers
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.sessions.cursor_check import CursorCheck
from remuda_rmproxy.sessions.heartbeat_monitor import HeartbeatMonitor

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecordWatch:
    """Holds everything that stores something of each RM with a record."""

    registry: RmRegistry
    publishers: CallbackPublishers
    heartbeats: HeartbeatMonitor
    cursor_check: CursorCheck
    worker: RequestWorker
    dead_letters: DeadLetters

    async def run(self, bus: Bus) -> None:
        """Runs until cancelled."""
        async for entry in bus.watch(subjects.RMS.name):
            self.on_change(subjects.rm_of_key(entry.key), entry.value)

    def on_change(self, rm_id: str, value: bytes | None) -> None:
        """Takes a change of a record. `value`: the record; None: it was removed. An RM whose record cannot be read
        counts as an RM without a record; the other RMs are not affected.
        """
        try:
            record = self.registry.update(rm_id, value)
        except (ValueError, TypeError, KeyError) as error:
            log.error("the record of an RM cannot be read", rm=rm_id, error=str(error))
            record = None
        if record is not None:
            self.heartbeats.track(record)
            self.publishers.start_for(rm_id)
            return
        self.publishers.stop_for(rm_id)
        self.heartbeats.untrack(rm_id)
        self.cursor_check.untrack(rm_id)
        self.worker.untrack(rm_id)
        self.dead_letters.untrack(rm_id)
