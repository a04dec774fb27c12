"""The RM as a witness: the position of the last callback it has worked on, which the log has to hold still."""

from __future__ import annotations

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, ChangedPast, Headers, Refused
from remuda_bus.halts import Halts
from remuda_bus.log import Position, check_commit
from remuda_rmproxy.session import INVALID, OUTAGE

log = structlog.get_logger()


class Witness:
    def __init__(self, bus: Bus, halts: Halts) -> None:
        self._bus = bus
        self._halts = halts

    async def refuse_if_halted(self, rm_id: str) -> None:
        if halt := await self._halts.look(rm_id):
            raise Refused(halt.told(), OUTAGE)

    async def hear(self, rm_id: str, headers: Headers) -> None:
        """Raises Refused: 400 when the headers are not understood, 503 when what they say is not what the log holds:
        then the RM is halted."""
        if subjects.LOG_SEQ not in headers:
            return
        try:
            position = Position.of(headers)
        except ValueError as error:
            raise Refused(str(error), INVALID) from None
        try:
            await check_commit(self._bus, rm_id, position)
        except ChangedPast as error:
            await self._halts.halt(rm_id, f"the RM was told what the log does not hold any more: {error}")
            await self.refuse_if_halted(rm_id)
