"""What cannot be handled: kept with the reason for an operator, and the RM is told. It never stops the line."""

from __future__ import annotations

import asyncio
import time

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers, Message, Unanswered
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_rmproxy import limits
from remuda_rmproxy.tellings import dead_letter_record

log = structlog.get_logger()


class DeadLetters:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def write(self, message: Message, rm_id: str, reason: str, headers: Headers) -> None:
        """Returns once it is kept. Whether the RM can be told as well must not hold up the requests of others."""
        log.warning("dead letter", rm=rm_id, subject=message.subject, request_seq=message.seq, reason=reason)
        await self._keep(message, rm_id, reason, headers)
        record = dead_letter_record(reason[: limits.DEAD_LETTER_REASON_CHARACTERS], message.seq, time.time_ns())
        told = subjects.callback(rm_id, "dead_letter")
        try:
            await self._bus.append(
                told, record.SerializeToString(), headers, msg_id=f"{rm_id}.dead_letter.{message.seq}"
            )
        except BusError as error:
            log.warning("the RM was not told of a dead letter", rm=rm_id, request_seq=message.seq, error=str(error))

    async def refused_by_core(self, rm_id: str, reason: str, request_seq: str) -> None:
        """A configuration the core has refused. The request is no longer there, its content is in the inbox."""
        origin = subjects.request(rm_id, "configuration")
        await self._keep(Message(origin, b"", seq=int(request_seq)), rm_id, reason, {})

    async def _keep(self, message: Message, rm_id: str, reason: str, headers: Headers) -> None:
        payload = message.payload
        reason = " ".join(reason.split())[: limits.DEAD_LETTER_REASON_CHARACTERS]
        if len(payload) > self._bus.max_payload - HEADER_ROOM_BYTES:
            reason, payload = f"{reason} (its {len(payload)} bytes leave no room for this: not kept)", b""
        kept = {
            **headers,
            subjects.REASON: reason,
            subjects.ORIGIN_SUBJECT: message.subject,
            subjects.ORIGIN_SEQ: str(message.seq),
        }
        subject, msg_id = subjects.dead_letter(rm_id), f"{rm_id}.{message.seq}"
        while True:
            try:
                await self._bus.append(subject, payload, kept, msg_id=msg_id)
                return
            except Unanswered as error:
                log.warning("a dead letter was not kept, trying again", rm=rm_id, error=str(error))
                await asyncio.sleep(limits.DEAD_LETTER_RETRY_S)
