"""Two of three NATS servers are lost: `remuda status` says so at any moment, and never that there is nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.tests.running import finished
from remuda.show import status
from remuda_bus import subjects
from remuda_replication.rms.halts import OPERATOR, Halt
from tests.system.guarded import GuardedCluster

RM = "rm-1"
STEPS_DOWN_WITHIN_S = 15.0  # a leader that has no majority leads for some seconds more


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[GuardedCluster]:
    async with GuardedCluster(tmp_path) as running:
        yield running


async def test_without_a_majority_nothing_is_shown_as_empty(
    cluster: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await cluster.declared()
    await admin.put(subjects.RMS.name, subjects.key_of(RM), b'{"rm_id": "rm-1", "state": "registered"}')
    await admin.put(subjects.HALTS.name, subjects.key_of(RM), Halt(RM, "why", "core-1", 0, OPERATOR).encode())
    await admin.close()
    access = cluster.servers[0].access("operator")
    monkeypatch.setenv("REMUDA_NATS_CA", str(access.ca))
    monkeypatch.setenv("REMUDA_NATS_SEED", str(access.seed))

    url = ",".join(server.url for server in cluster.servers)
    found = await status._status(url)
    assert [rm["rm_id"] for rm in found["rms"]] == [RM] == [halt["rm_id"] for halt in found["halts"]]
    assert found["jetstream"] == ""
    code, text = await finished("status", "--nats", url)
    assert code == 1 and "halted: rm-1" in text, text

    await asyncio.gather(*(server.kill() for server in cluster.servers[1:]))
    left = cluster.servers[0].url
    loop = asyncio.get_running_loop()
    until_s = loop.time() + STEPS_DOWN_WITHIN_S
    while loop.time() < until_s:
        found = await status._status(left)
        assert "JetStream does not answer; scheduling has stopped" in found["jetstream"]
    code, text = await finished("status", "--nats", left)
    assert code == 1 and "JetStream does not answer" in text and "no resource manager" not in text, text
