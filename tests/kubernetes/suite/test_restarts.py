"""Restarts of the front end, and two of them: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from remuda.embedded import NatsServer
from remuda_kubernetes import limits
from tests.kubernetes.cluster import WITHIN_S, Cluster, cluster
from tests.kubernetes.control_plane.processes import ControlPlane
from tests.kubernetes.manifests import pod


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
            await it.until_rows("allocations", 1)
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


GANG = {
    "yunikorn.apache.org/task-groups": json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "3"}}]),
    "yunikorn.apache.org/task-group-name": "g",
}


async def test_pending_gang_survives_a_restart(plane: ControlPlane, server: NatsServer) -> None:
    """recovery_and_restart 3, 4: the same placeholders wait, and are replaced when there is room."""
    async with cluster(plane, server.url) as it:
        await it.add_nodes("n1")
        await it.create(pod("driver", app="app", cpu="3", annotations=GANG))
        placeholders = await it.until(lambda pods: sum(name.startswith("tg-") for name in pods) == 2)
        names = [name for name in placeholders if name.startswith("tg-")]
        await it.until(lambda pods: any(pods[name].spec.node_name for name in names if name in pods))
        before = {name: one.uid for name, one in (await it.pods()).items()}
        await it.stop_front()
        await it.start_front()
        assert {name: one.uid for name, one in (await it.pods()).items()} == before
        await it.add_nodes("n2")
        await it.bound("driver")
