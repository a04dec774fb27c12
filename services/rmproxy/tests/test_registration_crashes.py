"""A registration is handled once, wherever the process dies that handles it: the callbacks of an RM that registers
again, with a failure at each call of the bus in turn."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Gone, Message, Unanswered
from remuda_bus.halts import Halts
from remuda_bus.log import LogReader, LogWriter
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.dead_letters import DeadLetters
from remuda_rmproxy.forward import Forwarder
from remuda_rmproxy.register import Registrar
from remuda_rmproxy.session import Correlation, Rm, Sessions
from remuda_rmproxy.tell import Teller
from remuda_rmproxy.witness import Witness

RM = "rm-1"
CONSUMER = subjects.CALLBACKS.name, subjects.callback_consumer(RM)


class Died(Exception):
    """So does the process."""


class Failing:
    """The bus of a process whose call `number` fails: before it has an effect, or after."""

    def __init__(self, bus: MemoryBus, number: int, failure: Exception, *, after: bool) -> None:
        self._bus = bus
        self._left = number
        self._failure = failure
        self._after = after
        self.failed = False

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._bus, verb)
        return self._wrapped(found) if inspect.iscoroutinefunction(found) else found

    def _wrapped(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                if call == self._bus.make_consumer:  # half of it has an effect
                    self._bus._stream(args[0]).durables.pop(args[2]).gone = True
                self._fail()
            answer = await call(*args, **options)
            if self._left == 0 and self._after:
                self._fail()
            return answer

        return wrapped

    def _fail(self) -> None:
        self.failed = True
        raise self._failure


async def proxy(bus: Any) -> None:
    """What an rmproxy does for this RM, until the process dies."""
    sessions, letters, halts = Sessions(), DeadLetters(bus), Halts(bus, "test", lambda: 0)
    witness, forwarder = Witness(bus, sessions, halts), Forwarder(bus, sessions, letters, halts)
    registrar = Registrar(bus, sessions, letters, witness, forwarder, 1.0)
    await Teller(bus, RM, registrar.decided, lambda entries, questions: None, lambda: False).run()


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


async def until_told(bus: MemoryBus, registration: int, key: str) -> None:
    while True:
        newest = await bus.last(subjects.CALLBACKS.name, subjects.callback(RM, "*"))
        entry = await bus.get(subjects.RMS.name, RM)
        known = Rm.decode(entry.value).registration if entry is not None and entry.value is not None else 0
        if known == registration and newest is not None and keys_in([newest])[-1] == key:
            return
        await asyncio.sleep(0)


async def one_life(bus: Any, until: Awaitable[None]) -> None:
    working, told = asyncio.ensure_future(proxy(bus)), asyncio.ensure_future(until)
    try:
        await asyncio.wait([working, told], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        if working.done():
            await working
        assert told.done()
    finally:
        for task in (working, told):
            task.cancel()
        await asyncio.gather(working, told, return_exceptions=True)


async def heard(failure: Exception | None, number: int, after: bool, resync: str) -> tuple[bool, list[str]]:
    """What the second registration is told, and whether there was a failure at all."""
    bus = MemoryBus()
    reader = await LogReader.open(bus, RM)
    writer = LogWriter(bus, RM, reader.position, reader.last_seq)
    await bus.put(subjects.RMS.name, RM, Rm(RM).encode())
    for decision in (registered(1, "report"), allocated("a1"), allocated("a2")):
        await writer.append(log_pb2.Commit(decisions=[decision]))
    await one_life(bus, until_told(bus, 1, "a2"))
    first = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "1"})
    await first.ack((await first.batch())[:1])

    await writer.append(log_pb2.Commit(decisions=[allocated("b1"), registered(2, resync), allocated("c1")]))
    failing = Failing(bus, number, failure or Died(), after=after)
    try:
        await one_life(failing, until_told(bus, 2, "c1"))
    except Died:
        await one_life(bus, until_told(bus, 2, "c1"))
    second = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "2"})
    messages: list[Message] = []
    while more := await second.batch(timeout_s=0.01):
        messages += more
    await bus.close()
    return failing.failed, keys_in(messages)


async def test_who_has_deregistered_is_told_nothing_any_more() -> None:
    bus = MemoryBus()
    reader = await LogReader.open(bus, RM)
    writer = LogWriter(bus, RM, reader.position, reader.last_seq)
    await bus.put(subjects.RMS.name, RM, Rm(RM).encode())
    await writer.append(log_pb2.Commit(decisions=[registered(1, "report"), allocated("a1")]))
    await one_life(bus, until_told(bus, 1, "a1"))
    first = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "1"})

    ended = log_pb2.Fact(rm_stopped=log_pb2.RmStopped(deregistered=True))
    ends = log_pb2.Decision(correlation_id=Correlation("deregister", "1").encode(), facts=[ended])
    await writer.append(log_pb2.Commit(decisions=[allocated("a2"), ends]))

    async def gone() -> None:
        with pytest.raises(Gone):
            while await first.batch():
                pass

    await one_life(bus, gone())
    state = await bus.consumer_state(*CONSUMER)
    assert state is not None and state.waiting == 0 and state.metadata[subjects.REGISTRATION] == "0"
    await writer.append(log_pb2.Commit(decisions=[registered(2, "replay"), allocated("b1")]))
    await one_life(bus, until_told(bus, 2, "b1"))
    second = await bus.join_consumer(*CONSUMER, {subjects.REGISTRATION: "2"})
    assert keys_in(await second.batch()) == ["b1"]  # there was nothing to replay
    await bus.close()


@pytest.mark.parametrize(("resync", "expected"), [("report", ["c1"]), ("replay", ["a2", "b1", "c1"])])
@pytest.mark.parametrize(
    ("failure", "after"),
    [(None, False), (None, True), (Unanswered("no answer"), False), (Unanswered("no answer"), True)],
)
async def test_wherever_it_fails_the_rm_is_told_exactly_what_it_has_to_be(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | None, after: bool, resync: str, expected: list[str]
) -> None:
    monkeypatch.setattr(limits, "TELL_RETRY_S", 0.0)
    number, failed = 0, True
    while failed:
        number += 1
        failed, told = await heard(failure, number, after, resync)
        assert told == expected, f"call {number}"
    assert number > 15
