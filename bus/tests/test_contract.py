"""The contract of the bus: the same tests over a NATS server and in memory."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import health, limits, metrics, subjects
from remuda_bus.bus import (
    Bus,
    Consumer,
    ConsumerGone,
    Full,
    HistoryChanged,
    Message,
    NoResponders,
    Outgoing,
    Refused,
    Reply,
    Unanswered,
    Unreadable,
)
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import connect
from remuda_bus.streams.history_check import check_message, digest_of
from remuda_replication.process import health_pages
from tests.patience import PATIENCE


@dataclass
class Case:
    bus: Bus
    other: Bus  # another client of the same server
    resize: Callable[[str, int], Awaitable[None]]


@pytest.fixture(params=["memory", "nats", "nats, readers that share a consumer"])
async def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Case]:
    if "share" in request.param:
        monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)
    if request.param == "memory":
        memory = MemoryBus(buckets=subjects.BUCKETS)

        async def resize_memory(stream: str, max_bytes: int) -> None:
            memory.resize(stream, max_bytes)

        yield Case(memory, memory, resize_memory)
        await memory.close()
        return
    async with NatsServer(tmp_path / "nats") as server:
        bus, other = (
            await connect(server.url, "one", timeout_s=5 * PATIENCE),
            await connect(server.url, "two", timeout_s=5),
        )
        await asyncio.gather(bus.declare(), other.declare())

        async def resize_nats(stream: str, max_bytes: int) -> None:
            config = (await bus._jetstream.api(f"STREAM.INFO.{stream}"))["config"]
            await bus._jetstream.api(f"STREAM.UPDATE.{stream}", {**config, "max_bytes": max_bytes})

        yield Case(bus, other, resize_nats)
        await bus.close()
        await other.close()


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


INBOX = subjects.INBOX.name
REQUESTS = subjects.REQUESTS.name


async def test_append_returns_the_sequence(case: Case) -> None:
    assert await case.bus.append(subjects.inbox("a"), b"1") == 1
    assert await case.bus.append(subjects.inbox("b"), b"2") == 2
    last = await case.bus.last_message(INBOX, "remuda.inbox.*")
    assert last is not None
    assert (last.subject, last.payload, last.seq) == (subjects.inbox("b"), b"2", 2)
    assert await case.bus.last_message(INBOX, subjects.inbox("c")) is None


async def test_expect_last(case: Case) -> None:
    first = await case.bus.append(subjects.log("a"), b"1", expect_last=0)
    await case.bus.append(subjects.log("b"), b"elsewhere", expect_last=0)
    with pytest.raises(Refused):
        await case.bus.append(subjects.log("a"), b"2", expect_last=0)
    await case.bus.append(subjects.log("a"), b"2", expect_last=first)
    with pytest.raises(Refused):
        await case.bus.append(subjects.log("a"), b"3", expect_last=first)


async def test_msg_id_drops_a_repetition(case: Case) -> None:
    first = await case.bus.append(subjects.inbox("a"), b"1", msg_id="x")
    assert await case.bus.append(subjects.inbox("a"), b"1", msg_id="x") == first
    assert await case.bus.append(subjects.inbox("a"), b"1", msg_id="y") == first + 1


async def test_appends_that_overlap_keep_their_order(case: Case) -> None:
    sequences = await asyncio.gather(*(case.bus.append(subjects.inbox("a"), b"%d" % n) for n in range(200)))
    assert sequences == list(range(1, 201))
    reader = await case.bus.read(INBOX, subjects.inbox("a"))
    assert await read_all(reader, 200) == [b"%d" % n for n in range(200)]


async def read_all(reader: object, count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        got += payloads(await reader.batch(timeout_s=5 * PATIENCE))  # type: ignore[attr-defined]
    return got


async def test_headers_are_delivered(case: Case) -> None:
    await case.bus.append(subjects.inbox("a"), b"1", {"traceparent": "00-a-b-01"}, msg_id="x")
    (message,) = await (await case.bus.read(INBOX, subjects.inbox("a"))).batch()
    assert message.headers["traceparent"] == "00-a-b-01"
    assert message.headers[subjects.MSG_ID] == "x"


async def test_no_responders(case: Case) -> None:
    with pytest.raises(Unanswered):
        await case.bus.append("no.stream.has.this", b"")
    with pytest.raises(Unanswered):
        await case.bus.request("nobody.there")


async def test_a_message_that_is_too_large_is_refused_with_its_size(case: Case) -> None:
    limit = case.bus.max_payload
    with pytest.raises(ValueError, match=f"{limit + 1} bytes.*at most {limit}"):
        await case.bus.append(subjects.inbox("a"), bytes(limit + 1))
    with pytest.raises(ValueError, match="headers"):
        await case.bus.append(subjects.inbox("a"), bytes(limit), {"a": "b"})
    assert await case.bus.append(subjects.inbox("a"), bytes(limit)) == 1


async def test_a_full_stream_refuses(case: Case) -> None:
    await case.resize(INBOX, 10_000)
    for _ in range(9):
        await case.bus.append(subjects.inbox("a"), bytes(1_000))
    with pytest.raises(Full, match="limit of the whole stream") as refused:
        await case.bus.append(subjects.inbox("a"), bytes(1_000))
    assert not refused.value.of_subject
    await case.bus.trim(INBOX, subjects.inbox("a"), 5)
    await case.bus.append(subjects.inbox("a"), bytes(1_000))


async def limited(case: Case, monkeypatch: pytest.MonkeyPatch, stream: subjects.Stream, most: int) -> None:
    """Limit the stream to `most` messages per subject."""
    if isinstance(case.bus, MemoryBus):
        found = case.bus._streams[stream.name]
        found.settings = dataclasses.replace(stream, max_msgs_per_subject=most)
        return
    monkeypatch.setattr(subjects, "STREAMS", (dataclasses.replace(stream, max_msgs_per_subject=most),))
    await case.bus.declare()


async def test_a_full_subject_refuses_and_others_do_not(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    await limited(case, monkeypatch, subjects.REQUESTS, 4)
    full, other = subjects.request("a", "node"), subjects.request("b", "node")
    for _ in range(4):
        await case.bus.append(full, b"")
    with pytest.raises(Full, match=r"si\.v1\.rm\.a\.node.*others have room") as refused:
        await case.bus.append(full, b"")
    assert refused.value.of_subject
    with pytest.raises(Full) as refused:
        await case.bus.append_all([Outgoing(other, b"")] * 5)
    assert refused.value.of_subject
    await case.bus.append_all([Outgoing(other, b"")] * 4)
    assert await case.bus.message_count(REQUESTS, full) == 4
    assert await case.bus.message_count(REQUESTS, "si.v1.rm.*.*") == 8
    await case.bus.trim(REQUESTS, full, 2)
    await case.bus.append(full, b"")


async def test_a_stream_that_discards_old_messages_keeps_those_of_other_subjects(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limited(case, monkeypatch, subjects.EVENTS, 3)
    await case.bus.append(subjects.event("b"), b"")
    for _ in range(10):
        await case.bus.append(subjects.event("a"), b"")
    assert await case.bus.message_count("EVENTS", subjects.event("a")) == 3
    assert await case.bus.message_count("EVENTS", subjects.event("b")) == 1


async def test_a_full_event_stream_deletes_its_oldest_messages(case: Case) -> None:
    await case.resize(subjects.EVENTS.name, 10_000)
    for n in range(20):
        await case.bus.append(subjects.event("a"), b"%4d" % n + bytes(1_000))
    (first, *_) = await (await case.bus.read(subjects.EVENTS.name, subjects.event("a"))).batch()
    assert first.seq > 5


async def test_append_all(case: Case) -> None:
    messages = [Outgoing(subjects.event("a"), b"%d" % n, {"n": str(n)}) for n in range(1_000)]
    assert await case.bus.append_all(messages) == 1_000
    assert await case.bus.append_all(messages[:1]) == 1_001
    reader = await case.bus.read(subjects.EVENTS.name, subjects.event("a"), after=998)
    assert await read_all(reader, 3) == [b"998", b"999", b"0"]


@pytest.mark.parametrize("count", [1, 3])
async def test_append_all_checks_the_expected_sequence_of_its_first_message(case: Case, count: int) -> None:
    last = await case.bus.append(subjects.event("a"), b"")
    await case.bus.append(subjects.event("b"), b"elsewhere")

    def batch(expected: int) -> list[Outgoing]:
        first = Outgoing(subjects.event("a"), b"", {subjects.EXPECTED_LAST: str(expected)})
        return [first, *[Outgoing(subjects.event("a"), b"")] * (count - 1)]

    with pytest.raises(Refused):
        await case.bus.append_all(batch(last + 1))
    assert await case.bus.append_all(batch(last)) == last + 1 + count


async def test_append_all_refuses_a_repetition(case: Case) -> None:
    messages = [Outgoing(subjects.event("a"), b"", {subjects.MSG_ID: str(n)}) for n in range(3)]
    await case.bus.append(subjects.event("a"), b"", msg_id="1")
    with pytest.raises(Refused):
        await case.bus.append_all(messages)
    assert await case.bus.append_all(messages[1:2]) == 1
    last = await case.bus.last_message(subjects.EVENTS.name, subjects.event("a"))
    assert last is not None
    assert last.seq == 1


async def test_append_all_is_refused_as_a_whole_when_full(case: Case) -> None:
    await case.resize(INBOX, 5_000)
    with pytest.raises(Full):
        await case.bus.append_all([Outgoing(subjects.inbox("a"), bytes(1_000))] * 8)
    assert await case.bus.last_message(INBOX, subjects.inbox("a")) is None


@pytest.mark.parametrize("count", [0, 1_001])
async def test_append_all_has_bounds(case: Case, count: int) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        await case.bus.append_all([Outgoing(subjects.event("a"), b"")] * count)


async def test_append_all_needs_a_stream_that_allows_it(case: Case) -> None:
    with pytest.raises(Refused):
        await case.bus.append_all([Outgoing(subjects.log("a"), b"1"), Outgoing(subjects.log("a"), b"2")])
    assert await case.bus.last_message(subjects.LOG.name, subjects.log("a")) is None


async def test_read_after_and_follow(case: Case) -> None:
    for n in range(5):
        await case.bus.append(subjects.log("a"), b"%d" % n)
    reader = await case.bus.read(subjects.LOG.name, subjects.log("a"), after=3)
    assert await read_all(reader, 2) == [b"3", b"4"]
    assert await reader.batch(timeout_s=0.05) == []
    waiting = asyncio.ensure_future(reader.batch())
    await case.other.append(subjects.log("b"), b"not for this reader")
    await case.other.append(subjects.log("a"), b"5")
    (message,) = await waiting
    assert (message.payload, message.seq) == (b"5", 7)


async def test_read_a_wildcard(case: Case) -> None:
    reader = await case.bus.read(subjects.LOG.name, "remuda.log.*")
    await case.bus.append(subjects.log("a"), b"1")
    await case.bus.append(subjects.log("b"), b"2")
    assert await read_all(reader, 2) == [b"1", b"2"]


async def test_batch_limits(case: Case) -> None:
    for n in range(6):
        await case.bus.append(subjects.inbox("a"), b"%d" % n * 1_000)
    reader = await case.bus.read(INBOX, subjects.inbox("a"))
    first = await reader.batch(max_messages=1)
    assert len(first) == 1
    await asyncio.sleep(0.05)  # let the others arrive, so that the limit is what ends the batch
    assert len(await reader.batch(max_bytes=2_500)) == 2
    assert len(await reader.batch(max_bytes=10)) == 1
    assert len(await reader.batch()) == 2


async def test_reading_an_empty_subject(case: Case) -> None:
    with pytest.raises(Unreadable):
        await case.bus.read("NOWHERE", "nowhere")
    with pytest.raises(HistoryChanged, match="had been read up to 7"):
        await case.bus.read(INBOX, subjects.inbox("a"), after=7)


async def test_single_messages(case: Case) -> None:
    for subject in ("a", "b", "a"):
        await case.bus.append(subjects.inbox(subject), subject.encode(), {"x": "y"})
    second = await case.bus.message_at(INBOX, 2)
    assert second is not None
    assert (second.subject, second.payload, second.seq, dict(second.headers)) == (
        subjects.inbox("b"),
        b"b",
        2,
        {"x": "y"},
    )
    assert await case.bus.message_at(INBOX, 4) is None
    await case.bus.trim(INBOX, subjects.inbox("a"), 3)
    assert await case.bus.message_at(INBOX, 1) is None
    first = await case.bus.first_message(INBOX, subjects.inbox("a"))
    assert first is not None and first.seq == 3
    assert await case.bus.first_message(INBOX, subjects.inbox("c")) is None
    assert (await case.bus.last_sequence(INBOX), await case.bus.last_sequence(REQUESTS)) == (3, 0)
    with pytest.raises(Unreadable):
        await case.bus.last_sequence("NOWHERE")


async def test_a_message_as_large_as_a_payload_may_be(case: Case) -> None:
    payload = bytes(case.bus.max_payload - 100)
    seq = await case.bus.append(subjects.log("a"), payload)
    message = await case.bus.message_at(subjects.LOG.name, seq)
    assert message is not None and message.payload == payload


async def test_check_message_compares_the_stored_message(case: Case) -> None:
    log, stream = subjects.log("a"), subjects.LOG.name
    for n in range(4):
        await case.bus.append(subjects.log("ab"[n % 2]), b"%d" % n)
    await case.bus.read(stream, log, 3, digest_of(b"2"))
    assert await check_message(case.bus, stream, log, 3) == digest_of(b"2")
    with pytest.raises(HistoryChanged, match="holds another message at 3"):
        await case.bus.read(stream, log, 3, digest_of(b"other"))
    with pytest.raises(HistoryChanged, match=r"a message of remuda\.log\.b at 2"):
        await case.bus.read(stream, log, 2, digest_of(b"1"))
    with pytest.raises(HistoryChanged, match="ends at 4"):
        await check_message(case.bus, stream, log, 5)
    with pytest.raises(HistoryChanged, match="not found"):
        await check_message(case.bus, "NOWHERE", log, 5)


async def test_a_trimmed_message_is_no_changed_history(case: Case) -> None:
    for n in range(4):
        await case.bus.append(subjects.inbox("a"), b"%d" % n)
    await case.bus.trim(INBOX, subjects.inbox("a"), 3)
    assert await check_message(case.bus, INBOX, subjects.inbox("a"), 2, digest_of(b"1")) == b""
    reader = await case.bus.read(INBOX, subjects.inbox("a"), 2, digest_of(b"1"))
    assert await read_all(reader, 2) == [b"2", b"3"]


async def test_a_closed_reader_raises(case: Case) -> None:
    reader = await case.bus.read(INBOX, subjects.inbox("a"))
    waiting = asyncio.ensure_future(reader.batch())
    await asyncio.sleep(0)
    await reader.close()
    with pytest.raises(Unreadable):
        await waiting


async def test_a_consumer_acknowledges(case: Case) -> None:
    for n in range(3):
        await case.bus.append(subjects.request("a", "node"), b"%d" % n)
    consumer = await case.bus.consumer(REQUESTS, "si.v1.rm.*.*", "work")
    messages: list[Message] = []
    while len(messages) < 3:
        messages += await consumer.batch(timeout_s=5 * PATIENCE)
    assert payloads(messages) == [b"0", b"1", b"2"]
    await consumer.ack(messages)
    await consumer.close()
    assert await case.bus.acknowledged_sequence(REQUESTS, "work") == 3


async def test_unacknowledged_messages_are_redelivered_first_and_in_order(case: Case) -> None:
    for n in range(5):
        await case.bus.append(subjects.request("a", "node"), b"%d" % n)
    first = await case.bus.consumer(REQUESTS, "si.v1.rm.*.*", "work")
    messages: list[Message] = []
    while len(messages) < 5:
        messages += await first.batch(timeout_s=5 * PATIENCE)
    await first.ack(messages[:2])
    await first.close()
    await case.bus.append(subjects.request("a", "node"), b"5")
    assert await case.bus.acknowledged_sequence(REQUESTS, "work") == 2
    second = await case.other.consumer(REQUESTS, "si.v1.rm.*.*", "work")
    again: list[Message] = []
    while len(again) < 4:
        again += await second.batch(timeout_s=5 * PATIENCE)
    assert payloads(again) == [b"2", b"3", b"4", b"5"]
    await second.ack(again)
    await second.close()
    assert await case.bus.acknowledged_sequence(REQUESTS, "work") == 6


async def test_a_consumer_receives_a_message_at_once(case: Case) -> None:
    consumer = await case.bus.consumer(subjects.CALLBACKS.name, "si.v1.rm.a.callback.*", "rm-a")
    assert await consumer.batch(timeout_s=0.02) == []
    waiting = asyncio.ensure_future(consumer.batch())
    await case.other.append(subjects.callback("b", "node"), b"not for a")
    await case.other.append(subjects.callback("a", "node"), b"1")
    messages = await asyncio.wait_for(waiting, 1)
    assert payloads(messages) == [b"1"]
    await consumer.ack(messages)
    assert await consumer.batch(timeout_s=0.02) == []


async def test_a_consumer_that_was_replaced_is_gone_for_its_former_reader(case: Case) -> None:
    callbacks, durable = subjects.CALLBACKS.name, "rm-a"
    for n in range(4):
        await case.bus.append(subjects.callback("a", "node"), b"%d" % n)
    assert await case.bus.consumer_state(callbacks, durable) is None
    with pytest.raises(ConsumerGone):
        await case.other.join_consumer(callbacks, durable, {"number": "1"})
    await case.bus.create_consumer(callbacks, "si.v1.rm.a.callback.*", durable, 0, {"number": "1"})
    first = await case.other.join_consumer(callbacks, durable, {"number": "1"})
    taken = await take(first, 4)
    await first.ack(taken[:2])
    await asyncio.wait_for(until_acknowledged(case.bus, callbacks, durable, 2), 5)
    state = await case.bus.consumer_state(callbacks, durable)
    assert state is not None
    assert (state.acknowledged, state.waiting, state.metadata["number"]) == (2, 2, "1")

    waiting = asyncio.ensure_future(first.batch())
    await case.bus.create_consumer(callbacks, "si.v1.rm.a.callback.*", durable, 3, {"number": "2"})
    with pytest.raises(ConsumerGone):
        await asyncio.wait_for(waiting, 10)
    with pytest.raises(ConsumerGone):
        await case.bus.join_consumer(callbacks, durable, {"number": "1"})
    second = await case.bus.join_consumer(callbacks, durable, {"number": "2"})
    assert payloads(await take(second, 1)) == [b"3"]
    await first.ack(taken[2:])  # means nothing any more
    await second.close()
    state = await case.bus.consumer_state(callbacks, durable)
    assert state is not None
    assert (state.acknowledged, state.waiting) == (3, 1)
    for _ in range(2):  # nothing where there is none
        await case.bus.delete_consumer(callbacks, durable)
    assert await case.bus.consumer_state(callbacks, durable) is None


async def take(consumer: Consumer, count: int) -> list[Message]:
    taken: list[Message] = []
    while len(taken) < count:
        taken += await consumer.batch(timeout_s=5 * PATIENCE)
    return taken


async def until_acknowledged(bus: Bus, stream: str, durable: str, sequence: int) -> None:
    while await bus.acknowledged_sequence(stream, durable) < sequence:  # noqa: ASYNC110 - only the server knows
        await asyncio.sleep(0.01)


async def test_an_answer_may_have_headers(case: Case) -> None:
    async def answer(message: Message) -> Reply:
        return Reply(message.payload, {"number": "7"})

    await case.bus.serve("some.subject", answer, "some")
    reply = await case.other.request("some.subject", b"hello")
    assert (reply.payload, reply.headers["number"]) == (b"hello", "7")


async def test_nothing_acknowledged_yet(case: Case) -> None:
    assert await case.bus.acknowledged_sequence(subjects.CALLBACKS.name, "rm-a") == 0


@pytest.mark.parametrize("subject", ["si.v1.rm.*.callback.node", "si.v1.rm.>", ">", "*", "si.v1.rm", ""])
async def test_trim_refuses_a_subject_that_does_not_name_one_rm(case: Case, subject: str) -> None:
    await case.bus.append(subjects.callback("a", "node"), b"")
    with pytest.raises(ValueError, match="expected one that names one RM"):
        await case.bus.trim(subjects.CALLBACKS.name, subject, 100)
    assert await case.bus.last_message(subjects.CALLBACKS.name, subjects.callback("a", "node")) is not None
    await case.bus.trim_all(subjects.CALLBACKS.name, 100)
    assert await case.bus.last_message(subjects.CALLBACKS.name, subjects.callback("a", "node")) is None


@pytest.mark.parametrize("key", ["*", ">", "a.*", "", "a b"])
async def test_keys_have_no_wildcards(case: Case, key: str) -> None:
    await case.bus.put(subjects.RMS.name, "a", b"1")
    with pytest.raises(ValueError, match="key"):
        await case.bus.get(subjects.RMS.name, key)


async def test_trim(case: Case) -> None:
    for rm_id in ("a", "b", "a", "b"):
        await case.bus.append(subjects.callback(rm_id, "node"), rm_id.encode())
    await case.bus.trim(subjects.CALLBACKS.name, "si.v1.rm.a.callback.*", 3)
    reader = await case.bus.read(subjects.CALLBACKS.name, "si.v1.rm.*.callback.*")
    got: list[Message] = []
    while len(got) < 3:
        got += await reader.batch(timeout_s=5 * PATIENCE)
    assert [(message.seq, message.payload) for message in got] == [(2, b"b"), (3, b"a"), (4, b"b")]


async def test_single_messages_are_deleted_anywhere(case: Case) -> None:
    subject = subjects.request("a", "node")
    for n in range(1, 6):
        await case.bus.append(subject, b"%d" % n)
    reader = await case.bus.read(REQUESTS, subject)
    await case.bus.delete_messages(REQUESTS, [2, 4, 5])
    assert await sequences(case, subject, 2) == [1, 3]
    await case.bus.trim(REQUESTS, subject, 2)
    await case.bus.delete_messages(REQUESTS, [4, 1])  # there is none
    assert await case.bus.message_count(REQUESTS, subject) == 1
    await case.bus.append(subject, b"6")
    seen: list[int] = []
    while 6 not in seen:  # some may have been on their way before they were deleted
        seen += [message.seq for message in await reader.batch(timeout_s=5 * PATIENCE)]
    assert seen == sorted(seen)
    await reader.close()


async def sequences(case: Case, subject: str, count: int) -> list[int]:
    """Of the first so many messages."""
    reader = await case.bus.read(REQUESTS, subject)
    got: list[int] = []
    while len(got) < count:
        got += [message.seq for message in await reader.batch(timeout_s=5 * PATIENCE)]
    await reader.close()
    return got


async def test_the_first_message_of_an_age(case: Case) -> None:
    subject = subjects.log("a")
    assert await case.bus.first_sequence_since("LOG", subject, 3_600.0) is None
    await case.bus.append(subjects.log("b"), b"another's")
    first = await case.bus.append(subject, b"1")
    await asyncio.sleep(0.1)
    assert await case.bus.first_sequence_since("LOG", subject, 3_600.0) == first
    assert await case.bus.first_sequence_since("LOG", subject, 0.05) is None
    second = await case.bus.append(subject, b"2")
    assert await case.bus.first_sequence_since("LOG", subject, 0.05) == second


async def test_fullness(case: Case) -> None:
    await case.resize("DEAD_LETTERS", 100_000)
    assert await case.bus.fullness("DEAD_LETTERS") == 0
    await case.bus.append(subjects.dead_letter("a"), b"x" * 50_000)
    assert 0.5 < await case.bus.fullness("DEAD_LETTERS") < 0.51


BUCKET = subjects.SNAPSHOTS.name


async def parts_of(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_objects(case: Case) -> None:
    assert await case.bus.object_names(BUCKET) == []
    assert await case.bus.get_object(BUCKET, "rm=1.7") is None
    large = bytes(range(256)) * 2_000
    await case.bus.put_object(BUCKET, "rm=1.7", parts_of(large[:3], large[3:400_000], b"", large[400_000:]))
    await case.bus.put_object(BUCKET, "rm=1.8", parts_of(b"small"))
    await case.bus.put_object(BUCKET, "rm-2.7", parts_of())
    assert await case.other.object_names(BUCKET) == ["rm-2.7", "rm=1.7", "rm=1.8"]
    assert await case.other.get_object(BUCKET, "rm=1.7") == large
    assert await case.other.get_object(BUCKET, "rm=1.8") == b"small"
    assert await case.other.get_object(BUCKET, "rm-2.7") == b""
    await case.bus.put_object(BUCKET, "rm=1.7", parts_of(b"another"))
    assert await case.other.get_object(BUCKET, "rm=1.7") == b"another"
    await case.bus.delete_object(BUCKET, "rm=1.7")
    await case.bus.delete_object(BUCKET, "rm=1.7")
    assert await case.other.get_object(BUCKET, "rm=1.7") is None
    assert await case.other.object_names(BUCKET) == ["rm-2.7", "rm=1.8"]


async def test_a_failed_upload_is_not_visible(case: Case) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        raise RuntimeError("the source fails")

    await case.bus.put_object(BUCKET, "rm-1.1", parts_of(b"before"))
    for name in ("rm-1.1", "rm-1.2"):
        with pytest.raises(RuntimeError):
            await case.bus.put_object(BUCKET, name, failing())
    assert await case.other.object_names(BUCKET) == ["rm-1.1"]
    assert await case.other.get_object(BUCKET, "rm-1.1") == b"before"


async def test_a_bucket_compares_revisions(case: Case) -> None:
    bucket = subjects.RMS.name
    assert await case.bus.get(bucket, "a") is None
    first = await case.bus.put(bucket, "a", b"1", 0)
    with pytest.raises(Refused):
        await case.bus.put(bucket, "a", b"2", 0)
    second = await case.bus.put(bucket, "a", b"2", first)
    with pytest.raises(Refused):
        await case.bus.put(bucket, "a", b"3", first)
    with pytest.raises(Refused):
        await case.bus.delete(bucket, "a", first)
    entry = await case.bus.get(bucket, "a")
    assert entry is not None
    assert (entry.value, entry.revision) == (b"2", second)
    await case.bus.delete(bucket, "a", second)
    assert await case.bus.get(bucket, "a") is None
    assert await case.bus.put(bucket, "a", b"again", 0) > second


async def test_watch(case: Case) -> None:
    bucket = subjects.RMS.name
    await case.bus.put(bucket, "a", b"1")
    await case.bus.put(bucket, "gone", b"1")
    await case.bus.delete(bucket, "gone")
    await case.bus.put(bucket, "a", b"2")
    entries = case.other.watch(bucket)
    assert await told(entries) == ("a", b"2")
    await case.bus.put(bucket, "b", b"3")
    assert await told(entries) == ("b", b"3")
    await case.bus.delete(bucket, "a")
    assert await told(entries) == ("a", None)
    await entries.aclose()  # type: ignore[attr-defined]


async def told(entries: AsyncIterator[object]) -> tuple[str, bytes | None]:
    entry = await asyncio.wait_for(anext(entries), 12.0)
    return entry.key, entry.value  # type: ignore[attr-defined]


async def test_entries_expire(short_leases: None, case: Case) -> None:
    bucket = subjects.LEASES.name
    entries = case.bus.watch(bucket)
    await case.bus.put(bucket, "a", b"1", 0)
    assert await told(entries) == ("a", b"1")
    assert await told(entries) == ("a", None)
    assert await case.bus.get(bucket, "a") is None
    await case.bus.put(bucket, "a", b"2", 0)
    await entries.aclose()  # type: ignore[attr-defined]


async def test_request_and_serve(case: Case) -> None:
    async def handler(message: Message) -> bytes:
        if message.payload == b"no":
            raise Refused("not like this", 409)
        if message.payload == b"bug":
            raise RuntimeError("oh")
        return message.subject.encode() + b" " + message.payload + message.headers.get("h", "").encode()

    await case.bus.serve("remuda.api.test.*", handler, "test")
    answer = await case.other.request("remuda.api.test.x", b"yes", {"h": "!"})
    assert answer.payload == b"remuda.api.test.x yes!"
    with pytest.raises(Refused, match="not like this") as refused:
        await case.other.request("remuda.api.test.x", b"no")
    assert refused.value.code == 409
    with pytest.raises(Refused) as failed:
        await case.other.request("remuda.api.test.x", b"bug")
    assert failed.value.code == 500


async def test_a_closed_endpoint_accepts_no_requests(case: Case) -> None:
    released = asyncio.Event()

    async def slow(message: Message) -> bytes:
        await released.wait()
        return b"first"

    async def second(message: Message) -> bytes:
        return b"second"

    with pytest.raises(NoResponders):
        await case.other.request("remuda.api.test")
    serving = await case.bus.serve("remuda.api.test", slow, "test")
    asked = asyncio.ensure_future(case.other.request("remuda.api.test"))
    await asyncio.sleep(0.05)
    await serving.close()
    released.set()
    assert (await asked).payload == b"first", "what had come is still answered"
    with pytest.raises(NoResponders):
        await case.other.request("remuda.api.test")
    await case.bus.serve("remuda.api.test", second, "test")
    assert (await case.other.request("remuda.api.test")).payload == b"second"


async def test_requests_do_not_wait_for_each_other(case: Case) -> None:
    both = asyncio.Barrier(2)

    async def handler(message: Message) -> bytes:
        await both.wait()
        return b""

    await case.bus.serve("remuda.api.test", handler, "test")
    await asyncio.gather(case.other.request("remuda.api.test"), case.other.request("remuda.api.test"))


async def test_a_missing_answer(case: Case) -> None:
    async def handler(message: Message) -> bytes:
        await asyncio.Event().wait()
        return b""

    await case.bus.serve("remuda.api.test", handler, "test")
    with pytest.raises(Unanswered):
        await case.other.request("remuda.api.test", timeout_s=0.05)


async def test_publish_and_subscribe(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.PROCESS_HEALTH, "listener_errors", {})
    heard: asyncio.Queue[Message] = asyncio.Queue()

    async def listener(message: Message) -> None:
        if message.payload == b"bad":
            raise RuntimeError("a bug")  # the next message is heard all the same
        heard.put_nowait(message)

    await case.bus.subscribe("si.v1.rm.*.heartbeat", listener)
    await case.other.publish(subjects.heartbeat("a"), b"bad")
    await case.other.publish(subjects.heartbeat("a"), b"", {"x": "y"})
    message = await asyncio.wait_for(heard.get(), 5)
    assert (message.subject, dict(message.headers)) == (subjects.heartbeat("a"), {"x": "y"})
    _, page = await health_pages._status(b"/readyz", None, health.PROCESS_HEALTH)
    assert page["listener_errors"] == {"heartbeat": f"{subjects.heartbeat('a')}: RuntimeError('a bug')"}
    _, metrics_page = metrics.page("")
    assert b'remuda_listener_errors_total{kind="heartbeat"}' in metrics_page
