"""Applies the core's decisions about registrations and configurations to the record and the consumers of an RM, and
answers the requests that wait for them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import structlog

from remuda_bus.bus import Bus, Refused
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.extra_config import EVENTS
from remuda_rmproxy.records.record_store import read_record, write_record
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.records.status_codes import OUTAGE
from remuda_rmproxy.sessions.callback_consumers import (
    ensure_callback_consumer,
    ensure_event_consumer,
    first_callback_after,
)
from remuda_rmproxy.sessions.pending_answers import PendingAnswers

log = structlog.get_logger()


class SessionDecisions:
    """Applies the core's decisions about registrations to the records of RMs. The publisher of an RM's callbacks awaits
    `apply` between the callbacks before a decision and those after it. It calls `apply` again for the same decision
    after an outage or a restart, so each step may be repeated.
    """

    def __init__(self, bus: Bus, dead_letters: DeadLetters, pending_answers: PendingAnswers) -> None:
        self._bus = bus
        self._dead_letters = dead_letters
        self._pending_answers = pending_answers

    async def apply(self, rm_id: str, decision: log_pb2.Decision) -> None:
        correlation = Correlation.decode(decision.correlation_id)
        if correlation is None:  # of an operator's action
            self._pending_answers.resolve(rm_id, decision)
            return
        config_checksum = _applied_checksum(decision)
        try:
            for fact in decision.facts:
                await self._apply_fact(rm_id, fact, correlation, config_checksum)
        except asyncio.CancelledError:
            # The RM is halted or being removed, and its publisher does not return to this decision. A deregistration is
            # in force by the decision alone; a registration is of no use without its consumer.
            if correlation.kind == "deregister":
                self._pending_answers.resolve(rm_id, decision)
            else:
                reason = f"registration of {shown(rm_id)}: interrupted, because the RM is halted or being removed"
                self._pending_answers.fail(rm_id, Refused(reason, OUTAGE))
            raise
        self._pending_answers.resolve(rm_id, decision)

    async def _apply_fact(self, rm_id: str, fact: log_pb2.Fact, correlation: Correlation, config_checksum: str) -> None:
        match fact.WhichOneof("fact"):
            case "rm_registered":
                await self._registered(rm_id, fact.rm_registered, correlation, config_checksum)
            case "rm_stopped" if correlation.kind == "deregister":
                await self._deregistered(rm_id, int(correlation.id))
            case "configuration_applied" if correlation.kind == "configure":
                await self._configured(rm_id, correlation, config_checksum)
            case "configuration_refused" if correlation.kind == "configure":
                reason = fact.configuration_refused.reason
                await self._dead_letters.write_refused_configuration(rm_id, reason, correlation.id)

    async def _registered(
        self, rm_id: str, fact: log_pb2.RmRegistered, correlation: Correlation, config_checksum: str
    ) -> None:
        """Write the position where the callbacks of the registration begin into the record. Only then delete the
        former consumer, and its position with it."""
        record, revision = await read_record(self._bus, rm_id)
        if record is None or fact.registration > record.registration:
            after = await first_callback_after(self._bus, record, rm_id, replay=fact.resync == "replay")
            record = RmRecord(
                rm_id, correlation.policy_group, fact.version, correlation.config_source, "registered",
                dict(fact.extra_config), fact.registration, after, fact.life, config_checksum=config_checksum,
            )  # fmt: skip
            await write_record(self._bus, record, revision)
            log.info("RM registered", rm=rm_id, registration=fact.registration, resync=fact.resync)
        if record.registration == fact.registration:
            await ensure_callback_consumer(self._bus, record)
            if record.extra_config.get(EVENTS, "").lower() == "true":
                await ensure_event_consumer(self._bus, rm_id)

    async def _deregistered(self, rm_id: str, registration: int) -> None:
        """The consumer is replaced by one that belongs to no registration and begins behind all callbacks."""
        record, revision = await read_record(self._bus, rm_id)
        if record is None or record.registration != registration:
            return
        if record.state == "registered":
            after = await first_callback_after(self._bus, record, rm_id, replay=False)
            record = record.deregistered(after, time.time_ns() // 1_000_000)
            await write_record(self._bus, record, revision)
            log.info("RM deregistered", rm=rm_id, registration=registration)
        await ensure_callback_consumer(self._bus, record)

    async def _configured(self, rm_id: str, correlation: Correlation, config_checksum: str) -> None:
        record, revision = await read_record(self._bus, rm_id)
        if record is None:
            return
        configured = replace(
            record,
            policy_group=correlation.policy_group,
            config_source=correlation.config_source,
            config_checksum=config_checksum,
        )
        if configured != record:
            await write_record(self._bus, configured, revision)


def _applied_checksum(decision: log_pb2.Decision) -> str:
    """The checksum of the configuration that the decision applies; "": it applies none."""
    applied = (fact.configuration_applied for fact in decision.facts if fact.HasField("configuration_applied"))
    return next((one.checksum for one in applied), "")
