"""Processes that hang, RMs without number, and bugs in the handling of one RM."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application
from tests.tenants import FAULTS
from tests.tenants.hostile import Hostile, Reply, raw_client

from .ground import Ground, ground

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY_RMS = 300
AT_ONCE = 20
# Half a second until the holder of the lease counts as gone, and a core that starts on a busy machine.
FAILOVER_S = 3.0


async def test_more_rms_than_a_stream_takes_consumers(ground: Ground) -> None:
    async with ground.attack() as rm:
        names = iter([f"{rm.rm_id}-{number}" for number in range(MANY_RMS)])
        refused = []

        async def register_some() -> None:
            for name in names:
                answer = await Hostile(rm.client, name).register(within_s=30)
                if not isinstance(answer, Reply):
                    refused.append((name, answer))

        await asyncio.gather(*(register_some() for _ in range(AT_ONCE)))
        assert not refused, f"{len(refused)} registrations failed: {refused[:3]}"
        await asyncio.sleep(3)
    ground.spoilt = True  # its RMs stay


@contextmanager
def stopped(pid: int | None) -> Iterator[None]:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("name", ["rmproxy-1", "rmproxy-2", "core-1", "core-2"])
async def test_a_process_that_hangs(grounds, ground: Ground, name: str) -> None:
    """Once its lease has moved, the other processes answer every registration and query."""
    pid = ground.system.pids()[name]
    ground.spoilt = True
    lease_s = subjects.LEASES.ttl_s
    async with raw_client(ground.url) as client:
        with stopped(pid):
            await asyncio.sleep(lease_s + 1)
            began = time.monotonic()
            new = [Hostile(client, f"late-{name}-{number}") for number in range(6)]
            answers = await asyncio.gather(*(rm.register(within_s=9) for rm in new))
            assert all(isinstance(answer, Reply) for answer in answers), answers
            asked = [await rm.ask(subjects.core_query(rm.rm_id, "stats"), within_s=2) for rm in new for _ in range(3)]
            assert all(isinstance(answer, Reply) for answer in asked), asked
            for side in ground.sides:
                assert await side.settled(5.0)
            waited_s = max(wait for side in ground.sides for wait in side.waits_s(began))
            may_s = ground.may_wait_s(began)
            assert waited_s <= may_s, f"a side RM waited {waited_s:.2f} s after the lease has moved, not {may_s:.2f} s"
    assert not await ground.system.halted()


@pytest.fixture
async def faulty(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    """A system whose core and rmproxy have a bug (`tests/tenants/faults`)."""
    monkeypatch.setenv("PYTHONPATH", f"{FAULTS}:{os.environ.get('PYTHONPATH', '')}")
    with tempfile.TemporaryDirectory(prefix="remuda-faulty-") as data:
        async with ground(Path(data)) as prepared:
            yield prepared


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("where", ["core", "rmproxy"])
async def test_a_bug_halts_the_rm_that_meets_it(faulty: Ground, where: str) -> None:
    """The message ends two processes. Then its RM alone is halted, the message is kept, and the other RMs continue."""
    async with faulty.attack(longer_s=3 * FAILOVER_S, may_end=True) as rm:
        await rm.register()
        await rm.submit(application(f"bug-in-{where}", queue="root.a", user="ann"))
        async with asyncio.timeout(45):
            while await faulty.system.halted() != {rm.rm_id}:  # noqa: ASYNC110 - it is not ours
                await asyncio.sleep(0.1)
    before, began = faulty.system.pids(), time.monotonic()
    await asyncio.sleep(3)
    assert faulty.system.pids() == before, "no process dies of it any more"
    assert max(wait for side in faulty.sides for wait in side.waits_s(began)) <= faulty.may_wait_s(began)
    told = subprocess.run(
        [sys.executable, "-m", "remuda", "status", "--nats", faulty.url], capture_output=True, text=True, check=False
    )
    assert rm.rm_id in told.stdout and "HALTED" in told.stdout


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("name", ["*", ">", "rm-1.>", "rm-*", "", "rm 1", ".."])
async def test_rebuilding_takes_no_wildcard(tmp_path: Path, name: str) -> None:
    async with NatsServer(tmp_path / "nats") as server:
        bus = await connect(server.url, "test", timeout_s=5)
        await bus.declare()
        kept = [
            subject
            for rm in ("rm-1", "rm-2")
            for subject in (subjects.log(rm), subjects.inbox(rm), subjects.callback(rm, "node"))
        ]
        for subject in kept:
            await bus.append(subject, si.NodeResponse().SerializeToString())
        command = [sys.executable, "-m", "remuda", "rebuild", "--yes", "--nats", server.url, "--", name]
        result = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode != 0
        assert "Traceback" not in result.stderr
        for subject in kept:
            stream = {"log": "LOG", "inbox": "INBOX"}.get(subject.split(".")[1], "CALLBACKS")
            assert await bus.last_message(stream, subject) is not None, f"{subject} is gone"
        await bus.close()
