"""Registration of an RM (000, RM register with scheduler) and its end: answered only once the core has decided, out of
the log.

Each registration has a number, and a consumer of callbacks of its own: the former one is gone, and with it whoever took
callbacks from it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, BusError, Message, Refused, Reply
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits, translate
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.forward import Forwarder
from remuda_rmproxy.resolve import resolve_registration
from remuda_rmproxy.session import (
    EVENTS,
    INVALID,
    NOT_REGISTERED,
    OUTAGE,
    SUPERSEDED,
    UNPROCESSABLE,
    Correlation,
    Rm,
    Sessions,
    config_source,
    read_registration,
    registration_said,
)
from remuda_rmproxy.tellers import Tellers
from remuda_rmproxy.witness import Witness

log = structlog.get_logger()

NOBODY = "0"  # whose consumer it is when the RM has deregistered


class Registrar:
    """Answers registrations, and keeps the records of RMs as the core's decisions say."""

    def __init__(
        self,
        bus: Bus,
        sessions: Sessions,
        dead_letters: DeadLetters,
        witness: Witness,
        forwarder: Forwarder,
        core_within_s: float,
    ) -> None:
        self._bus = bus
        self._forwarder = forwarder
        self._sessions = sessions
        self._dead_letters = dead_letters
        self._witness = witness
        self._core_within_s = core_within_s
        self._waiting: dict[tuple[str, str], asyncio.Future[log_pb2.Decision]] = {}

    async def register(self, message: Message, tellers: Tellers) -> Reply:
        """The reply. Raises Refused: 400 not understood, 422 the configuration or the core's refusal, 503 an outage
        or an RM that is halted."""
        request = read_registration(message)
        with telemetry.span("rmproxy.forward", message.headers, rm=request.rmID) as span:
            known = await self._known(request.rmID, message)
            configuration = await resolve_registration(self._bus, request)
            source = config_source(request.config, configuration)
            rm = Rm(request.rmID, request.policyGroup, request.version, source, extra_config=dict(request.extraConfig))
            correlation = Correlation("register", secrets.token_hex(8), source, request.policyGroup).encode()
            command = translate.register(request, configuration, correlation, known).SerializeToString()
            if len(command) > self._bus.max_payload - HEADER_ROOM_BYTES:
                raise Refused(f"config: {len(command)} bytes once it is read, more than a message takes", UNPROCESSABLE)
            try:
                is_known = await self._announce(rm)
                tellers.follow(rm.rm_id)
                with tellers.in_a_hurry(rm.rm_id):
                    decision = await self._decision(rm.rm_id, command, correlation, span.headers())
            except Refused:
                raise
            except BusError as error:
                raise Refused(f"registration of {rm.rm_id!r}: {error}", OUTAGE) from error
        reason = refusal_in(decision)
        if reason is not None:
            if not is_known:
                await self._bus.delete(subjects.RMS.name, subjects.key_of(rm.rm_id))
            raise Refused(reason, UNPROCESSABLE)
        number = next(fact.rm_registered.registration for fact in decision.facts if fact.HasField("rm_registered"))
        answer = si.RegisterResourceManagerResponse().SerializeToString()
        return Reply(answer, {subjects.REGISTRATION: str(number)})

    async def _known(self, rm_id: str, message: Message) -> Rm | None:
        """What is on record of it. Raises Refused, also when it is new and there are enough already: nothing is kept of
        it then, anywhere."""
        try:
            known, _ = await self._look_up(rm_id)
            if known is None and len(self._sessions) >= limits.RMS:
                on_record = f"{len(self._sessions)} RMs are on record in {subjects.RMS.name}"
                raise Refused(f"rmID {rm_id!r}: {on_record}, and no more are taken", OUTAGE)
            await self._witness.check_registration(rm_id, message.headers)
        except Refused:
            raise
        except BusError as error:
            raise Refused(f"registration of {rm_id!r}: {error}", OUTAGE) from error
        return known

    async def deregister(self, message: Message, tellers: Tellers) -> bytes:
        """Raises Refused: 404 there is no such RM, 409 it is not the sender's registration any more, 503 an outage."""
        rm_id = subjects.rm_of(message.subject)
        try:
            rm, _ = await self._look_up(rm_id)
            if rm is None or rm.state != "registered":
                raise Refused(f"rmID {rm_id!r} is not registered", NOT_REGISTERED)
            said = registration_said(message, rm)
            if said != rm.registration:
                raise Refused(f"registration {said} of {rm_id!r}: it has registration {rm.registration}", SUPERSEDED)
            correlation = Correlation("deregister", str(rm.registration)).encode()
            with tellers.in_a_hurry(rm_id):
                decision = await self._decision(rm_id, translate.deregister(rm, correlation), correlation, {})
        except Refused:
            raise
        except ValueError as error:
            raise Refused(str(error), INVALID) from None
        except BusError as error:
            raise Refused(f"deregistration of {rm_id!r}: {error}", OUTAGE) from error
        if not any(fact.HasField("rm_stopped") for fact in decision.facts):
            raise Refused(f"rmID {rm_id!r} has registered again", SUPERSEDED)
        return b""

    async def decided(self, rm_id: str, decision: log_pb2.Decision) -> None:
        """A decision about a correlated command is in force. It may be told of again after a restart."""
        correlation = Correlation.decode(decision.correlation_id)
        if correlation is None:
            return
        for fact in decision.facts:
            match fact.WhichOneof("fact"):
                case "rm_registered":
                    await self._registered(rm_id, fact.rm_registered, correlation)
                case "rm_stopped" if correlation.kind == "deregister":
                    await self._deregistered(rm_id, int(correlation.id))
                case "configuration_applied" if correlation.kind == "configure":
                    known, revision = await self._look_up(rm_id)
                    if known is not None:
                        group, source = correlation.policy_group, correlation.config_source
                        await self._record(replace(known, policy_group=group, config_source=source), revision)
                case "configuration_refused" if correlation.kind == "configure":
                    await self._dead_letters.refused_by_core(rm_id, fact.configuration_refused.reason, correlation.id)
        waiting = self._waiting.pop((rm_id, decision.correlation_id), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(decision)

    async def _registered(self, rm_id: str, fact: log_pb2.RmRegistered, correlation: Correlation) -> None:
        """Where its callbacks begin is on record before the former consumer goes, and where that stood with it."""
        known, revision = await self._look_up(rm_id)
        if known is None or fact.registration > known.registration:
            after = await self._callbacks_after(rm_id, fact.resync == "replay", known)
            known = Rm(
                rm_id, correlation.policy_group, fact.version, correlation.config_source, "registered",
                dict(fact.extra_config), fact.registration, after, fact.life,
            )  # fmt: skip
            await self._record(known, revision)
            log.info("RM registered", rm=rm_id, registration=fact.registration, resync=fact.resync)
        if known.registration == fact.registration:
            await self._make_consumer(known)
            if known.extra_config.get(EVENTS, "").lower() == "true":
                await self._make_event_consumer(rm_id)

    async def _deregistered(self, rm_id: str, registration: int) -> None:
        """Nothing is told any more: the consumer is nobody's, and behind everything."""
        known, revision = await self._look_up(rm_id)
        if known is None or known.registration != registration:
            return
        if known.state == "registered":
            known = known.deregistered(await self._callbacks_after(rm_id, False, known))
            await self._record(known, revision)
            log.info("RM deregistered", rm=rm_id, registration=registration)
        await self._make_consumer(known)

    async def _callbacks_after(self, rm_id: str, replay: bool, known: Rm | None) -> int:
        """Replay: what was not acknowledged is told again. Otherwise what was told before the registration is over: all
        of that is in the stream, and nothing else."""
        if replay and known is not None and known.state == "registered":
            return await self._bus.acknowledged(subjects.CALLBACKS.name, subjects.callback_consumer(rm_id))
        newest = await self._bus.last(subjects.CALLBACKS.name, subjects.callback(rm_id, "*"))
        return 0 if newest is None else newest.seq

    async def _make_consumer(self, rm: Rm) -> None:
        """Unless it is there."""
        stream, durable = subjects.CALLBACKS.name, subjects.callback_consumer(rm.rm_id)
        metadata = {subjects.REGISTRATION: str(rm.registration) if rm.state == "registered" else NOBODY}
        there = await self._bus.consumer_state(stream, durable)
        if there is None or not metadata.items() <= there.metadata.items():
            with _in_time(rm.rm_id):
                await self._bus.make_consumer(
                    stream, subjects.callback(rm.rm_id, "*"), durable, rm.callbacks_after, metadata
                )

    async def _make_event_consumer(self, rm_id: str) -> None:
        """Unless it is there. It outlives registrations: the history goes on."""
        stream, durable = subjects.EVENTS.name, subjects.event_consumer(rm_id)
        if await self._bus.consumer_state(stream, durable) is None:
            await self._bus.make_consumer(stream, subjects.event(rm_id), durable, 0, {})

    async def _announce(self, rm: Rm) -> bool:
        """Put an unknown RM on record: so the core finds it. Whether it is known from before."""
        known, revision = await self._look_up(rm.rm_id)
        if known is None:
            await self._record(rm, revision)
        return known is not None and known.state != "registering"

    async def _look_up(self, rm_id: str) -> tuple[Rm | None, int]:
        """The record of the RM, and its revision; 0: there is none."""
        entry = await self._bus.get(subjects.RMS.name, subjects.key_of(rm_id))
        if entry is None or entry.value is None:
            return self._sessions.tell(rm_id, None), 0
        return self._sessions.tell(rm_id, entry.value), entry.revision

    async def _record(self, rm: Rm, revision: int) -> None:
        if self._sessions.get(rm.rm_id) != rm:
            with _in_time(rm.rm_id):
                await self._bus.put(subjects.RMS.name, subjects.key_of(rm.rm_id), rm.encode(), revision)
            self._sessions.tell(rm.rm_id, rm.encode())

    async def _decision(
        self, rm_id: str, command: bytes, correlation: str, headers: dict[str, str]
    ) -> log_pb2.Decision:
        """What the RM has asked before is handled before."""
        waiting: asyncio.Future[log_pb2.Decision] = asyncio.get_running_loop().create_future()
        self._waiting[rm_id, correlation] = waiting
        try:
            async with asyncio.timeout(self._core_within_s):
                await self._forwarder.until_taken_over(rm_id)
                await self._bus.append(subjects.inbox(rm_id), command, headers, msg_id=f"{rm_id}.{correlation}")
                return await waiting
        except TimeoutError:
            raise Refused(
                f"no core answered within {self._core_within_s:g} s; if the request is in the inbox, it will be "
                "handled when there is one, and asking again does no harm",
                OUTAGE,
            ) from None
        finally:
            self._waiting.pop((rm_id, correlation), None)


def refusal_in(decision: log_pb2.Decision) -> str | None:
    """Why the core did not register the RM; None: it did."""
    for fact in decision.facts:
        match fact.WhichOneof("fact"):
            case "rm_registered":
                return None
            case "registration_refused":
                return fact.registration_refused.reason
            case "configuration_refused":
                return fact.configuration_refused.reason
    return "the core has not registered the RM and gave no reason"


@contextmanager
def _in_time(rm_id: str) -> Iterator[None]:
    """For a moment there may be two of these processes: the one that comes too late has nothing against the RM."""
    try:
        yield
    except Refused as refusal:
        reason = f"registration of {rm_id!r}: another process works on one ({refusal.reason}), try again"
        raise Refused(reason, OUTAGE) from refusal
