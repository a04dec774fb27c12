"""Receives the heartbeats of RMs and reports to the core which RM is lost, gone or back."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Message
from remuda_bus.retry import pause
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.liveness import ConnectionState, Liveness

log = structlog.get_logger()


class HeartbeatMonitor:
    """Reports RMs whose heartbeats stop or begin again. An outage of the bus does not count as silence of the RMs: this
    process loses its lease in it, and the next one starts with an empty monitor.
    """

    def __init__(self, bus: Bus, registry: RmRegistry) -> None:
        self._bus = bus
        self._registry = registry
        self._liveness = Liveness()
        self._now = asyncio.get_running_loop().time
        self._reporting: set[str] = set()
        self._slots = asyncio.Semaphore(limits.CONNECTION_REPORTS_AT_ONCE)

    def track(self, record: RmRecord) -> None:
        self._liveness.track(record, self._now())

    def untrack(self, rm_id: str) -> None:
        self._liveness.untrack(rm_id)

    async def on_heartbeat(self, message: Message) -> None:
        """Records a heartbeat; one of a superseded registration is ignored. Heartbeats of all RMs arrive here, so
        nothing is awaited.
        """
        record = self._registry.get(subjects.rm_of(message.subject))
        if record is None or record.state != "registered" or record.heartbeat is None:
            return
        registration = str(record.registration)
        if message.headers.get(subjects.REGISTRATION, registration) == registration:
            self._liveness.record_heartbeat(record, self._now())

    async def run(self) -> None:
        """Runs until cancelled. A round awaits no append: a long round would look like a stall of this process."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(limits.LIVENESS_INTERVAL_S)
                for record, state, reason in self._liveness.due_reports(self._now()):
                    if record.rm_id not in self._reporting:
                        self._reporting.add(record.rm_id)
                        group.create_task(self._report(record, state, reason))

    async def _report(self, record: RmRecord, state: ConnectionState, reason: str) -> None:
        connection = inbox_pb2.RmConnection(state=state, reason=reason, registration=record.registration)
        command = inbox_pb2.Command(rm_connection=connection).SerializeToString()
        try:
            async with self._slots:
                await self._bus.append(subjects.inbox(record.rm_id), command)
        except BusError as error:
            log.warning("connection state not reported, trying again", rm=record.rm_id, state=state, error=str(error))
            await pause(limits.PUBLISH_RETRY)
        else:
            log.info("connection state reported", rm=record.rm_id, state=state, reason=reason)
            self._liveness.mark_reported(record, state, self._now())
        finally:
            self._reporting.discard(record.rm_id)
