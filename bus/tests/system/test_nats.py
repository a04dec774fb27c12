"""Failures of a real server: outages, restarts, lost answers."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json

import pytest
from nats.aio.client import Client

from remuda.embedded import NatsServer
from remuda_bus import limits, subjects
from remuda_bus.bus import Consumer, HistoryChanged, Message, NoResponders, Reader, Refused, Unanswered
from remuda_bus.nats import NatsBus, connect
from remuda_bus.nats.jetstream import failure
from tests.patience import PATIENCE

INBOX = subjects.INBOX.name
REQUESTS = subjects.REQUESTS.name


async def appended(bus: NatsBus, subject: str, payload: bytes) -> int:
    """Append with retries while the server is away, as a sender whose messages have IDs."""
    while True:
        try:
            return await bus.append(subject, payload, msg_id=payload.decode(), timeout_s=2)
        except Unanswered:
            continue


async def taken(reader: Reader, count: int) -> None:
    while count > 0:
        count -= len(await reader.batch(max_messages=count, timeout_s=5))


@pytest.fixture(params=["own", "shared"])
def sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with a consumer per reader, and with a shared one."""
    if request.param == "shared":
        monkeypatch.setattr(limits, "OWN_CONSUMERS", 0)


@pytest.mark.usefixtures("sharing")
async def test_a_reader_continues_after_a_restart(server: NatsServer, bus: NatsBus) -> None:
    reader = await bus.read(INBOX, subjects.inbox("a"))
    got: list[Message] = []
    for number in range(60):
        if number in (20, 40):
            await (server.restart() if number == 20 else server.kill())
            await server.start()
        await appended(bus, subjects.inbox("a"), b"%d" % number)
        if number % 7 == 0:
            got += await reader.batch(timeout_s=0.01)
    while len(got) < 60:
        got += await reader.batch(timeout_s=5)
    assert [message.payload for message in got] == [b"%d" % number for number in range(60)]
    assert [message.seq for message in got] == sorted(message.seq for message in got)


@pytest.mark.usefixtures("sharing")
async def test_a_reader_that_waits_through_an_outage(server: NatsServer, bus: NatsBus) -> None:
    reader = await bus.read(INBOX, subjects.inbox("a"))
    await bus.append(subjects.inbox("a"), b"1")
    assert len(await reader.batch()) == 1
    waiting = asyncio.ensure_future(reader.batch())
    await server.restart()
    other = await connect(server.url, "other", timeout_s=5)
    await other.append(subjects.inbox("a"), b"2")
    (message,) = await asyncio.wait_for(waiting, 10)
    assert message.payload == b"2"
    await other.close()


async def test_a_consumer_continues_in_order_after_a_restart(server: NatsServer, bus: NatsBus) -> None:
    for number in range(10):
        await bus.append(subjects.request("a", "node"), b"%d" % number)
    consumer = await bus.consumer(REQUESTS, "si.v1.rm.*.*", "work")
    held: list[Message] = []
    while len(held) < 10:
        held += await consumer.batch(timeout_s=5)
    await consumer.ack(held[:3])
    await server.restart()
    await appended(bus, subjects.request("a", "node"), b"10")
    again: list[Message] = []
    while len(again) < 8:
        again += await consumer.batch(timeout_s=5)
    assert [message.payload for message in again] == [b"%d" % number for number in range(3, 11)]
    await consumer.ack(again)
    await consumer.close()
    assert await bus.acknowledged_sequence(REQUESTS, "work") == 11


async def test_a_second_reader_of_a_consumer_loses_no_messages_of_the_first(bus: NatsBus) -> None:
    """As a superseded instance of an RM that does not check the metadata."""
    durable, metadata = "rm-a", {"number": "1"}
    await bus.create_consumer(subjects.CALLBACKS.name, subjects.callback("a", "*"), durable, 0, metadata)
    thief, stolen = await connect(bus._connection.url, "thief", timeout_s=5), 0

    async def hears(message: Message) -> None:
        nonlocal stolen
        stolen += message.subject.startswith("si.v1")

    await thief.subscribe("stolen", hears)
    consumer = await bus.join_consumer(subjects.CALLBACKS.name, durable, metadata)
    taken: list[bytes] = []
    for number in range(100):
        if number % 10 == 0:
            request = json.dumps({"batch": 3, "expires": 2 * 10**9}).encode()
            pull = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.CALLBACKS.name}.{durable}"
            await thief._connection.send(pull, request, reply="stolen")
        await bus.append(subjects.callback("a", "node"), b"%d" % number)
        if number % 7 == 0:
            taken += await some(consumer, taken)
    while len(taken) < 100:
        taken += await some(consumer, taken)
    assert taken == [b"%d" % number for number in range(100)]
    assert stolen > 10
    await thief.close()


async def some(consumer: Consumer, taken: list[bytes]) -> list[bytes]:
    """Acknowledge a batch, and return its new messages."""
    messages = await consumer.batch(timeout_s=0.05)
    await consumer.ack(messages)
    return [message.payload for message in messages if int(message.payload) >= len(taken)]


async def test_messages_in_progress_are_not_redelivered(bus: NatsBus) -> None:
    await bus.append(subjects.request("a", "node"), b"1")
    consumer = await bus.consumer(REQUESTS, "si.v1.rm.*.*", "work", ack_wait_s=0.6)
    messages = await consumer.batch()
    assert await consumer.batch(timeout_s=2) == []
    await consumer.ack(messages)
    await consumer.close()
    assert await bus.acknowledged_sequence(REQUESTS, "work") == 1


async def test_many_messages_through_one_consumer(bus: NatsBus) -> None:
    count = 3_000
    await asyncio.gather(*(bus.append(subjects.request("a", "node"), b"%d" % n, timeout_s=30) for n in range(count)))
    consumer = await bus.consumer(REQUESTS, "si.v1.rm.*.*", "work")
    got: list[bytes] = []
    while len(got) < count:
        messages = await consumer.batch(max_messages=700, timeout_s=5)
        assert 0 < len(messages) <= 700
        await consumer.ack(messages)
        got += [message.payload for message in messages]
    assert got == [b"%d" % number for number in range(count)]
    await consumer.close()
    assert await bus.acknowledged_sequence(REQUESTS, "work") == count


@pytest.mark.usefixtures("sharing")
async def test_large_messages_are_read_with_flow_control(bus: NatsBus) -> None:
    for number in range(300):
        await bus.append(subjects.log("a"), number.to_bytes(4, "big") + bytes(250_000))
    reader = await bus.read(subjects.LOG.name, subjects.log("a"))
    got = 0
    while got < 300:
        for message in await reader.batch(timeout_s=5):
            assert int.from_bytes(message.payload[:4], "big") == got
            got += 1


@pytest.mark.usefixtures("sharing")
async def test_a_stream_that_lost_messages(server: NatsServer, bus: NatsBus) -> None:
    for _ in range(3):
        await bus.append(subjects.inbox("a"), b"")
    reader = await bus.read(INBOX, subjects.inbox("a"))
    await taken(reader, 3)
    other = await connect(server.url, "other", timeout_s=5)
    await other._jetstream.api(f"STREAM.DELETE.{INBOX}")
    await other.declare()
    await other.close()
    await server.restart()
    with pytest.raises(HistoryChanged, match="had been read up to"):
        await reader.batch(timeout_s=10)


@pytest.mark.usefixtures("sharing")
async def test_a_stream_that_changed_during_an_outage(server: NatsServer, bus: NatsBus) -> None:
    """The other stream is as long or longer. The reader detects it as soon as it continues."""
    for payload in (b"1", b"2"):
        await bus.append(subjects.inbox("a"), payload)
    reader = await bus.read(INBOX, subjects.inbox("a"))
    await taken(reader, 2)
    other = await connect(server.url, "other", timeout_s=5)
    await other._jetstream.api(f"STREAM.DELETE.{INBOX}")
    await other.declare()
    for payload in (b"1", b"another", b"3"):
        await other.append(subjects.inbox("a"), payload)
    await other.close()
    await server.restart()
    with pytest.raises(HistoryChanged, match="holds another message at 2"):
        await reader.batch(timeout_s=10)


async def test_outages_are_unanswered(server: NatsServer, bus: NatsBus) -> None:
    await server.stop()
    with pytest.raises(Unanswered):
        await bus.append(subjects.inbox("a"), b"", timeout_s=0.2)
    with pytest.raises(Unanswered):
        await bus.request("remuda.api.x", timeout_s=0.2)
    with pytest.raises(Unanswered):
        await connect(server.url, "late", timeout_s=0.3)
    await server.start()


async def test_a_watch_reports_deletions_during_an_outage(server: NatsServer, bus: NatsBus) -> None:
    bucket = subjects.RMS.name
    for key in ("a", "b"):
        await bus.put(bucket, key, b"1")
    entries = bus.watch(bucket)
    assert [(await anext(entries)).key for _ in range(2)] == ["a", "b"]
    next_one = asyncio.ensure_future(anext(entries))
    await server.restart()
    # Gone without a trace, as after a purge of the bucket.
    other = await connect(server.url, "other", timeout_s=5)
    await other._jetstream.api(f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.a"})
    await other.close()
    told: dict[str, bytes | None] = {}
    async with asyncio.timeout(10):
        while told.get("a", b"") is not None:
            entry = await next_one
            told[entry.key] = entry.value
            if told.get("a", b"") is not None:
                # It may have listed the bucket before the purge: then only another break shows it.
                if "b" in told and "a" in told:
                    await server.restart()
                next_one = asyncio.ensure_future(anext(entries))
    await entries.aclose()  # type: ignore[attr-defined]


async def test_an_endpoint_closed_during_an_outage_stays_closed(server: NatsServer, bus: NatsBus) -> None:
    async def handler(message: Message) -> bytes:
        return b""

    kept = await bus.serve("remuda.api.kept", handler, "kept")
    serving = await bus.serve("remuda.api.test", handler, "test")
    assert bus.connection_count == 1
    await server.stop()
    while bus.connected:  # noqa: ASYNC110 - nothing tells when nats-py has noticed
        await asyncio.sleep(0.01)
    await serving.close()
    await server.start()
    other = await connect(server.url, "other", timeout_s=5)
    await asyncio.wait_for(_answered(other, "remuda.api.kept"), 10)
    assert bus.connection_count == 2
    with pytest.raises(NoResponders):
        await other.request("remuda.api.test")
    await kept.close()
    await other.close()


async def test_a_cancelled_flush_does_not_stop_the_connection_from_reading(bus: NatsBus) -> None:
    client = bus._connection.client
    flushing = asyncio.create_task(client.flush())
    while not client._pongs:  # noqa: ASYNC110 - nothing tells when it has asked
        await asyncio.sleep(0)
    flushing.cancel()
    await asyncio.wait([flushing])
    await bus.serve("remuda.api.test", echo, "test")
    answer = await asyncio.wait_for(bus.request("remuda.api.test", b"1"), 1)
    assert (answer.payload, bus.connection_count) == (b"1", 1)


async def test_a_connection_that_stops_reading_is_restored(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    async def bug(data: bytes) -> None:
        monkeypatch.undo()
        raise RuntimeError("a bug")

    await bus.serve("remuda.api.test", echo, "test")
    monkeypatch.setattr(bus._connection.client._ps, "parse", bug)
    with pytest.raises(Unanswered):
        await asyncio.wait_for(bus.request("remuda.api.test", b"1"), 1)
    await asyncio.wait_for(_answered(bus, "remuda.api.test"), 2)
    assert bus.connection_count == 2


async def test_background_work_that_never_started_is_closed(bus: NatsBus) -> None:
    """As what was to be done in the round of the loop in which the connection is closed. Python warns of coroutines
    that was not awaited."""

    async def work() -> None:
        raise AssertionError

    left = work()
    given_up = bus._connection.later(left)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert inspect.getcoroutinestate(left) == inspect.CORO_CLOSED


async def echo(message: Message) -> bytes:
    return message.payload


async def _answered(bus: NatsBus, subject: str) -> None:
    while True:
        try:
            await bus.request(subject)
            return
        except NoResponders:
            await asyncio.sleep(0.02)


async def test_requests_beyond_the_bound_are_refused(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals come at once, and the other requests are answered."""
    monkeypatch.setattr(limits, "REQUESTS_AT_ONCE", 3)
    go_on, all_are_there = asyncio.Event(), asyncio.Barrier(4)

    async def handler(message: Message) -> bytes:
        await all_are_there.wait()
        await go_on.wait()
        return b"answered"

    await bus.serve("remuda.api.slow", handler, "slow")
    waiting = [asyncio.ensure_future(bus.request("remuda.api.slow")) for _ in range(3)]
    await asyncio.wait_for(all_are_there.wait(), 5)
    with pytest.raises(Refused, match="3 requests are being answered, try again") as refused:
        await bus.request("remuda.api.slow")
    assert refused.value.code == 503
    go_on.set()
    assert [message.payload for message in await asyncio.gather(*waiting)] == [b"answered"] * 3


async def test_declare_updates_what_may_be_updated(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    async def config(name: str) -> dict[str, object]:
        return (await bus._jetstream.api(f"STREAM.INFO.{name}"))["config"]

    before = await config("LOG")
    larger = dataclasses.replace(subjects.LOG, max_bytes=subjects.LOG.max_bytes + 2**30, why="another reason")
    monkeypatch.setattr(subjects, "STREAMS", (larger,))
    await asyncio.gather(*(bus.declare() for _ in range(3)))
    after = await config("LOG")
    assert after == {**before, "max_bytes": larger.max_bytes, "description": "another reason"}
    await bus.declare()
    assert await config("LOG") == after


async def test_declare_adds_limits_to_streams_of_older_versions(
    server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a new limit would make the server delete messages, declare leaves it out until there are fewer."""

    async def config() -> dict[str, object]:
        return (await bus._jetstream.api(f"STREAM.INFO.{REQUESTS}"))["config"]

    now = dataclasses.replace(subjects.REQUESTS, max_msgs_per_subject=6, max_consumers=2_000)
    before = dataclasses.replace(subjects.REQUESTS, max_msgs_per_subject=-1, max_consumers=0)
    await bus._jetstream.api(f"STREAM.DELETE.{REQUESTS}")
    monkeypatch.setattr(subjects, "STREAMS", (before,))
    await bus.declare()
    for _ in range(20):
        await bus.append(subjects.request("a", "node"), b"")
    monkeypatch.setattr(subjects, "STREAMS", (now,))
    await bus.declare()
    assert await bus.message_count(REQUESTS, ">") == 20
    assert (await config())["max_msgs_per_subject"] == -1
    assert (await config())["max_consumers"] == 2_000
    await bus.trim(REQUESTS, subjects.request("a", "node"), 19)
    await bus.declare()
    assert await bus.message_count(REQUESTS, ">") == 2
    found = await config()
    assert (found["max_msgs_per_subject"], found["discard_new_per_subject"]) == (6, True)
    await bus.declare()
    assert await config() == found


async def test_more_consumers_than_a_server_allows_by_default(server: NatsServer, bus: NatsBus) -> None:
    """Each registered RM has one."""
    for begin in range(0, 1_100, 50):
        await asyncio.gather(
            *(
                bus.create_consumer(subjects.CALLBACKS.name, subjects.callback(f"rm-{n}", "*"), f"rm-{n}", 0, {})
                for n in range(begin, begin + 50)
            )
        )
    assert await bus.consumer_state(subjects.CALLBACKS.name, "rm-1099") is not None
    await server.kill()  # it would take ten seconds to stop so many in order


async def test_declare_refuses_a_setting_that_cannot_be_changed(bus: NatsBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "STREAMS", (dataclasses.replace(subjects.LOG, subjects=subjects.INBOX.subjects),))
    with pytest.raises(Refused, match="LOG"):
        await bus.declare()


async def test_the_process_is_a_micro_service(server: NatsServer, bus: NatsBus) -> None:
    async def handler(message: Message) -> bytes:
        return b"pong"

    await bus.serve("remuda.api.test", handler, "test-endpoint")
    client = Client()
    await client.connect(server.url)
    ping = await client.request("$SRV.PING.test", timeout=5)
    assert json.loads(ping.data)["name"] == "test"
    info = json.loads((await client.request("$SRV.INFO.test", timeout=5)).data)
    assert [(point["name"], point["subject"]) for point in info["endpoints"]] == [("test-endpoint", "remuda.api.test")]
    assert (await client.request("remuda.api.test", timeout=5)).data == b"pong"
    await client.close()


def test_a_duplicate_in_process_is_unanswered():
    """In a cluster the first copy may still be stored, or may be lost with a leader."""
    said = failure("LOG", {"code": 409, "err_code": 10158, "description": "duplicate message id is in process"})
    assert isinstance(said, Unanswered)


async def test_a_flush_confirms_all_messages_sent_before(
    server: NatsServer, bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint is subscribed when `serve` returns, however late the socket is written."""
    client = bus._connection.client
    other = await connect(server.url, "other", timeout_s=5)
    written = client._flush_pending

    async def late() -> None:
        asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(written()))

    monkeypatch.setattr(client, "_flush_pending", late)
    await client.subscribe("remuda.api.test.late")
    await client.flush()
    monkeypatch.undo()
    with pytest.raises(Unanswered) as failed:
        await other.request("remuda.api.test.late", timeout_s=0.2)
    assert not isinstance(failed.value, NoResponders)
    await other.close()


async def test_a_consumer_that_is_given_up_while_it_joins_takes_no_messages(bus: NatsBus) -> None:
    """At whatever step: the next one that joins hears everything at once."""
    durable, metadata, subject = "rm-a", {"number": "1"}, subjects.callback("a", "node")
    await bus.create_consumer(subjects.CALLBACKS.name, subjects.callback("a", "*"), durable, 0, metadata)
    for steps in range(0, 400, 7):
        joining = asyncio.create_task(bus.join_consumer(subjects.CALLBACKS.name, durable, metadata))
        for _ in range(steps):
            await asyncio.sleep(0)
        joining.cancel()
        for given_up in await asyncio.gather(joining, return_exceptions=True):
            if not isinstance(given_up, BaseException):  # it was faster
                await given_up.close()
    consumer = await bus.join_consumer(subjects.CALLBACKS.name, durable, metadata)
    for number in range(3):
        await bus.append(subject, b"%d" % number)
    heard: list[bytes] = []
    async with asyncio.timeout(5 * PATIENCE):
        while len(heard) < 3:
            heard += [message.payload for message in await consumer.batch()]
    assert heard == [b"0", b"1", b"2"]
    await consumer.close()
