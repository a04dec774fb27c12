"""`remuda dead-letters`: what could not be handled, its content, and how it is forgotten."""

from __future__ import annotations

import json

from cli.tests.running import finished
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_proto.si.v1 import si_pb2 as si


async def keep(bus: NatsBus, rm: str, seq: str, payload: bytes, kind: str = "allocation") -> int:
    headers = {
        subjects.REASON: f"reason {seq}",
        subjects.ORIGIN_SUBJECT: subjects.request(rm, kind),
        subjects.ORIGIN_SEQ: seq,
    }
    return await bus.append(subjects.dead_letter(rm), payload, headers)


async def test_they_are_listed_shown_and_forgotten(server: NatsServer, bus: NatsBus) -> None:
    ask = si.AllocationAsk(applicationID="app-1", allocationKey="k1")
    first = await keep(bus, "a", "7", si.AllocationRequest(rmID="a", asks=[ask]).SerializeToString())
    broken = await keep(bus, "a", "9" * 5_000, b"\xff\xff", "node")
    other = await keep(bus, "b", "8", b"")

    code, said = await finished("dead-letters", "--nats", server.url)
    assert code == 0 and "reason 7" in said and "reason 8" in said, said
    code, said = await finished("dead-letters", "a", "--json", "--nats", server.url)
    rows = json.loads(said)
    assert [(row["number"], row["rm"], row["request_seq"]) for row in rows] == [(first, "a", 7), (broken, "a", 0)]
    assert rows[0]["at"].startswith("20") and rows[0]["reason"] == "reason 7"

    code, said = await finished("dead-letters", "a", str(first), "--json", "--nats", server.url)
    assert json.loads(said)["request"]["asks"][0]["allocationKey"] == "k1"
    code, said = await finished("dead-letters", "a", str(broken), "--json", "--nats", server.url)
    assert json.loads(said)["base64"] == "//8="
    code, said = await finished("dead-letters", "a", str(first), "--nats", server.url)
    assert code == 0 and "k1" in said and "reason 7" in said, said
    code, said = await finished("dead-letters", "a", str(other), "--nats", server.url)
    assert code == 1 and f"a has no dead letter {other}" in said, said

    code, said = await finished("status", "--nats", server.url)
    assert "dead letters 3 (a 2, b 1)" in " ".join(said.split()), said
    code, said = await finished("dead-letters", "a", str(first), "--forget", "--yes", "--nats", server.url)
    assert code == 0 and "deleted: 1 dead letter of a" in said, said
    code, said = await finished("dead-letters", "--forget", "--yes", "--nats", server.url)
    assert code == 1 and "--forget needs an RM" in said, said
    code, said = await finished("dead-letters", "a", "--forget", "--yes", "--nats", server.url)
    assert code == 0, said
    code, said = await finished("dead-letters", "--json", "--nats", server.url)
    assert [row["rm"] for row in json.loads(said)] == ["b"]
