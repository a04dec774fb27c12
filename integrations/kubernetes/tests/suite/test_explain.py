"""`remuda explain pod`: why a pod waits, and the same in one line in its condition."""

from __future__ import annotations

from pathlib import Path

from integrations.kubernetes.tests.cluster import cluster
from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import pod
from remuda.embedded import NatsServer

QUEUES = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: 1}}}, {name: b}]}]
"""


async def test_condition_says_in_one_line_what_explain_says(
    plane: ControlPlane, server: NatsServer, tmp_path: Path
) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUES)
    async with cluster(plane, server.url, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(pod("runs", app="app", queue="root.a", cpu="1"))
        await it.bound("runs")
        await it.create(pod("over", app="app", queue="root.a", cpu="1"))
        await it.create(pod("large", app="other", queue="root.b", cpu="64"))
        await it.create(pod("picky", app="other", queue="root.b", cpu="1", nodeSelector={"disk": "ssd"}))
        for name, why, said in (
            ("over", "SchedulingSkipped", "root.a"),
            ("large", "Unschedulable", "vcore"),
            ("picky", "Unschedulable", "node selector"),
        ):
            condition = await it.waits(name, why)
            text = await it.explained(name)
            assert said in condition
            assert said in text
        assert "n1" in await it.explained("runs")
        assert "has no ask or allocation of pod default/nobody" in await it.explained("nobody")
