"""Answers the requests of RMs to register and to deregister (000, RM register with scheduler).

A request becomes a command in the inbox of the RM. rmproxy answers it when the log contains the core's decision.
"""

from __future__ import annotations

import asyncio
import secrets

import structlog

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, BusError, Headers, Message, Refused, Reply
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_bus.untrusted import Malformed, number_in
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.rms.forget import first_life
from remuda_replication.rms.halts import Halts

from .. import limits, metrics
from ..inbound.configuration_resolver import ConfigurationResolver
from ..inbound.forwarder import Forwarder
from ..outbound.publishers import CallbackPublishers
from ..records.correlation import Correlation
from ..records.extra_config import EVENTS
from ..records.record_store import read_record, write_record
from ..records.registry import RmRegistry
from ..records.request_limiter import RequestLimiter
from ..records.rm_record import RmRecord, config_source, stated_registration
from ..records.status_codes import INVALID, NOT_REGISTERED, OUTAGE, SUPERSEDED, UNPROCESSABLE
from .allowed_rms import EVERY_RM, AllowedRms
from .callback_consumers import ensure_callback_consumer, ensure_event_consumer
from .cursor_check import CursorCheck
from .pending_answers import PendingAnswer, PendingAnswers
from .registration_request import (
    deregister_command,
    read_registration,
    refusal_of,
    register_command,
    registration_of,
)

log = structlog.get_logger()


class Registrar:
    """Registers and deregisters RMs. `core_timeout_s`: how long a request waits for the core's decision. `max_rms`: how
    many RMs may have a record.
    """

    def __init__(
        self,
        bus: Bus,
        registry: RmRegistry,
        halts: Halts,
        cursor_check: CursorCheck,
        forwarder: Forwarder,
        resolver: ConfigurationResolver,
        publishers: CallbackPublishers,
        pending_answers: PendingAnswers,
        core_timeout_s: float,
        max_rms: int,
        allowed: AllowedRms = EVERY_RM,
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._halts = halts
        self._cursor_check = cursor_check
        self._forwarder = forwarder
        self._resolver = resolver
        self._publishers = publishers
        self._pending_answers = pending_answers
        self._core_timeout_s = core_timeout_s
        self._max_rms = max_rms
        self._allowed = allowed
        self._limiter = RequestLimiter(
            asyncio.get_running_loop().time, "registrations", limits.REGISTRATIONS_AT_ONCE,
            limits.REGISTRATIONS_PER_S, limits.REGISTRATIONS_BURST,
        )  # fmt: skip

    async def register(self, message: Message) -> Reply:
        """Answers a request to register.

        Raises Refused: 400 the request is invalid, 403 the RM is not allowed, 422 the configuration is invalid or the
        core refuses, 429 too many requests, 503 an outage, or the RM is halted. For an RM that resumes a registration
        it raises what `resume` raises.
        """
        rm_id = subjects.rm_of(message.subject)
        with self._limiter.admit(rm_id):
            if subjects.RESUME in message.headers:
                return await self._resume(rm_id, message)
            request = read_registration(message)
            self._allowed.check(request.rmID)
            with tracing.span("rmproxy.forward", message.headers, rm=request.rmID) as span:
                try:
                    return await self._register(request, message.headers, span.headers())
                except Refused:
                    raise
                except BusError as error:
                    raise Refused(f"registration of {shown(request.rmID)}: {error}", OUTAGE) from error

    async def _resume(self, rm_id: str, message: Message) -> Reply:
        try:
            return await resume(self._bus, message)
        except Refused:
            raise
        except BusError as error:
            raise Refused(f"the consumer of {shown(rm_id)}: {error}", OUTAGE) from error

    async def _register(self, request: si.RegisterResourceManagerRequest, headers: Headers, trace: Headers) -> Reply:
        rm_id = request.rmID
        record = await self._admit(rm_id, headers)
        configuration = await self._resolver.resolve_registration(request)
        source = config_source(request.config, configuration)
        correlation = Correlation("register", secrets.token_hex(8), source, request.policyGroup).encode()
        command = register_command(request, configuration, correlation, record)
        if (size := command.ByteSize()) > self._bus.max_payload - HEADER_ROOM_BYTES:
            raise Refused(f"config: {size} bytes once it is read, more than a message takes", UNPROCESSABLE)
        was_accepted = await self._write_first_record(
            RmRecord(
                rm_id, request.policyGroup, request.version, source, extra_config=dict(request.extraConfig),
                life=record.life,
            )
        )  # fmt: skip
        self._publishers.start_for(rm_id)
        with self._pending_answers.expect(rm_id) as answer:
            decision = await self._decide(record, command, answer, trace)
        number = registration_of(decision)
        if number is None:
            if not was_accepted:
                await self._remove_refused(rm_id)
            raise Refused(refusal_of(decision), UNPROCESSABLE)
        metrics.REGISTRATIONS.inc()
        response = si.RegisterResourceManagerResponse().SerializeToString()
        return Reply(response, {subjects.REGISTRATION: str(number)})

    async def _admit(self, rm_id: str, headers: Headers) -> RmRecord:
        """The record of the RM; of a new RM a fresh one, not written yet. Raises Refused; nothing is stored of a new RM
        then, unless its headers name callbacks that the log does not hold: that halts it."""
        record, _ = await read_record(self._bus, rm_id)
        if record is None:
            stored = len(self._registry) + self._halts.count
            if stored >= self._max_rms:
                reason = f"{stored} RMs are on record in {subjects.RMS.name} or halted, and no more are taken"
                raise Refused(f"rmID {shown(rm_id)}: {reason}", OUTAGE)
        elif record.state == "forgetting":
            raise Refused(f"rmID {rm_id!r}: its data is being removed, try again", OUTAGE)
        await self._cursor_check.check_registration(rm_id, record, headers)
        return record if record is not None else RmRecord(rm_id, life=await first_life(self._bus))

    async def _write_first_record(self, fresh: RmRecord) -> bool:
        """Write the record of an RM that has none, so that a core begins to lead it. Returns whether the core has
        accepted the RM before."""
        record, revision = await read_record(self._bus, fresh.rm_id)
        if record is None:
            await write_record(self._bus, fresh, revision)
        return record is not None and record.state != "registering"

    async def _remove_refused(self, rm_id: str) -> None:
        """Remove what the registration of a new RM has written, unless another registration was accepted meanwhile."""
        record, revision = await read_record(self._bus, rm_id)
        if record is not None and record.state == "registering":
            await self._bus.delete(subjects.CONFIGURATIONS.name, subjects.configuration_key(rm_id))
            await self._bus.delete(subjects.RMS.name, subjects.key_of(rm_id), revision)

    async def deregister(self, message: Message) -> bytes:
        """Answers a request to deregister. Raises Refused: 404 the RM is not registered, 409 the sender's registration
        is superseded, 429 too many requests, 503 an outage.
        """
        rm_id = subjects.rm_of(message.subject)
        with self._limiter.admit(rm_id):
            try:
                return await self._deregister(rm_id, message)
            except Refused:
                raise
            except ValueError as error:
                raise Refused(str(error), INVALID) from None
            except BusError as error:
                raise Refused(f"deregistration of {shown(rm_id)}: {error}", OUTAGE) from error

    async def _deregister(self, rm_id: str, message: Message) -> bytes:
        with self._pending_answers.expect(rm_id) as answer:  # before the record is read: no decision is missed
            record, _ = await read_record(self._bus, rm_id)
            if record is None or record.state != "registered":
                raise Refused(f"rmID {shown(rm_id)} is not registered", NOT_REGISTERED)
            stated = stated_registration(message, record)
            if stated != record.registration:
                reason = f"registration {stated} of {shown(rm_id)}: the RM has registration {record.registration}"
                raise Refused(reason, SUPERSEDED)
            correlation = Correlation("deregister", str(record.registration)).encode()
            decision = await self._decide(record, deregister_command(record.registration, correlation), answer, {})
        if not any(fact.HasField("rm_stopped") for fact in decision.facts):
            raise Refused(f"rmID {shown(rm_id)} has registered again", SUPERSEDED)
        return b""

    async def _decide(
        self, record: RmRecord, command: inbox_pb2.Command, answer: PendingAnswer, headers: Headers
    ) -> log_pb2.Decision:
        """Append the command and wait for the decision. The core handles all earlier requests of the RM before it.
        Raises Refused 503 after `core_timeout_s`, and BusError."""
        rm_id, correlation = record.rm_id, command.correlation_id
        # In a new life registrations count from 1 again, and IDs must not repeat.
        msg_id = f"{rm_id}.{record.life}.{correlation}"
        try:
            with self._publishers.unthrottled(rm_id):
                async with asyncio.timeout(self._core_timeout_s):
                    await self._forwarder.wait_until_forwarded(rm_id)
                    await self._bus.append(subjects.inbox(rm_id), command.SerializeToString(), headers, msg_id=msg_id)
                    return await answer.decision(correlation)
        except TimeoutError:
            raise Refused(
                f"no core answered within {self._core_timeout_s:g} s; if the request is in the inbox, it will be "
                "handled when there is one, and asking again does no harm",
                OUTAGE,
            ) from None


async def resume(bus: Bus, message: Message) -> Reply:
    """Makes the consumers of a registration in force again that an operator deleted, or that their stream has lost.

    Raises Refused: 400 the request states no registration, 404 the RM is not registered, 409 its registration is
    superseded, 503 it has to register and report; BusError.
    """
    rm_id = subjects.rm_of(message.subject)
    try:
        stated = number_in(message.headers, subjects.REGISTRATION)
    except Malformed as problem:
        raise Refused(str(problem), INVALID) from None
    record, _ = await read_record(bus, rm_id)
    if record is not None and record.state == "report_wanted":
        raise Refused(f"rmID {shown(rm_id)} has to register and to report", OUTAGE)
    over = f"registration {stated} of {shown(rm_id)} is over"
    if record is None or record.state != "registered":
        is_known = record is not None and record.state == "deregistered"
        why = "another instance has deregistered it" if is_known else "the RM is not registered any more"
        raise Refused(f"{over}: {why}", NOT_REGISTERED)
    if stated != record.registration:
        raise Refused(f"{over}: another instance has registered, as {record.registration}", SUPERSEDED)
    if await ensure_callback_consumer(bus, record):
        log.warning("the callback consumer of an RM was gone and is made again", rm=rm_id, registration=stated)
    if record.extra_config.get(EVENTS, "").lower() == "true":
        await ensure_event_consumer(bus, rm_id)
    return Reply(b"", {subjects.REGISTRATION: str(stated)})
