"""Malformed input from other processes is refused with the name of the field. It ends no process and no connection."""

from __future__ import annotations

import pytest

from remuda_bus import subjects
from remuda_bus.nats import connect
from remuda_bus.nats.ordered_consumer import stream_position
from remuda_bus.nats.patched_client import parse_headers, servers
from remuda_bus.untrusted import Malformed, json_object, number_in, shortened
from remuda_replication.log import Position

LARGEST = 2**63 - 1
NUMBERS = ("", "x", "-1", "1_0", " 1", "٣", str(LARGEST + 1), "9" * 5_000, "1.0", "0x1")


@pytest.mark.parametrize("text", NUMBERS)
def test_malformed_numbers(text: str) -> None:
    with pytest.raises(Malformed, match=f"N .*expected a number from 0 to {LARGEST}") as problem:
        number_in({"N": text}, "N")
    assert len(str(problem.value)) < 200


def test_numbers() -> None:
    assert number_in({"N": str(LARGEST)}, "N") == LARGEST
    assert number_in({"N": "-1"}, "N", least=-1) == -1
    assert number_in({}, "N", 7) == 7
    with pytest.raises(Malformed, match="N: missing"):
        number_in({}, "N")


def test_shortened() -> None:
    assert shortened("a\r\n\x00b") == "a   b"
    assert shortened("x" * 100, 3) == "xxx… (100 characters)"


@pytest.mark.parametrize("payload", [b"", b"x", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_malformed_json_objects(payload: bytes) -> None:
    with pytest.raises(Malformed, match="the entry: ") as problem:
        json_object(payload, "the entry")
    assert len(str(problem.value)) < 400


@pytest.mark.parametrize("digest", ["x", "a", "ab" * 33, "ab" * 5_000, "\u0663\u0663"])
def test_malformed_positions(digest: str) -> None:
    with pytest.raises(ValueError, match=subjects.LOG_HASH):
        Position.of({subjects.LOG_SEQ: "1", subjects.LOG_HASH: digest})


def test_status_and_description_are_the_servers() -> None:
    assert parse_headers(b"NATS/1.0\r\nStatus: 404\r\nDescription: x\r\na: b\r\n\r\n") == {"a": "b"}
    assert parse_headers(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 7\r\n\r\n") == {
        "Status": "100",
        "Description": "Idle Heartbeat",
        "Nats-Last-Consumer": "7",
    }
    assert parse_headers(b"NATS/1.0 503\r\n\r\n") == {"Status": "503"}


@pytest.mark.parametrize("reply", ["$JS.ACK.", "$JS.ACK.a.b.c.d.e.f.g", "$JS.ACK.S.c.1.x.1.1.1"])
def test_malformed_reply_subjects(reply: str) -> None:
    with pytest.raises(Malformed):
        stream_position(reply)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no host"),
        ("nats://", "no host"),
        ("nats://a:99999", "Port out of range"),
        ("nats://a:x", "Port could not be cast"),
        ("nats://a:0", "port 0"),
        ("http://a", "unknown scheme 'http'"),
        ("nats://a,ftp://b", "'ftp://b': unknown scheme"),
        ("nats://a b", "no host"),
        ("nats://[::1", "Invalid IPv6"),
        ("nats://a,", "no host"),
    ],
)
async def test_malformed_urls(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"NATS URL .*{why}"):
        await connect(url, "test", timeout_s=1)


def test_urls() -> None:
    assert servers("nats://a:1, tls://b,c:2 ,d") == ["nats://a:1", "tls://b", "c:2", "d"]
