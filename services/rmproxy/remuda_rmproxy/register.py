"""Registration of an RM (000, RM register with scheduler): answered only once the core has decided, out of the log."""

from __future__ import annotations

import asyncio
import secrets

import structlog

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, BusError, Message, Refused
from remuda_bus.halts import Halts
from remuda_bus.log import HEADER_ROOM_BYTES
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import translate
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.resolve import resolve_registration
from remuda_rmproxy.session import OUTAGE, UNPROCESSABLE, Correlation, Rm, Sessions, config_source, read_registration
from remuda_rmproxy.tellers import Tellers
from remuda_rmproxy.witness import Witness

log = structlog.get_logger()

CORE_WITHIN_S = 10.0


class Registrar:
    """Answers registrations, and keeps the records of RMs as the core's decisions say."""

    def __init__(
        self, bus: Bus, sessions: Sessions, dead_letters: DeadLetters, halts: Halts, core_within_s: float
    ) -> None:
        self._bus = bus
        self._sessions = sessions
        self._dead_letters = dead_letters
        self._witness = Witness(bus, halts)
        self._core_within_s = core_within_s
        self._waiting: dict[str, asyncio.Future[log_pb2.Decision]] = {}

    async def register(self, message: Message, tellers: Tellers) -> bytes:
        """The reply. Raises Refused: 400 not understood, 422 the configuration or the core's refusal, 503 an outage
        or an RM that is halted."""
        request = read_registration(message)
        with telemetry.span("rmproxy.forward", message.headers, rm=request.rmID) as span:
            await self._witness.refuse_if_halted(request.rmID)
            await self._witness.hear(request.rmID, message.headers)
            configuration = await resolve_registration(self._bus, request)
            source = config_source(request.config, configuration)
            rm = Rm(request.rmID, request.policyGroup, request.version, source)
            correlation = Correlation("register", secrets.token_hex(8), source, request.policyGroup).encode()
            command = translate.register(request, configuration, correlation).SerializeToString()
            if len(command) > self._bus.max_payload - HEADER_ROOM_BYTES:
                raise Refused(f"config: {len(command)} bytes once it is read, more than a message takes", UNPROCESSABLE)
            try:
                was_registered = await self._announce(rm)
                tellers.follow(rm.rm_id)
                decision = await self._decision(rm.rm_id, command, correlation, span.headers())
            except Refused:
                raise
            except BusError as error:
                raise Refused(f"registration of {rm.rm_id!r}: {error}", OUTAGE) from error
        reason = refusal_in(decision)
        if reason is not None:
            if not was_registered:
                await self._bus.delete(subjects.RMS.name, subjects.key_of(rm.rm_id))
            raise Refused(reason, UNPROCESSABLE)
        return si.RegisterResourceManagerResponse().SerializeToString()

    async def decided(self, rm_id: str, decision: log_pb2.Decision) -> None:
        """A decision about a correlated command is in force. It may be told of again after a restart."""
        correlation = Correlation.decode(decision.correlation_id)
        if correlation is None:
            return
        for fact in decision.facts:
            match fact.WhichOneof("fact"):
                case "rm_registered":
                    version = fact.rm_registered.version
                    rm = Rm(rm_id, correlation.policy_group, version, correlation.config_source, "registered")
                    await self._record(rm)
                    log.info("RM registered", rm=rm_id, registration=fact.rm_registered.registration)
                case "configuration_applied" if correlation.kind == "configure":
                    known = self._sessions.get(rm_id)
                    version = known.version if known else ""
                    await self._record(
                        Rm(rm_id, correlation.policy_group, version, correlation.config_source, "registered")
                    )
                case "configuration_refused" if correlation.kind == "configure":
                    await self._dead_letters.refused_by_core(rm_id, fact.configuration_refused.reason, correlation.id)
        waiting = self._waiting.pop(decision.correlation_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(decision)

    async def _announce(self, rm: Rm) -> bool:
        """Put an unknown RM on record: so the core finds it. The consumer of its callbacks is made now, before there is
        any callback: joining it later would take messages from the RM. Whether the RM has been registered before."""
        entry = await self._bus.get(subjects.RMS.name, subjects.key_of(rm.rm_id))
        if entry is not None and entry.value is not None:
            known = self._sessions.tell(rm.rm_id, entry.value)
            return known is not None and known.state == "registered"
        consumer = await self._bus.consumer(
            subjects.CALLBACKS.name, subjects.callback(rm.rm_id, "*"), subjects.callback_consumer(rm.rm_id)
        )
        await consumer.close()
        self._sessions.tell(rm.rm_id, None)
        await self._record(rm)
        return False

    async def _record(self, rm: Rm) -> None:
        if self._sessions.get(rm.rm_id) != rm:
            await self._bus.put(subjects.RMS.name, subjects.key_of(rm.rm_id), rm.encode())
            self._sessions.tell(rm.rm_id, rm.encode())

    async def _decision(
        self, rm_id: str, command: bytes, correlation: str, headers: dict[str, str]
    ) -> log_pb2.Decision:
        waiting: asyncio.Future[log_pb2.Decision] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = waiting
        try:
            await self._bus.append(subjects.inbox(rm_id), command, headers, msg_id=correlation)
            async with asyncio.timeout(self._core_within_s):
                return await waiting
        except TimeoutError:
            raise Refused(
                f"no core answered within {self._core_within_s:g} s; the registration is in the inbox and will be "
                "handled when there is one, registering again does no harm",
                OUTAGE,
            ) from None
        finally:
            self._waiting.pop(correlation, None)


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
