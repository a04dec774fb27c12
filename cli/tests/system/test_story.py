"""`remuda story` reads the log itself, of whichever RM has something to tell."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.tests.running import finished
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader, LogWriter, Position

AT_MS = 1_795_000_000_123
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SIZE = si.Resource(resources={"vcore": si.Quantity(value=2_000), "memory": si.Quantity(value=2**30)})


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """Two RMs have registered, one of them has done something."""
    async with NatsServer(tmp_path, max_payload=1024 * 1024) as server:
        bus = await connect(server.url, "writer")
        try:
            await bus.declare()
            for rm in ("rm-0", "rm:1"):
                record = json.dumps({"rm_id": rm}).encode()
                await bus.put(subjects.RMS.name, subjects.key_of(rm), record)
            await write(bus)
            yield server.url
        finally:
            await bus.close()


async def write(bus: Bus) -> None:
    """An ask; a pass in two parts, whose allocation is in the second; its release."""
    writer = LogWriter(bus, "rm:1", Position())
    asked = log_pb2.Commit(now_ms=AT_MS)
    fact = asked.decisions.add(command="UpdateAllocation", inbox_seq=7, request_seq=3,
                               traceparent=f"00-{TRACE}-00f067aa0ba902b7-01").facts.add()  # fmt: skip
    fact.ask_accepted.ask.CopyFrom(
        si.AllocationAsk(applicationID="app-1", allocationKey="k1", maxAllocations=2, resourceAsk=SIZE)
    )
    await writer.append(asked)
    passed = log_pb2.Commit(now_ms=AT_MS + 1)
    facts = passed.decisions.add(command="Schedule").facts
    for number in range(100_000):
        one = si.Allocation(UUID=f"u-{number}", allocationKey=f"k{number}", applicationID="app-1", nodeID="n1")
        facts.add().allocated.allocation.CopyFrom(one)
    await writer.append(passed)
    assert writer.position.seq > 2, "it was meant to come in parts"
    freed = log_pb2.Commit(now_ms=AT_MS + 60_000)
    freed.decisions.add(command="UpdateAllocation", inbox_seq=8, request_seq=4).facts.add(
        allocation_released=log_pb2.AllocationReleased(
            application_id="app-1", allocation_key="k1", uuid="u-1", node_id="n1", termination_type=si.STOPPED_BY_RM,
            message="done",
        )
    )  # fmt: skip
    await writer.append(freed)


async def test_an_allocation_from_its_ask_to_its_end(url: str) -> None:
    code, text = await finished("story", "u-1", "--nats", url)
    assert (code, text) == (
        0,
        "2026-11-18 11:06:40.123Z  app-1/k1 asks for 2 × memory 1Gi, vcore 2, priority 0"
        f"  [UpdateAllocation, request 3, trace {TRACE}]\n"
        "2026-11-18 11:06:40.124Z  app-1/k1 allocated on n1 as u-1, nothing  [the scheduler: Schedule]\n"
        "2026-11-18 11:07:40.123Z  app-1/k1 released on n1, STOPPED_BY_RM: done (u-1)  [UpdateAllocation, request 4]\n"
        "3 facts in the log of rm:1, kept since 2026-11-18 11:06:40.123Z (complete)\n",
    )


async def test_a_resource_manager_of_peloton_that_does_not_run_is_named(url: str) -> None:
    """It reads its log itself."""
    bus = await connect(url, "resmgr")
    await bus.put(subjects.LEADERS.name, subjects.key_of(subjects.peloton_log("default")), b"{}")
    await bus.close()
    code, text = await finished("story", "u-1", "--nats", url)
    assert code == 0 and "3 facts in the log of rm:1" in text
    code, text = await finished("story", "/pool", "--nats", url)
    assert code == 1
    assert text.startswith("remuda: no fact about '/pool': the log of rm-0"), "IDs begin with a slash, too"
    assert "; no resource manager of Peloton answers for the cluster" in text


async def test_for_programs(url: str) -> None:
    code, text = await finished("story", "app-1/k7", "--rm", "rm:1", "--json", "--nats", url)
    assert code == 0, text
    assert await finished("story", "rm:1", "app-1/k7", "--json", "--nats", url) == (0, text), "the RM first"
    (line,) = map(json.loads, text.splitlines())
    assert line["kind"] == "Allocated" and line["at_ms"] == AT_MS + 1 and line["rm"] == "rm:1"
    assert line["cause"] == "the scheduler: Schedule"


async def test_what_is_not_there_is_an_error_that_says_where_was_looked(url: str) -> None:
    code, text = await finished("story", "k999999", "--nats", url)
    assert code == 1
    assert text == (
        "remuda: no fact about 'k999999': the log of rm-0 is empty; "
        "the log of rm:1, kept since 2026-11-18 11:06:40.123Z (complete)\n"
    )
    code, text = await finished("story", "app-1/", "--nats", url)
    assert code == 1 and text.startswith("remuda: no fact about 'app-1/': ")
    code, text = await finished("story", "k1", "--rm", "no such", "--nats", url)
    assert code == 1 and text.startswith("remuda: rmID 'no such': expected")


async def test_a_log_that_was_trimmed_says_so(url: str) -> None:
    bus = await connect(url, "trimmer")
    try:
        reader = await LogReader.open(bus, "rm:1")
        seqs = [entry.seq async for entries in reader.read_to_end() for entry in entries]
        await reader.close()
        await bus.trim(subjects.LOG.name, subjects.log("rm:1"), seqs[-1])
    finally:
        await bus.close()
    code, text = await finished("story", "k1", "--nats", url)
    assert code == 0, text
    assert (
        text.splitlines()[1]
        == "1 fact in the log of rm:1, kept since 2026-11-18 11:07:40.123Z (older commits are deleted)"
    )
