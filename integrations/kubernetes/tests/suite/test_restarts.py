"""Restarts of the front end, and two of them: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from integrations.kubernetes.tests.cluster import WITHIN_S, Cluster, cluster
from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import pod
from remuda.embedded import NatsServer
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_kubernetes import limits
from tests.system.running import around_the_core, running


async def allocations(of: Cluster) -> dict[str, tuple[str, str]]:
    """UUID and node of each allocation in the scheduler, by the name of its pod."""
    rows = await of.rows("allocations")
    return {row["tags"]["kubernetes.io/meta/podName"]: (row["uuid"], row["node"]) for row in rows}


async def test_what_changed_while_no_front_end_ran(plane: ControlPlane, server: NatsServer) -> None:
    """recovery_and_restart 1, 2: allocations are the same ones, and what came and went meanwhile is seen."""
    async with cluster(plane, server.url) as it:
        await it.add_nodes("n1", "n2")
        for name in ("stays", "goes"):
            await it.create(pod(name, app="app", cpu="1"))
        await it.create(pod("waits", app="app", cpu="64"))
        await it.bound("stays", "goes")
        await it.waits("waits", "Unschedulable")
        before = await allocations(it)
        await it.stop_front()
        await it.delete("goes")
        await it.create(pod("comes", app="app", cpu="1"))
        await it.delete("waits")
        await it.start_front()
        await it.bound("comes")
        after = await allocations(it)
        assert after["stays"] == before["stays"]
        assert set(after) == {"stays", "comes"}
        assert await it.rows("asks") == []


async def test_binding_that_was_decided_is_sent_by_the_next_one(plane: ControlPlane, server: NatsServer) -> None:
    """The API server refuses bindings of the first one, as if it had been killed between decision and binding."""
    async with cluster(plane, server.url) as it:
        await it.add_nodes("n1")
        await it.stop_front()
        with it.no_bindings():
            await it.start_front()
            await it.create(pod("p", app="app", cpu="1"))
            await it.until_rows("allocations", lambda rows: len(rows) == 1)
            decided = await allocations(it)
            await it.stop_front()
        await it.start_front()
        assert await it.bound("p") == {"p": "n1"}
        assert await allocations(it) == decided


async def test_second_instance_takes_over(plane: ControlPlane, server: NatsServer) -> None:
    lease = "remuda-kubernetes"
    async with cluster(plane, server.url, lease=lease) as it:
        await it.start_front(lease=lease)
        await it.add_nodes("n1")
        await it.create(pod("first", app="app", cpu="1"))
        await it.bound("first")
        before = await allocations(it)
        await it.stop_front()
        await it.create(pod("second", app="app", cpu="1"))
        await it.bound("second")
        after = await allocations(it)
        assert after["first"] == before["first"]


async def test_other_instance_takes_over_when_the_holder_is_killed(plane: ControlPlane, server: NatsServer) -> None:
    """A killed process does not release the lease: it expires."""
    lease = "remuda-kubernetes"
    async with cluster(plane, server.url, lease=lease) as it:
        await it.stop_front()  # releases the lease
        async with killed_in_the_end(plane, server.url, lease) as process:
            await it.add_nodes("n1")
            await it.create(pod("first", app="app", cpu="1"))
            await it.bound("first")
            await it.start_front(lease=lease)
            before = await allocations(it)
            process.kill()
            await process.wait()
        await it.create(pod("second", app="app", cpu="1"))
        found = await it.until(lambda pods: bool(pods["second"].spec.node_name), limits.LEASE_S + WITHIN_S)
        assert found["second"].spec.node_name == "n1"
        after = await allocations(it)
        assert after["first"] == before["first"]


@asynccontextmanager
async def killed_in_the_end(plane: ControlPlane, url: str, lease: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A front end in a process of its own."""
    command = ["run", "kubernetes", "--nats", url]
    for assignment in (f"kubeconfig={plane.kubeconfig('remuda')}", f"lease={lease}"):
        command += ["--set", f"kubernetes.{assignment}"]
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "remuda", *command)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def of_gang(app: str, members: int, cpu: str, **of: Any) -> dict[str, Any]:
    groups = json.dumps([{"name": "g", "minMember": members, "minResource": {"cpu": cpu}}])
    annotations = {
        "yunikorn.apache.org/task-groups": groups,
        "yunikorn.apache.org/task-group-name": "g",
        "yunikorn.apache.org/schedulingPolicyParameters": "placeholderTimeoutInSeconds=6",
    }
    return pod(app, app=app, cpu=cpu, annotations=annotations, **of)


async def test_gang_that_runs_and_gang_that_waits(plane: ControlPlane, server: NatsServer) -> None:
    """recovery_and_restart 3: the same pods in the same states after it; then the time of the second one ends."""
    async with cluster(plane, server.url) as it:
        await it.add_nodes("n1", cpu="3")
        await it.create(of_gang("runs", 1, "1"))
        await it.until(lambda pods: set(pods) == {"runs"} and pods["runs"].status.phase == "Running")
        await it.create(of_gang("waits", 3, "1"))
        await it.until(lambda pods: sum(one.status.phase == "Running" for one in pods.values()) == 3)

        async def states() -> dict[str, tuple[str, str, str]]:
            return {name: (one.uid, one.spec.node_name, one.status.phase) for name, one in (await it.pods()).items()}

        before = await states()
        assert len(before) == 5  # of `waits`, two placeholders of three have room
        await it.stop_front()
        await it.start_front()
        await it.add_nodes("n2", cpu="500m")
        await it.told("NodeAccepted", "n2")  # the restarted one is at work
        assert await states() == before
        await it.until(lambda pods: set(pods) == {"runs", "waits"} and pods["waits"].status.phase == "Running")
        for name in ("runs", "waits"):
            await it.end(name)
        await it.until_rows("allocations", lambda rows: not rows)


QUEUES = """
partitions:
  - name: default
    placementrules: [{name: provided}]
    queues: [{name: root, submitacl: '*', queues: [%s]}]
"""


async def test_queue_that_was_removed_while_no_scheduler_ran(
    plane: ControlPlane, server: NatsServer, tmp_path: Path
) -> None:
    """restart_changed_config 1: of a scheduler that has kept nothing. What runs in a queue that is gone runs on."""
    both, fewer = tmp_path / "both.yaml", tmp_path / "fewer.yaml"
    both.write_text(QUEUES % "{name: stays}, {name: goes}")
    fewer.write_text(QUEUES % "{name: stays}")
    async with cluster(plane, server.url, both) as it:
        await it.add_nodes("n1")
        for queue in ("stays", "goes"):
            await it.create(pod(queue, app=queue, queue=f"root.{queue}", cpu="1"))
        await it.bound("stays", "goes")
        await it.stop_front()
        async with (
            NatsServer(tmp_path / "other") as other,
            around_the_core(other.url, fewer),
            running(other.url, "core", core_main, CoreSettings),
        ):
            it.url = other.url
            await it.start_front()
            rows = await it.until_rows("applications", lambda rows: sum(row["allocations"] for row in rows) == 2)
            queues = {row["id"]: row["queue"] for row in rows}
            assert queues == {"default.stays": "root.stays", "default.goes": "root.@recovery@"}
            assert {one.status.phase for one in (await it.pods()).values()} == {"Running"}
            await it.stop_front()
