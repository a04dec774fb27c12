"""The RM as a witness: with its registrations and heartbeats it says up to where it was told, which the log has to hold
still."""

from __future__ import annotations

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, ChangedPast, Headers, Message, Refused
from remuda_bus.halts import Halts
from remuda_bus.log import Position, check_commit
from remuda_rmproxy.session import INVALID, OUTAGE, Sessions

log = structlog.get_logger()


class Witness:
    def __init__(self, bus: Bus, sessions: Sessions, halts: Halts) -> None:
        self._bus = bus
        self._sessions = sessions
        self._halts = halts
        self._looked: dict[str, tuple[int, Position]] = {}  # on which connection, what was found in the log

    async def check_registration(self, rm_id: str, headers: Headers) -> None:
        """Raises Refused: 400 when the headers are not understood, 503 when the RM is halted, or is now, because the
        log does not hold what they say; BusError."""
        rm = self._sessions.get(rm_id)
        if rm is None or rm.state != "report_wanted":
            await self._check(rm_id, headers)
        if halt := await self._halts.look(rm_id):
            raise Refused(halt.told(), OUTAGE)

    async def heard(self, message: Message) -> None:
        """A heartbeat. Of an instance that was superseded, or from before a rebuilding, it says nothing."""
        rm_id = subjects.rm_of(message.subject)
        rm, said = self._sessions.get(rm_id), message.headers.get(subjects.REGISTRATION)
        if rm is None or rm.state != "registered" or said != str(rm.registration) or self._halts.get(rm_id):
            return
        try:
            await self._check(rm_id, message.headers)
        except BusError as error:
            log.info("a heartbeat could not be compared with the log", rm=rm_id, error=str(error))

    async def _check(self, rm_id: str, headers: Headers) -> None:
        if subjects.LOG_SEQ not in headers:
            return
        try:
            position = Position.of(headers)
        except ValueError as error:
            raise Refused(str(error), INVALID) from None
        looked = (self._bus.connections, position)
        if self._looked.get(rm_id) == looked:
            return
        try:
            await check_commit(self._bus, rm_id, position)
        except ChangedPast as error:
            await self._halts.halt(rm_id, f"the RM was told what the log does not hold any more: {error}")
        else:
            self._looked[rm_id] = looked
