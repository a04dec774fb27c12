"""Servers of a cluster are stopped one by one, as the manifests do it: each hands the leadership of its streams over
first, so nothing waits for an election, which takes 4 to 9 s."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import BusError
from remuda_bus.nats import NatsBus
from tests.system.guarded import DEPLOY, GuardedCluster
from tests.system.running import until

SUBJECTS = (
    subjects.log("rm-1"),
    subjects.inbox("rm-1"),
    subjects.callback("rm-1", "node"),
    subjects.request("rm-1", "node"),
)
STREAMS = (
    *(stream.name for stream in subjects.STREAMS),
    *(f"KV_{bucket.name}" for bucket in subjects.BUCKETS),
    *(f"OBJ_{bucket.name}" for bucket in subjects.OBJECT_BUCKETS),
)
# Of an append that is in flight when its leader goes: its answer may be lost, and is waited for.
ANSWER_WITHIN_S = 1.0
LEAST_ELECTION_S = 4.0


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[tuple[GuardedCluster, NatsBus]]:
    async with GuardedCluster(tmp_path) as cluster:
        bus = await cluster.declared()
        yield cluster, bus
        await bus.close()


async def are_current(bus: NatsBus) -> bool:
    """Whether each stream has a leader, and all its replicas are up to date."""
    try:
        states = [await bus.stream_state(name) for name in STREAMS[: len(subjects.STREAMS)]]
        for name in STREAMS[len(subjects.STREAMS) :]:
            cluster = (await bus._jetstream.api(f"STREAM.INFO.{name}"))["cluster"]
            if not cluster.get("leader") or not all(one.get("current") for one in cluster["replicas"]):
                return False
    except BusError:
        return False
    return all(state.leader and not state.behind for state in states)


async def append(bus: NatsBus, subject: str, longest_s: dict[str, float]) -> None:
    """Again and again; notes the longest time from one success to the next."""
    now = asyncio.get_running_loop().time
    last = now()
    while True:
        try:
            await bus.append(subject, b"x", timeout_s=ANSWER_WITHIN_S)
        except BusError:
            continue
        finally:
            await asyncio.sleep(0.01)
        longest_s[subject] = max(longest_s.get(subject, 0.0), now() - last)
        last = now()


async def stop(server: NatsServer, sign: signal.Signals) -> None:
    assert server._process is not None
    os.kill(server.pid, sign)
    await asyncio.to_thread(server._process.wait, 60)
    await server.stop()


def test_the_manifests_stop_servers_by_this_signal() -> None:
    assert "kill -USR2 1" in (DEPLOY / "kubernetes/nats.yaml").read_text()
    assert "stop_signal: SIGUSR2" in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize("sign", [signal.SIGUSR2, signal.SIGTERM])
async def test_a_server_that_is_stopped_leaves_no_election(
    admin: tuple[GuardedCluster, NatsBus], sign: signal.Signals
) -> None:
    cluster, bus = admin
    longest_s: dict[str, float] = {}
    appending = [asyncio.create_task(append(bus, subject, longest_s)) for subject in SUBJECTS]
    try:
        for server in cluster.servers:
            await until(lambda: are_current(bus), 60)
            await stop(server, sign)
            await server.start()
        await until(lambda: are_current(bus), 60)
    finally:
        for task in appending:
            task.cancel()
        await asyncio.wait(appending)
    assert longest_s.keys() == set(SUBJECTS)
    assert max(longest_s.values()) < LEAST_ELECTION_S, longest_s
