"""A registration is handled once, wherever the process dies that handles it: the callbacks of an RM that registers
again, with a failure at each call of the bus in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import ConsumerGone, Message, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter
from remuda_rmproxy import limits
from remuda_rmproxy.inbound.dead_letters import DeadLetters
from remuda_rmproxy.outbound.callback_publisher import CallbackPublisher
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.pending_answers import PendingAnswers
from remuda_rmproxy.sessions.session_decisions import SessionDecisions
from tests.failing_bus import FailingBus

RM = "rm-1"
CONSUMER = subjects.CALLBACKS.name, subjects.callback_consumer(RM)


class Died(Exception):
    """So does the process."""


async def proxy(bus: Any) -> None:
    """The actions of an rmproxy for this RM, until the process ends."""
    decisions = SessionDecisions(bus, DeadLetters(bus, RmRegistry()), PendingAnswers())
    await CallbackPublisher(bus, RM, decisions.apply, lambda entries, questions: None, lambda: False).run()


def registered(number: int, resync: str) -> log_pb2.Decision:
    fact = log_pb2.RmRegistered(rm_id=RM, registration=number, resync=resync, extra_config={"resync": resync})
    correlation = Correlation("register", f"nonce-{number}", "file").encode()
    return log_pb2.Decision(correlation_id=correlation, facts=[log_pb2.Fact(rm_registered=fact)])


def allocated(*keys: str) -> log_pb2.Decision:
    facts = [
        log_pb2.Fact(allocated=log_pb2.Allocated(allocation=si.Allocation(allocationKey=key, UUID=key))) for key in keys
    ]
    return log_pb2.Decision(facts=facts)


def keys_in(messages: list[Message]) -> list[str]:
    return [one.allocationKey for m in messages for one in si.AllocationResponse.FromString(m.payload).new]


async def until_published(bus: MemoryBus, registration: int, key: str) -> None:
    while True:
        newest = await bus.last_message(subjects.CALLBACKS.name, subjects.callback(RM, "*"))
        entry = await bus.get(subjects.RMS.name, RM)
        known = RmRecord.decode(entry.value).registration if entry is not None and entry.value is not None else 0
        if known == registration and newest is not None and keys_in([newest])[-1] == key:
            return
        await asyncio.sleep(0)


async def one_life(bus: Any, until: Awaitable[None]) -> None:
    working, published = asyncio.ensure_future(proxy(bus)), asyncio.ensure_future(until)
    try:
        await asyncio.wait([working, published], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        if working.done():
            await working
        assert published.done()
    finally:
        for task in (working, published):
            task.cancel()
        await asyncio.gather(working, published, return_exceptions=True)


async def received(failure: Exception | None, number: int, after: bool, resync: str) -> tuple[bool, list[str]]:
    """Whether there was a failure, and the callbacks that the second registration receives."""
    bus = MemoryBus()
    reader = await LogReader.open(bus, RM)
    writer = LogWriter(bus, RM, reader.position, reader.last_seq)
    await bus.put(subjects.RMS.name, RM, RmRecord(RM).encode())
    for decision in (registered(1, "report"), allocated("a1"), allocated("a2")):
        await writer.append(log_pb2.Commit(decisions=[decision]))
    await one_life(bus, until_published(bus, 1, "a2"))
    first = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "1"})
    await first.ack((await first.batch())[:1])

    await writer.append(log_pb2.Commit(decisions=[allocated("b1"), registered(2, resync), allocated("c1")]))
    failing = FailingBus(bus, number, failure or Died(), after=after)
    try:
        await one_life(failing, until_published(bus, 2, "c1"))
    except Died:
        await one_life(bus, until_published(bus, 2, "c1"))
    second = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "2"})
    messages: list[Message] = []
    while more := await second.batch(timeout_s=0.01):
        messages += more
    await bus.close()
    return failing.failed, keys_in(messages)


async def test_an_rm_that_has_deregistered_receives_nothing_more() -> None:
    bus = MemoryBus()
    reader = await LogReader.open(bus, RM)
    writer = LogWriter(bus, RM, reader.position, reader.last_seq)
    await bus.put(subjects.RMS.name, RM, RmRecord(RM).encode())
    await writer.append(log_pb2.Commit(decisions=[registered(1, "report"), allocated("a1")]))
    await one_life(bus, until_published(bus, 1, "a1"))
    first = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "1"})

    ended = log_pb2.Fact(rm_stopped=log_pb2.RmStopped(deregistered=True))
    ends = log_pb2.Decision(correlation_id=Correlation("deregister", "1").encode(), facts=[ended])
    await writer.append(log_pb2.Commit(decisions=[allocated("a2"), ends]))

    async def gone() -> None:
        with pytest.raises(ConsumerGone):
            while await first.batch():
                pass

    await one_life(bus, gone())
    state = await bus.consumer_state(*CONSUMER)
    assert state is not None and state.waiting == 0 and state.metadata[subjects.REGISTRATION] == "0"
    await writer.append(log_pb2.Commit(decisions=[registered(2, "replay"), allocated("b1")]))
    await one_life(bus, until_published(bus, 2, "b1"))
    second = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "2"})
    assert keys_in(await second.batch()) == ["b1"]  # there was nothing to replay
    await bus.close()


@pytest.mark.parametrize(("resync", "expected"), [("report", ["c1"]), ("replay", ["a2", "b1", "c1"])])
@pytest.mark.parametrize(
    ("failure", "after"),
    [(None, False), (None, True), (Unanswered("no answer"), False), (Unanswered("no answer"), True)],
)
async def test_wherever_it_fails_the_rm_receives_each_callback_once(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | None, after: bool, resync: str, expected: list[str]
) -> None:
    monkeypatch.setattr(limits, "PUBLISH_RETRY", RetryPolicy(0.0))
    number, failed = 0, True
    while failed:
        number += 1
        failed, keys = await received(failure, number, after, resync)
        assert keys == expected, f"call {number}"
    assert number > 15
