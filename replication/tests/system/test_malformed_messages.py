"""Malformed messages, answers and entries on a real server are refused. They end no process and no connection."""

from __future__ import annotations

import asyncio
import json

import pytest
from nats.aio.msg import Msg

from bus.tests.test_untrusted import NUMBERS
from remuda.embedded import NatsServer
from remuda_bus import limits, subjects
from remuda_bus.bus import Entry, HistoryChanged, Message, Refused, Unanswered, Unreadable
from remuda_bus.nats import NatsBus, connect
from remuda_replication.lease import Holder
from remuda_replication.log import check_published
from remuda_replication.rms.halts import Halts
from tests.system.running import until


@pytest.mark.parametrize("code", [*(one for one in NUMBERS if one != " 1"), "\u00e9", "\udcff", "1" * 100_000])
async def test_a_refusal_with_a_malformed_code(bus: NatsBus, code: str) -> None:
    async def answers(message: Msg) -> None:
        lines = f"NATS/1.0\r\nNats-Service-Error: no\r\nNats-Service-Error-Code: {code}\r\n\r\n"
        head = lines.encode(errors="surrogateescape")
        await bus._connection.client._send_command(
            b"HPUB %s %d %d\r\n%s\r\n" % (message.reply.encode(), len(head), len(head), head)
        )

    await bus._connection.client.subscribe("questions", cb=answers)
    with pytest.raises(Refused, match="^no") as refused:
        await bus.request("questions")
    assert refused.value.code == 500
    assert len(refused.value.reason) < 300


async def test_reasons_are_shortened_when_sent_and_received(bus: NatsBus) -> None:
    async def handler(message: Message) -> bytes:
        if message.payload == b"refuse":
            raise Refused("é" * 5_000_000)
        if message.payload == b"fail":
            raise RuntimeError("\x00" * 9_000_000)
        return bytes(bus.max_payload + 1)

    await bus.serve("remuda.api.test", handler, "test")
    for payload, expected in (
        (b"refuse", "é… .[0-9]+ characters"),
        (b"fail", "characters"),
        (b"large", "takes at most"),
    ):
        with pytest.raises(Refused, match=expected) as refused:
            await bus.request("remuda.api.test", payload)
        assert len(refused.value.reason) < limits.REASON_CHARACTERS + 100
    assert bus.connection_count == 1


BYTES = {
    "headers that are none": b"HPUB %s 1 2\r\nx\n\r\n",
    "a version alone": b"HPUB %s 8 9\r\nNATS/1.0y\r\n",
    "a status that is no text": b"HPUB %s 16 17\r\nNATS/1.0 \xff\xff\xff\r\n\r\ny\r\n",
    "a description that is no text": b"HPUB %s 20 21\r\nNATS/1.0 100 \xff\xff\xff\r\n\r\ny\r\n",
    "a header that is no text": b"HPUB %s 17 18\r\nNATS/1.0\r\n\xff:\xff\r\n\r\ny\r\n",
    "a reply subject that is no text": b"PUB %s r\xff 1\r\na\r\n",
    "a reply subject with a vertical tab": b"PUB %s r\x0bq 1\r\na\r\n",
    "a reply subject with a form feed": b"PUB %s \x0c 1\r\na\r\n",
}


@pytest.mark.parametrize("about", [*BYTES, "a subject that is no text", "a subject with a vertical tab"])
async def test_messages_that_nats_py_cannot_parse(server: NatsServer, bus: NatsBus, about: str) -> None:
    """In a stream, every reader would break at the same message without end."""
    odd = {"a subject that is no text": b"\xff", "a subject with a vertical tab": b"a\x0bb"}.get(about)
    subject = b"si.v1.rm.%s.node" % (odd or b"a")
    await stored_raw(server, bus, BYTES[about] % subject if odd is None else b"PUB %s 1\r\na\r\n" % subject)
    await bus.append(subjects.request("b", "node"), b"another's")
    reader = await bus.read(subjects.REQUESTS.name, "si.v1.rm.*.*")
    got: list[Message] = []
    while not got or got[-1].payload != b"another's":
        some = await reader.batch(timeout_s=2)
        assert some
        got += some
    assert len(got) == 2
    assert bus.connection_count == 1
    assert (await bus.last_message(subjects.REQUESTS.name, "si.v1.rm.*.*")) == got[-1]


async def stored_raw(server: NatsServer, bus: NatsBus, command: bytes) -> None:
    """A server answers PING before it has stored what was published before that, so this waits until it has."""
    before = await bus.last_sequence(subjects.REQUESTS.name)
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        async with asyncio.timeout(5):
            await reader.readline()
            writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + command + b"PING\r\n")
            assert await reader.readline() == b"PONG\r\n"
    finally:
        writer.close()
        await writer.wait_closed()

    async def is_stored() -> bool:
        return await bus.last_sequence(subjects.REQUESTS.name) > before

    await until(is_stored)


@pytest.mark.parametrize("status", [b"404 gone", b"503", b"500 x"])
async def test_a_stored_message_that_looks_like_a_status(server: NatsServer, bus: NatsBus, status: bytes) -> None:
    head = b"NATS/1.0 %s\r\nNats-Sequence: x\r\n\r\n" % status
    await stored_raw(server, bus, b"HPUB si.v1.rm.a.node %d %d\r\n%s\r\n" % (len(head), len(head), head))
    last = await bus.last_message(subjects.REQUESTS.name, subjects.request("a", "*"))
    assert last is not None
    assert (last.seq, last.subject) == (1, subjects.request("a", "node"))
    assert await bus.first_sequence_since(subjects.REQUESTS.name, subjects.request("a", "*"), 60.0) == 1


async def test_malformed_answers_of_the_server(bus: NatsBus) -> None:
    async def answers(message: Msg) -> None:
        await message.respond(b"no JSON")

    fake = await connect(bus._connection.url, "fake", timeout_s=5)
    await fake._connection.client.subscribe("fake", cb=answers)
    await fake._connection.client.flush()
    with pytest.raises(Unanswered, match="not JSON"):
        await bus.append("fake", b"")
    await fake.close()


async def test_malformed_callbacks_halt_the_rm(bus: NatsBus) -> None:
    """The position from which rmproxy has to continue is unknown, so the RM is halted."""
    await bus.append(subjects.callback("a", "node"), b"", {subjects.LOG_SEQ: "9" * 5_000})
    with pytest.raises(HistoryChanged, match=r"si\.v1\.rm\.a\.callback\.node was not written by this scheduler"):
        await check_published(bus, "a")


async def test_malformed_entries(bus: NatsBus) -> None:
    assert Holder.of(Entry("core.a", b"\xff", 7)) == Holder("", "", 7)
    assert Holder.of(Entry("core.a", b"[1]", 7)) == Holder("", "", 7)
    halts = Halts(bus, "test", lambda: 0)
    for value in (b"", b"{}", b"[]", json.dumps({"rm_id": "a", "reason": 1, "by": "", "at_ms": 1}).encode()):
        await bus.put(subjects.HALTS.name, "a", value)
        halt = await halts.refresh("a")
        assert halt is not None
        assert "a halt" in halt.reason


async def test_malformed_objects(bus: NatsBus) -> None:
    bucket = subjects.SNAPSHOTS.name
    await bus.append(f"$O.{bucket}.M.A", b"")  # no base64
    assert await bus.object_names(bucket) == []
    for about in (b"", b"{}", b'{"nuid": 1}', b'{"nuid": "x", "chunks": "y"}', b'{"nuid": "x", "chunks": -1}'):
        await bus.append(f"$O.{bucket}.M.YQ==", about)
        with pytest.raises(Unreadable, match="object a of"):
            await bus.get_object(bucket, "a")
