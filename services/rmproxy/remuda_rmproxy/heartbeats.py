"""Hears the heartbeats of RMs, and tells the core who is silent, gone or back."""

from __future__ import annotations

import asyncio

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Message
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_rmproxy.limits import JUDGE_EVERY_S
from remuda_rmproxy.liveness import Liveness, Verdict
from remuda_rmproxy.session import Rm, Sessions

log = structlog.get_logger()


class Heartbeats:
    """An outage of the bus is no silence of the RMs: it costs this process its lease, and whoever is next begins
    anew."""

    def __init__(self, bus: Bus, sessions: Sessions) -> None:
        self._bus = bus
        self._sessions = sessions
        self._liveness = Liveness()
        self._now = asyncio.get_running_loop().time

    async def heard(self, message: Message) -> None:
        rm = self._sessions.get(subjects.rm_of(message.subject))
        if rm is None or rm.state != "registered" or rm.heartbeat is None:
            return
        said = message.headers.get(subjects.REGISTRATION, str(rm.registration))
        if said == str(rm.registration):  # else it is an instance that was superseded
            self._liveness.heard(rm, self._now())

    async def run(self) -> None:
        """For ever. A round is short, however many there are to tell of: or it would look like a time in which nobody
        listened."""
        while True:
            await asyncio.sleep(JUDGE_EVERY_S)
            judged = list(self._liveness.judge(self._sessions.in_state("registered"), self._now()))
            await asyncio.gather(*(self._tell(rm, verdict, reason) for rm, verdict, reason in judged))

    async def _tell(self, rm: Rm, verdict: Verdict, reason: str) -> None:
        connection = inbox_pb2.RmConnection(state=verdict, reason=reason, registration=rm.registration)
        command = inbox_pb2.Command(rm_connection=connection).SerializeToString()
        try:
            await self._bus.append(subjects.inbox(rm.rm_id), command)
        except BusError as error:
            log.warning("the core was not told yet", rm=rm.rm_id, connection=verdict, error=str(error))
            return
        log.info("heartbeats", rm=rm.rm_id, connection=verdict, reason=reason)
        self._liveness.told(rm, verdict, self._now())
