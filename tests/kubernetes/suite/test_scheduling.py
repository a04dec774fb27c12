"""Pods with our scheduler's name are scheduled by queues and quotas."""

from __future__ import annotations

from pathlib import Path

from remuda.embedded import NatsServer
from tests.kubernetes.suite.modes import Mode


async def test_pod_is_bound_runs_and_ends(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("one", cpu="1", memory="1Gi"))
        assert await it.bound("one") == {"one": "n1"}
        await it.until(lambda pods: pods["one"].status.phase == "Running")
        await it.end("one")
        await it.create(mode.pod("two", cpu="4"))  # as much as the node has
        assert await it.bound("two") == {"two": "n1"}


async def test_quota_holds_a_pod_back(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(
        "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: "
        "[{name: a, resources: {max: {vcore: 1}}}]}]}]"
    )
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(mode.pod("second", app="app", queue="root.a", cpu="1"))
        await mode.why(it, "second", "root.a")
        await it.end("first")
        await it.bound("second")
