"""Answers requests of guests: each becomes a command in the inbox of the RM whose partition they use.

A request is answered when its command is durable, with the position in the inbox. The guest learns what the core has
decided by queries, whose state it knows to be behind that position. So nothing is kept here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Full, Message, Refused
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_proto.bounds import shown
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.guests.guest_request import Admission, command_of
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.request_limiter import RequestLimiter
from remuda_rmproxy.records.status_codes import NOT_REGISTERED, OUTAGE

log = structlog.get_logger()


class GuestRequests:
    def __init__(self, bus: Bus, halts: Halts, admissions: Sequence[Admission]) -> None:
        self._bus = bus
        self._halts = halts
        self._admissions = admissions
        self._limiter = RequestLimiter(
            asyncio.get_running_loop().time, "requests of guests", limits.GUESTS_AT_ONCE, limits.GUESTS_PER_S,
            limits.GUESTS_BURST,
        )  # fmt: skip

    async def append(self, message: Message) -> bytes:
        """Appends the command of a guest to the inbox and answers JSON {"inbox_seq"}.

        Raises Refused: 400 the request is invalid, 403 the cluster is no guest of the RM, 404 there is no such RM, 429
        too many requests, 503 an outage, and then the command may be in the inbox.
        """
        with self._limiter.admit(message.subject.split(".")[2]):
            try:
                rm_id, command = command_of(message, self._admissions, self._bus.max_payload - HEADER_ROOM_BYTES)
                await self._check_rm(rm_id)
                seq = await self._bus.append(subjects.inbox(rm_id), command)
            except Refused as refusal:
                log.info("request of a guest refused", subject=message.subject, reason=refusal.reason)
                raise
            except Full as error:
                raise Refused(f"the inbox is full: {error}", OUTAGE) from None
            except BusError as error:
                raise Refused(f"{error}; asking again is safe", OUTAGE) from error
        return json.dumps({"inbox_seq": seq}).encode()

    async def _check_rm(self, rm_id: str) -> None:
        record, _ = await read_record(self._bus, rm_id)
        if record is None or record.state != "registered":
            raise Refused(f"rmID {shown(rm_id)} is not registered", NOT_REGISTERED)
        if halt := self._halts.get(rm_id):
            raise Refused(halt.explanation(), OUTAGE)
