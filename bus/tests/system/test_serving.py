"""Requests that only one of several processes may answer, even while one of them hangs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from nats.aio.client import Client

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Message, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.nats import NatsBus, connect
from remuda_replication.lease import Lease

SUBJECT = "remuda.api.test"
HOLDER = """
import asyncio, sys
from remuda_bus.bus import Message
from remuda_replication.lease import Lease
from remuda_bus.nats import connect

async def main(url: str) -> None:
    bus = await connect(url, "stopped", timeout_s=5)
    lease, asked = Lease(bus, "test", "stopped"), 0

    async def answer(message: Message) -> bytes:
        nonlocal asked
        asked += 1
        await bus.publish("asked", b"%d" % asked)
        return b"stopped"

    await lease.acquire()
    await bus.serve("remuda.api.test", answer, "test", lambda: lease.valid)
    print("ready", flush=True)
    await asyncio.Event().wait()

if "uvloop" in sys.argv:
    import uvloop
    uvloop.run(main(sys.argv[1]))
else:
    asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_a_stopped_process_does_not_answer_after_a_take_over(
    server: NatsServer, bus: NatsBus, tmp_path: Path, loop: str
) -> None:
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    other = await asyncio.create_subprocess_exec(
        sys.executable, str(script), server.url, loop, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert other.stdout is not None
        async with asyncio.timeout(10):
            while await other.stdout.readline() != b"ready\n":
                pass
        assert (await bus.request(SUBJECT)).payload == b"stopped"
        os.kill(other.pid, signal.SIGSTOP)
        with pytest.raises(Unanswered):
            await bus.request(SUBJECT, timeout_s=0.1)

        async def answer(message: Message) -> bytes:
            return b"other"

        lease = Lease(bus, "test", "other")
        async with asyncio.timeout(3 * subjects.LEASES.ttl_s):
            await lease.acquire()
        await bus.serve(SUBJECT, answer, "test", lambda: lease.valid)
        answers = await asyncio.gather(*(bus.request(SUBJECT, timeout_s=1) for _ in range(50)))
        assert {one.payload for one in answers} == {b"other"}

        late: list[bytes] = []

        async def heard(message: Message) -> None:
            late.append(message.payload)

        await bus.subscribe("asked", heard)
        os.kill(other.pid, signal.SIGCONT)
        answers = await asyncio.gather(*(bus.request(SUBJECT, timeout_s=1) for _ in range(50)))
        assert {one.payload for one in answers} == {b"other"}
        await asyncio.sleep(0.5)
        assert late == [], "it does not even look at what came while it was stopped"
        await lease.release()
    finally:
        other.kill()
        await other.wait()


async def test_the_first_answer_of_a_process_that_may_answer_counts() -> None:
    bus, may = MemoryBus(), {"a": False, "b": False}

    async def ask() -> bytes:
        return (await bus.request(SUBJECT, timeout_s=0.05)).payload

    for name in may:

        async def answer(message: Message, name: str = name) -> bytes:
            return name.encode()

        await bus.serve(SUBJECT, answer, name, lambda name=name: may[name])  # type: ignore[misc]
    with pytest.raises(Unanswered):
        await ask()
    may["b"] = True
    assert await ask() == b"b"
    may["a"] = True
    assert await ask() in (b"a", b"b")
    await bus.close()


async def test_a_process_that_may_not_answer_any_more_stays_silent(bus: NatsBus) -> None:
    may = True

    async def answer(message: Message) -> bytes:
        nonlocal may
        may = False
        return b"too late"

    await bus.serve(SUBJECT, answer, "test", lambda: may)
    with pytest.raises(Unanswered):
        await bus.request(SUBJECT, timeout_s=0.2)


async def test_micro_info_shows_endpoints_without_a_queue_group(server: NatsServer, bus: NatsBus) -> None:
    async def answer(message: Message) -> bytes:
        return b""

    await bus.serve(SUBJECT, answer, "in-turn")
    await bus.serve(SUBJECT, answer, "all", lambda: True)
    client = Client()
    await client.connect(server.url)
    info = json.loads((await client.request("$SRV.INFO.test", timeout=5)).data)
    await client.close()
    assert [(one["name"], one["queue_group"], one["metadata"]) for one in info["endpoints"]] == [
        ("in-turn", "q", {}),
        ("all", "", {"answers": "each process that may, the first answer counts"}),
    ]


async def test_a_lease_whose_renewal_got_no_answer_is_valid_no_longer_than_its_entry(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(bus, "test", "one")
    assert await lease.try_acquire()
    assert lease.valid
    now = asyncio.get_running_loop().time()
    monkeypatch.setattr("remuda_replication.lease._now", lambda: now + subjects.LEASES.ttl_s)
    assert lease.held
    assert not lease.valid
    monkeypatch.undo()
    other = await connect(bus._connection.url, "other", timeout_s=5)
    assert not await Lease(other, "test", "two").try_acquire()
    await other.close()
    await lease.release()
