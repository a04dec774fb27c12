"""Dead letters: requests that cannot be handled. The stream DEAD_LETTERS stores each with the reason, for an operator,
and a callback informs the RM. A dead letter never holds up later requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Headers, Message, Outgoing, Unanswered
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.metrics import OTHERS, rm_label
from remuda_bus.retry import retry
from remuda_bus.streams.ordered_append import append_in_order
from remuda_proto.secret_fields import has_secrets, redacted
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits, metrics
from remuda_rmproxy.inbound.request_queue import UNKNOWN_SENDERS
from remuda_rmproxy.records.dead_letter_record import dead_letter_record
from remuda_rmproxy.records.registry import RmRegistry

log = structlog.get_logger()

REQUESTS: Final[dict[str, type[Any]]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
    "configuration": si.UpdateConfigurationRequest,
}


class DeadLetters:
    """Stores requests that cannot become commands, and tells their RMs.

    `on_callback` is called with the rmID and the sequence of each callback about a dead letter. CALLBACKS refuses when
    it is full, and all RMs share it, so callbacks about dead letters are bounded: for each RM, and for all senders
    without a record together. Beyond the bound only the dead letter is stored.
    """

    def __init__(
        self, bus: Bus, registry: RmRegistry, on_callback: Callable[[str, int], None] = lambda rm_id, callback_seq: None
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._on_callback = on_callback
        # Callbacks to publish until CALLBACKS is asked again how many it holds; negative: to skip until then.
        self._room: dict[str, int] = {}

    def untrack(self, rm_id: str) -> None:
        """Forgets the RM, which has no record any more."""
        self._room.pop(rm_id, None)

    async def write(self, message: Message, rm_id: str, reason: str, headers: Headers) -> None:
        """Returns when the dead letter is durable. A failure to publish the callback is logged: it must not hold up the
        requests of other senders."""
        self._count(rm_id)
        log.warning("dead letter", rm=rm_id, subject=message.subject, request_seq=message.seq, reason=reason)
        await self._store(message, rm_id, reason, headers)
        callback = _callback(message, rm_id, reason, headers)
        try:
            if await self._has_room(rm_id):
                self._on_callback(rm_id, await self._append(callback))
        except BusError as error:
            log.warning("no callback about a dead letter", rm=rm_id, request_seq=message.seq, error=str(error))

    async def write_all(self, messages: Sequence[Message], reason: str) -> None:
        """Writes dead letters of many requests at once, without their content. Raises BusError."""
        first, last = messages[0], messages[-1]
        log.warning("dead letters", subject=first.subject, first_seq=first.seq, last_seq=last.seq, reason=reason)
        sent = [(message, subjects.rm_of(message.subject)) for message in messages]
        for _, rm_id in sent:
            self._count(rm_id)
        await append_in_order(self._bus, (_dead_letter(message, rm_id, reason, most=0) for message, rm_id in sent))
        try:
            informed = [(message, rm_id) for message, rm_id in sent if await self._has_room(rm_id)]
            callbacks = (_callback(message, rm_id, reason) for message, rm_id in informed)
            seq = await append_in_order(self._bus, callbacks, limits.APPEND_TIMEOUT_S)
            for rm_id in {rm_id for _, rm_id in informed}:
                self._on_callback(rm_id, seq)
        except BusError as error:
            log.warning("no callbacks about dead letters", first_seq=first.seq, last_seq=last.seq, error=str(error))

    def _count(self, rm_id: str) -> None:
        """Senders without a record share a label: there may be any number of them, and of labels there are few."""
        label = OTHERS if self._registry.get(rm_id) is None else rm_label(rm_id)
        metrics.DEAD_LETTERS.labels(label).inc()

    async def _has_room(self, rm_id: str) -> bool:
        """Raises BusError."""
        is_known = self._registry.get(rm_id) is not None
        key = rm_id if is_known else UNKNOWN_SENDERS
        room = self._room.get(key, 0)
        if room == 0:
            subject = subjects.callback(rm_id if is_known else "*", "dead_letter")
            most = limits.DEAD_LETTER_CALLBACKS if is_known else limits.DEAD_LETTER_CALLBACKS_OF_UNKNOWN
            held = await self._bus.message_count(subjects.CALLBACKS.name, subject)
            every = limits.DEAD_LETTER_CALLBACKS_COUNTED_EVERY
            room = min(most - held, every) if held < most else -every
            if room < 0:
                log.warning("no more callbacks about dead letters", rm=rm_id if is_known else "*", held=held)
        self._room[key] = room - 1 if room > 0 else room + 1
        return room > 0

    async def write_refused_configuration(self, rm_id: str, reason: str, request_seq: str) -> None:
        """Stores that the core has refused a configuration update.

        The request is deleted; the inbox holds its content. The callback is published with the callbacks of the commit.
        """
        origin = subjects.request(rm_id, "configuration")
        await self._store(Message(origin, b"", seq=int(request_seq)), rm_id, reason, {})

    async def _store(self, message: Message, rm_id: str, reason: str, headers: Headers) -> None:
        most = min(limits.DEAD_LETTER_BYTES, self._bus.max_payload - HEADER_ROOM_BYTES)
        letter = _dead_letter(message, rm_id, reason, most, headers)

        def report(error: Exception) -> None:
            log.warning("a dead letter is not stored yet, trying again", rm=rm_id, error=str(error))

        await retry(partial(self._append, letter), limits.DEAD_LETTER_RETRY, on=Unanswered, report=report)

    async def _append(self, message: Outgoing) -> int:
        """Returns its stream sequence."""
        return await self._bus.append(message.subject, message.payload, message.headers)


def _dead_letter(message: Message, rm_id: str, reason: str, most: int, headers: Headers | None = None) -> Outgoing:
    """`most`: the bytes that are stored of the request; of a larger one, none."""
    reason = " ".join(reason.split())[: limits.DEAD_LETTER_REASON_CHARACTERS]
    payload = _without_secrets(message)
    if len(payload) > most:
        kept = f", at most {most} are" if most else ""
        reason, payload = f"{reason} (content not kept: {len(payload)} bytes{kept})", b""
    described = {
        **(headers or {}),
        subjects.MSG_ID: f"{rm_id}.{message.seq}",
        subjects.REASON: reason,
        subjects.ORIGIN_SUBJECT: message.subject,
        subjects.ORIGIN_SEQ: str(message.seq),
    }
    return Outgoing(subjects.dead_letter(rm_id), payload, described)


def _without_secrets(message: Message) -> bytes:
    """The payload as it is when its kind has no secret fields, otherwise the payload without their values. The result
    is empty for a payload that cannot be decoded, because any part of it may be a secret."""
    kind = REQUESTS.get(message.subject.rpartition(".")[2])
    if kind is None or not has_secrets(kind.DESCRIPTOR):
        return message.payload
    try:
        return bytes(redacted(kind.FromString(message.payload)).SerializeToString())
    except DecodeError:
        return b""


def _callback(message: Message, rm_id: str, reason: str, headers: Headers | None = None) -> Outgoing:
    record = dead_letter_record(reason[: limits.DEAD_LETTER_REASON_CHARACTERS], message.seq, time.time_ns())
    described = {**(headers or {}), subjects.MSG_ID: f"{rm_id}.dead_letter.{message.seq}"}
    return Outgoing(subjects.callback(rm_id, "dead_letter"), record.SerializeToString(), described)
