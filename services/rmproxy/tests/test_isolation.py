"""No RM waits for another, whatever one of them does to the loop that forwards for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Full, Message, Outgoing, Reader
from remuda_bus.memory import MemoryBus
from remuda_bus.retry import RetryPolicy
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits
from remuda_rmproxy.inbound import translate
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord
from services.rmproxy.tests.forwarding import forwarder_of, forwarding

BAD, GOOD = "bad", "good"


async def on_record(bus: MemoryBus, *rm_ids: str) -> RmRegistry:
    registry = RmRegistry()
    for rm_id in rm_ids:
        rm = RmRecord(rm_id, state="registered", registration=1)
        await bus.put(subjects.RMS.name, subjects.key_of(rm_id), rm.encode())
        registry.update(rm_id, rm.encode())
    return registry


async def ask(bus: MemoryBus, rm_id: str, kind: str = "node", **fields: Any) -> int:
    request = si.NodeRequest(rmID=rm_id) if kind == "node" else si.UpdateConfigurationRequest(rmID=rm_id, **fields)
    return await bus.append(subjects.request(rm_id, kind), request.SerializeToString())


async def inbox(bus: MemoryBus, rm_id: str, count: int) -> list[int]:
    """The requests that the next so many commands of the RM came from."""
    reader = await bus.read(subjects.INBOX.name, subjects.inbox(rm_id))
    found: list[int] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            found += [inbox_pb2.Command.FromString(one.payload).request_seq for one in await reader.batch()]
    return found


async def asked_and_not_trimmed(bus: MemoryBus, rm_id: str) -> int:
    reader = await bus.read(subjects.REQUESTS.name, subjects.request(rm_id, "*"))
    return len(await reader.batch(timeout_s=0))


async def until_none_is_left(bus: MemoryBus, rm_id: str) -> None:
    async with asyncio.timeout(5):
        while await asked_and_not_trimmed(bus, rm_id):  # noqa: ASYNC110 - nothing tells when it is trimmed
            await asyncio.sleep(0.01)


async def test_configurations_of_one_rm_delay_only_its_own_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = MemoryBus()
    registry = await on_record(bus, BAD, GOOD)
    may_answer = asyncio.Event()

    async def slowly(message: Message) -> bytes:
        await may_answer.wait()
        return b""

    await bus.serve(subjects.RESOLVE_CONFIGURATION, slowly, "resolve")
    monkeypatch.setattr(limits, "TRIM_PER_RM_AFTER_S", 0.0)
    before = [await ask(bus, BAD, "configuration", config="x"), await ask(bus, BAD)]
    asked = [await ask(bus, GOOD) for _ in range(3)]
    async with forwarding(forwarder_of(bus, registry)):
        assert await inbox(bus, GOOD, 3) == asked
        await until_none_is_left(bus, GOOD)  # though it lies behind what is not done yet
        assert await bus.last_message(subjects.INBOX.name, subjects.inbox(BAD)) is None
        assert await asked_and_not_trimmed(bus, BAD) == 2
        may_answer.set()
        assert await inbox(bus, BAD, 2) == before
        await until_none_is_left(bus, BAD)
    await bus.close()


async def test_few_configurations_are_resolved_at_a_time_and_one_of_each_rm() -> None:
    bus = MemoryBus()
    rm_ids = [f"rm-{number}" for number in range(3 * limits.RESOLUTIONS_AT_ONCE)]
    registry = await on_record(bus, *rm_ids)
    asked: list[str] = []
    answers = asyncio.Semaphore(0)

    async def when_told(message: Message) -> bytes:
        asked.append(config_pb2.ResolveConfiguration.FromString(message.payload).rm_id)
        await answers.acquire()
        return b""

    await bus.serve(subjects.RESOLVE_CONFIGURATION, when_told, "resolve")
    for _ in range(5):
        await ask(bus, rm_ids[0], "configuration", config="x")
    for rm_id in rm_ids[1:]:
        await ask(bus, rm_id, "configuration", config="x")
    async with forwarding(forwarder_of(bus, registry)), asyncio.timeout(5):
        while len(asked) < limits.RESOLUTIONS_AT_ONCE:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(asked) == len(set(asked)) == limits.RESOLUTIONS_AT_ONCE
        for _ in range(len(rm_ids)):
            answers.release()
        for rm_id in rm_ids[1:]:
            await inbox(bus, rm_id, 1)
    assert asked.count(rm_ids[0]) <= 2, "each RM waits for its first question only"
    await bus.close()


class OneInboxFull(MemoryBus):
    """The inbox of one RM takes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True

    async def append_all(self, messages: Sequence[Outgoing], timeout_s: float = 5.0) -> int:
        if self.full and messages[0].subject == subjects.inbox(BAD):
            raise Full("maximum messages per subject exceeded")
        return await super().append_all(messages, timeout_s)


async def test_a_full_inbox_holds_up_only_its_rm_and_nothing_is_lost_or_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "INBOX_APPEND_TIMEOUT_S", 0.0)
    monkeypatch.setattr(limits, "FORWARD_RETRY", RetryPolicy(0.01))
    monkeypatch.setattr(limits, "QUEUE_MESSAGES", 5)
    bus = OneInboxFull()
    registry = await on_record(bus, BAD, GOOD)
    of_bad, of_good = [], []
    async with forwarding(forwarder_of(bus, registry)):
        for _ in range(40):
            of_bad.append(await ask(bus, BAD))
            of_good.append(await ask(bus, GOOD))
            await asyncio.sleep(0)
        assert await inbox(bus, GOOD, 40) == of_good
        assert await asked_and_not_trimmed(bus, BAD) == 40
        bus.full = False
        assert await inbox(bus, BAD, 40) == of_bad
        await until_none_is_left(bus, BAD)
        assert await asked_and_not_trimmed(bus, GOOD) == 0
    await bus.close()


async def test_what_was_left_behind_is_forwarded_by_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies with requests in queues, and others left in REQUESTS."""
    monkeypatch.setattr(limits, "QUEUE_MESSAGES", 5)
    monkeypatch.setattr(limits, "TRIM_PER_RM_AFTER_S", 0.0)
    bus = OneInboxFull()
    registry = await on_record(bus, BAD, GOOD)
    of_bad = []
    async with forwarding(forwarder_of(bus, registry)):
        for _ in range(20):
            of_bad.append(await ask(bus, BAD))
            await ask(bus, GOOD)
        await until_none_is_left(bus, GOOD)
    bus.full = False
    async with forwarding(forwarder_of(bus, registry)):
        assert await inbox(bus, BAD, 20) == of_bad
    assert len(await (await bus.read(subjects.INBOX.name, subjects.inbox(GOOD))).batch()) == 20
    await bus.close()


async def test_requests_wait_in_their_stream_while_the_core_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BACKLOG_MESSAGES", 3)
    monkeypatch.setattr(limits, "BACKLOG_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(limits, "FORWARD_BATCH_MESSAGES", 1)
    bus = MemoryBus()
    registry = await on_record(bus, BAD, GOOD)
    of_bad = [await ask(bus, BAD) for _ in range(8)]
    async with forwarding(forwarder_of(bus, registry)):
        assert await inbox(bus, BAD, 3) == of_bad[:3]
        asked = await ask(bus, GOOD)
        assert await inbox(bus, GOOD, 1) == [asked]
        await asyncio.sleep(0.05)
        assert len(await (await bus.read(subjects.INBOX.name, subjects.inbox(BAD))).batch()) == 3
        newest = await bus.last_message(subjects.INBOX.name, subjects.inbox(BAD))
        assert newest is not None
        reader = await LogReader.open(bus, BAD)
        await LogWriter(bus, BAD, reader.position).append(log_pb2.Commit(inbox_seq=newest.seq))
        assert await inbox(bus, BAD, 6) == of_bad[:6]
    await bus.close()


async def test_an_rm_that_comes_on_record_late_is_forwarded_in_order() -> None:
    """Its first requests come before this process knows of its record, and are no dead letters."""
    bus = MemoryBus()
    await on_record(bus, GOOD)
    registry = RmRegistry()
    asked = [await ask(bus, GOOD) for _ in range(5)]
    stranger = await ask(bus, "stranger")
    async with forwarding(forwarder_of(bus, registry)):
        asked += [await ask(bus, GOOD) for _ in range(5)]
        assert list(dict.fromkeys(await inbox(bus, GOOD, 10))) == asked
        letter = None
        async with asyncio.timeout(5):
            while letter is None:
                letter = await bus.last_message(subjects.DEAD_LETTERS.name, subjects.dead_letter("stranger"))
                await asyncio.sleep(0)
        assert letter.headers[subjects.ORIGIN_SEQ] == str(stranger)
    assert await bus.last_message(subjects.DEAD_LETTERS.name, subjects.dead_letter(GOOD)) is None
    await bus.close()


async def test_an_exception_at_one_request_halts_its_rm_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORWARD_RETRY", RetryPolicy(0.0))
    bus = MemoryBus()
    registry, halts = await on_record(bus, BAD, GOOD), Halts(bus, "test", lambda: 0)
    handled = translate.commands_of

    def broken(message: Message, rm_id: str, limit: int) -> list[bytes]:
        assert not (rm_id == BAD and message.seq == 3), "a fault of ours"
        return handled(message, rm_id, limit)

    monkeypatch.setattr(translate, "commands_of", broken)
    of_bad = [await ask(bus, BAD) for _ in range(4)]
    of_good = [await ask(bus, GOOD) for _ in range(4)]
    async with forwarding(forwarder_of(bus, registry, halts)):
        assert await inbox(bus, GOOD, 4) == of_good
        assert (await inbox(bus, BAD, 2))[:2] == of_bad[:2]
        await until_none_is_left(bus, BAD)
    halt = halts.get(BAD)
    assert halt is not None
    assert "message 3 of REQUESTS: AssertionError: a fault of ours" in halt.reason
    assert halts.get(GOOD) is None
    letters = await (await bus.read(subjects.DEAD_LETTERS.name, subjects.dead_letter(BAD))).batch()
    assert [letter.headers[subjects.ORIGIN_SEQ] for letter in letters] == ["3", "4"]
    await bus.close()


async def test_an_rm_with_too_much_waiting_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though what it has published before waits for its inbox. Once that has room, the RM is no longer refused."""
    monkeypatch.setattr(limits, "INBOX_APPEND_TIMEOUT_S", 0.0)
    monkeypatch.setattr(limits, "FORWARD_RETRY", RetryPolicy(0.01))
    monkeypatch.setattr(limits, "QUEUE_MESSAGES", 5)
    monkeypatch.setattr(limits, "TRIM_PER_RM_AFTER_S", 0.0)
    monkeypatch.setattr(limits, "WAITING_BYTES", 20 * (limits.REQUEST_OVERHEAD_BYTES + 10))
    bus = OneInboxFull()
    registry = await on_record(bus, BAD, GOOD)
    of_bad, of_good = [], []
    async with forwarding(forwarder_of(bus, registry)):
        for number in range(50):
            of_bad.append(await ask(bus, BAD))
            of_good += [await ask(bus, GOOD)] if number % 5 == 0 else []
        await until(lambda: dead_letters_of(bus, BAD), of_bad[20:])
        await until(lambda: requests_of(bus, BAD), of_bad[:20])
        assert await inbox(bus, GOOD, 10) == of_good
        reader = await bus.read(subjects.CALLBACKS.name, subjects.callback(BAD, "dead_letter"))
        told = [si.EventRecord.FromString(one.payload) for one in await reader.batch()]
        assert [int(record.referenceID) for record in told] == of_bad[20:]
        assert "bytes of requests of this RM wait" in told[0].message
        bus.full = False
        assert await inbox(bus, BAD, 20) == of_bad[:20]
        await until_none_is_left(bus, BAD)
        later = await ask(bus, BAD)
        assert (await inbox(bus, BAD, 21))[-1] == later
    assert await dead_letters_of(bus, GOOD) == []
    await bus.close()


async def test_what_was_refused_is_not_forwarded_by_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INBOX_APPEND_TIMEOUT_S", 0.0)
    monkeypatch.setattr(limits, "FORWARD_RETRY", RetryPolicy(0.01))
    monkeypatch.setattr(limits, "WAITING_BYTES", 20 * (limits.REQUEST_OVERHEAD_BYTES + 10))
    bus = OneInboxFull()
    registry = await on_record(bus, BAD, GOOD)
    of_bad = [await ask(bus, BAD) for _ in range(30)]
    async with forwarding(forwarder_of(bus, registry)):
        await until(lambda: requests_of(bus, BAD), of_bad[:20])
    bus.full = False
    async with forwarding(forwarder_of(bus, registry)):
        assert await inbox(bus, BAD, 20) == of_bad[:20]
        await until_none_is_left(bus, BAD)
    await bus.close()


async def requests_of(bus: MemoryBus, rm_id: str) -> list[int]:
    reader = await bus.read(subjects.REQUESTS.name, subjects.request(rm_id, "*"))
    return [message.seq for message in await reader.batch(timeout_s=0)]


async def dead_letters_of(bus: MemoryBus, rm_id: str) -> list[int]:
    reader = await bus.read(subjects.DEAD_LETTERS.name, subjects.dead_letter(rm_id))
    return [int(message.headers[subjects.ORIGIN_SEQ]) for message in await reader.batch(timeout_s=0)]


async def until(found: Callable[[], Awaitable[list[int]]], expected: list[int]) -> None:
    async with asyncio.timeout(5):
        while await found() != expected:  # noqa: ASYNC110 - nothing tells when it is done
            await asyncio.sleep(0.01)


async def trickle(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration service answers one question every 20 ms: the requests of BAD are forwarded, but slowly."""
    monkeypatch.setattr(limits, "TRIM_PER_RM_AFTER_S", 0.1)
    monkeypatch.setattr(limits, "TRIM_REQUESTS_INTERVAL_S", 0.01)

    async def answer(message: Message) -> bytes:
        await asyncio.sleep(0.02)
        return b""

    await bus.serve(subjects.RESOLVE_CONFIGURATION, answer, "resolve")


async def test_slow_progress_of_one_rm_does_not_keep_the_requests_of_others_in_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a good RM reaches the limit of its subject in REQUESTS, and is refused."""
    bus = MemoryBus()
    await trickle(bus, monkeypatch)
    registry = await on_record(bus, BAD, GOOD)
    for _ in range(200):
        await ask(bus, BAD, "configuration", config="x")
    async with forwarding(forwarder_of(bus, registry)):
        await inbox(bus, BAD, 5)
        for _ in range(3):
            await ask(bus, GOOD)
        async with asyncio.timeout(2):
            await until_none_is_left(bus, GOOD)
        assert await asked_and_not_trimmed(bus, BAD) > 50
    await bus.close()


class SlowDeadLetters(MemoryBus):
    """No dead letter is ever stored."""

    async def append(self, subject: str, *args: Any, **options: Any) -> int:
        if subject.startswith("remuda.dead."):
            await asyncio.Event().wait()
        return await super().append(subject, *args, **options)


async def test_unknown_senders_do_not_keep_the_requests_of_others_in_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "TRIM_PER_RM_AFTER_S", 0.0)
    bus = SlowDeadLetters()
    registry = await on_record(bus, GOOD)
    await ask(bus, "stranger")
    for _ in range(3):
        await ask(bus, GOOD)
    async with forwarding(forwarder_of(bus, registry)):
        await until_none_is_left(bus, GOOD)
        assert await asked_and_not_trimmed(bus, "stranger") == 1
    await bus.close()


async def test_deferred_requests_of_an_rm_that_comes_on_record_meanwhile_are_forwarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a start, requests may arrive before the records. GOOD publishes nothing afterwards."""
    monkeypatch.setattr(limits, "QUEUE_MESSAGES", 2)
    bus, registry = MemoryBus(), RmRegistry()
    for _ in range(2):
        await ask(bus, "stranger")
    asked = [await ask(bus, GOOD) for _ in range(3)]  # deferred: the queue of unknown senders is full
    may_go_on, get = asyncio.Event(), bus.get

    async def late(bucket: str, key: str) -> Any:
        await may_go_on.wait()
        return await get(bucket, key)

    monkeypatch.setattr(bus, "get", late)
    async with forwarding(forwarder_of(bus, registry)):
        await asyncio.sleep(0.01)
        record = RmRecord(GOOD, state="registered", registration=1)
        await bus.put(subjects.RMS.name, GOOD, record.encode())
        registry.update(GOOD, record.encode())
        may_go_on.set()
        assert await inbox(bus, GOOD, 3) == asked
    await bus.close()


class CountedReadings(SlowDeadLetters):
    """`readings`: of the stream REQUESTS."""

    readings = 0

    async def read(self, stream: str, subject: str, after: int = 0, digest: bytes = b"") -> Reader:
        self.readings += stream == subjects.REQUESTS.name
        return await super().read(stream, subject, after, digest)


async def test_requests_of_unknown_senders_are_not_searched_for_those_of_other_rms() -> None:
    bus = CountedReadings()
    registry = await on_record(bus, GOOD)
    async with forwarding(forwarder_of(bus, registry)):
        for _ in range(3):
            await ask(bus, "stranger")
            asked = await ask(bus, GOOD)
            await until(lambda: newest_forwarded(bus, GOOD), [asked])
    assert bus.readings == 1
    await bus.close()


async def newest_forwarded(bus: MemoryBus, rm_id: str) -> list[int]:
    newest = await bus.last_message(subjects.INBOX.name, subjects.inbox(rm_id))
    return [] if newest is None else [inbox_pb2.Command.FromString(newest.payload).request_seq]
