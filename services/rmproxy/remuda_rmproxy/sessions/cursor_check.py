"""Compares the callback cursor of each RM with the log (docs/adr/halts-and-faults.md).

An RM states with its registrations and heartbeats which commit its newest callback was about. If the log does not
contain that commit, it has lost part of its past, and the RM is halted.
"""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers, HistoryChanged, Message, Refused
from remuda_replication.log import Position, check_commit
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.records.status_codes import INVALID, OUTAGE

log = structlog.get_logger()


class CursorCheck:
    def __init__(self, bus: Bus, registry: RmRegistry, halts: Halts) -> None:
        self._bus = bus
        self._registry = registry
        self._halts = halts
        # The newest cursor that the log was found to contain, and the connection on which it was found.
        self._confirmed: dict[str, tuple[int, Position]] = {}
        self._reported: dict[str, Headers] = {}  # of the newest heartbeat of each RM in `_pending`
        self._pending: asyncio.Queue[str] = asyncio.Queue()  # RMs whose cursor is to be checked, each once
        self._earliest_check: dict[str, float] = {}
        self._now = asyncio.get_running_loop().time

    def untrack(self, rm_id: str) -> None:
        """Forgets the RM, which has no record any more."""
        self._confirmed.pop(rm_id, None)
        self._earliest_check.pop(rm_id, None)

    async def check_registration(self, rm_id: str, record: RmRecord | None, headers: Headers) -> None:
        """Checks the cursor that a registration states. `record`: the RM's record; None: it has none. Raises Refused:
        400 the headers are invalid, 503 the RM is halted, or becomes halted by this check; BusError.
        """
        if record is None or record.state != "report_wanted":
            await self._check(rm_id, headers)
        if halt := await self._halts.refresh(rm_id):
            raise Refused(halt.explanation(), OUTAGE)

    async def on_heartbeat(self, message: Message) -> None:
        """Schedules a check of the cursor in a heartbeat, of each RM at most one a second. Heartbeats of all RMs arrive
        here, so nothing is awaited. A heartbeat of a superseded registration, or from before a rebuild, is ignored.
        """
        rm_id = subjects.rm_of(message.subject)
        record, registration = self._registry.get(rm_id), message.headers.get(subjects.REGISTRATION)
        if record is None or record.state != "registered" or registration != str(record.registration):
            return
        if self._halts.get(rm_id) or subjects.LOG_SEQ not in message.headers:
            return
        if self._now() < self._earliest_check.get(rm_id, 0.0):
            return
        if rm_id not in self._reported:
            self._pending.put_nowait(rm_id)
        self._reported[rm_id] = message.headers

    async def run(self) -> None:
        """Runs until cancelled: checks the cursors of a few RMs at a time."""
        async with asyncio.TaskGroup() as group:
            for _ in range(limits.CURSOR_CHECKS_AT_ONCE):
                group.create_task(self._check_reported())

    async def _check_reported(self) -> None:
        while True:
            rm_id = await self._pending.get()
            headers = self._reported.pop(rm_id)
            if self._registry.get(rm_id) is None:
                continue
            self._earliest_check[rm_id] = self._now() + limits.CURSOR_CHECK_INTERVAL_S
            try:
                await self._check(rm_id, headers)
            except BusError as error:
                log.info("a callback cursor could not be compared with the log", rm=rm_id, error=str(error))

    async def _check(self, rm_id: str, headers: Headers) -> None:
        if subjects.LOG_SEQ not in headers:
            return
        try:
            position = Position.of(headers)
        except ValueError as error:
            raise Refused(str(error), INVALID) from None
        cursor = (self._bus.connection_count, position)
        if self._confirmed.get(rm_id) == cursor:
            return
        try:
            await check_commit(self._bus, rm_id, position)
        except HistoryChanged as error:
            await self._halts.halt(rm_id, f"the RM has a callback of a commit that the log does not hold: {error}")
            return
        if self._registry.get(rm_id) is not None:
            self._confirmed[rm_id] = cursor
