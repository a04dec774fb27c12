"""Requests to register and to deregister are answered whatever interrupts the work on the core's decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.pending_answers import PendingAnswers
from remuda_rmproxy.sessions.session_decisions import SessionDecisions

RM = "rm-1"
DEREGISTERED = log_pb2.Decision(
    correlation_id=Correlation("deregister", "1").encode(),
    facts=[log_pb2.Fact(rm_stopped=log_pb2.RmStopped(deregistered=True))],
)
REGISTERED = log_pb2.Decision(
    correlation_id=Correlation("register", "nonce").encode(),
    facts=[log_pb2.Fact(rm_registered=log_pb2.RmRegistered(rm_id=RM, registration=2))],
)


async def interrupted(decision: log_pb2.Decision, answers: PendingAnswers) -> None:
    """The publisher of the RM is cancelled when the record is written and the consumer is not: as by a halt, or by the
    removal of an RM with `forget.after` 0s."""
    bus = MemoryBus()
    await bus.put(subjects.RMS.name, RM, RmRecord(RM, state="registered", registration=1).encode())
    written = asyncio.Event()

    async def consumer_state(stream: str, durable: str) -> Any:
        written.set()
        await asyncio.Event().wait()

    bus.consumer_state = consumer_state  # type: ignore[method-assign]
    decisions = SessionDecisions(bus, DeadLetters(bus, RmRegistry()), answers)
    applying = asyncio.create_task(decisions.apply(RM, decision))
    async with asyncio.timeout(5):
        await written.wait()
    record, _ = await read_record(bus, RM)
    assert record is not None and (record.state, record.registration) != ("registered", 1)
    applying.cancel()
    await asyncio.gather(applying, return_exceptions=True)
    assert applying.cancelled()
    await bus.close()


async def test_a_deregistration_is_answered_though_the_rm_is_removed_at_once() -> None:
    answers = PendingAnswers()
    with answers.expect(RM) as answer:
        await interrupted(DEREGISTERED, answers)
        async with asyncio.timeout(1):
            assert await answer.decision(DEREGISTERED.correlation_id) == DEREGISTERED


async def test_a_registration_that_is_interrupted_is_refused_and_does_not_time_out() -> None:
    answers = PendingAnswers()
    with answers.expect(RM) as answer:
        await interrupted(REGISTERED, answers)
        async with asyncio.timeout(1):
            with pytest.raises(Refused, match="interrupted, because the RM is halted or being removed") as refusal:
                await answer.decision(REGISTERED.correlation_id)
    assert refusal.value.code == 503


async def test_one_decision_answers_every_request_that_waits_for_it() -> None:
    """An RM may repeat a deregistration: both requests have the same correlation ID."""
    answers = PendingAnswers()
    with answers.expect(RM) as first:
        with answers.expect(RM) as second:
            answers.resolve(RM, DEREGISTERED)
            assert await second.decision(DEREGISTERED.correlation_id) == DEREGISTERED
        assert await first.decision(DEREGISTERED.correlation_id) == DEREGISTERED
    assert not answers._of_rm
