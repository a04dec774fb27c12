"""Nodes, pods of other schedulers, DaemonSets and cordons."""

from __future__ import annotations

import json
from typing import Any

from remuda.embedded import NatsServer
from tests.kubernetes.suite.modes import Mode


async def test_pods_of_other_schedulers_occupy_their_node(mode: Mode, server: NatsServer) -> None:
    """foreign_pod 1."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("foreign", cpu="3", scheduler="default-scheduler", nodeName="n1"))
        await it.create(mode.pod("ours", cpu="2"))
        await mode.why(it, "ours")
        await it.delete("foreign")
        await it.bound("ours")


async def test_cordoned_node_takes_nothing_new(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.patch_node("n1", {"spec": {"unschedulable": True}})
        await it.create(mode.pod("one", cpu="1"))
        await mode.why(it, "one")
        await it.patch_node("n1", {"spec": {"unschedulable": None}})
        await it.bound("one")


async def test_larger_node_has_room(mode: Mode, server: NatsServer) -> None:
    """node_resources 1."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="1")
        await it.told("NodeAccepted", "n1")
        await it.create(mode.pod("large", cpu="2"))
        await mode.why(it, "large")
        await it.patch_node("n1", {"status": {"allocatable": {"cpu": "2"}}}, "/status")
        await it.bound("large")


async def test_node_that_is_removed_and_comes_back(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(mode.pod("orphan", cpu="1"))
        await it.bound("orphan")
        await it.client.call("DELETE", "/api/v1/nodes/n1")
        await it.add_nodes("n1", cpu="2")
        await it.create(mode.pod("large", cpu="2"))
        await mode.why(it, "large")  # the orphan is adopted
        await it.delete("orphan")
        await it.bound("large")


def of_daemon_set(mode: Mode, name: str, node: str, cpu: str, uid: str) -> dict[str, Any]:
    made = mode.pod(name, cpu=cpu)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    made["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


async def test_pod_of_a_daemon_set_evicts_on_its_node(mode: Mode, server: NatsServer) -> None:
    """simple_preemptor 1."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2", cpu="2")
        await it.create(mode.pod("first", cpu="2"))
        await it.create(mode.pod("second", cpu="2"))
        nodes = await it.bound("first", "second")
        victim = next(name for name, node in nodes.items() if node == "n2")
        labels = {"matchLabels": {"app": "ds"}}
        template = mode.pod("", labels={"app": "ds"})
        del template["metadata"]["name"]
        daemon_set = {"metadata": {"name": "ds"}, "spec": {"selector": labels, "template": template}}
        made = await it.client.create("/apis/apps/v1/namespaces/default/daemonsets", daemon_set)
        uid = json.loads(made)["metadata"]["uid"]  # without a real owner, the garbage collector removes the pod
        await it.create(of_daemon_set(mode, "agent", "n2", "1", uid))
        assert await it.bound("agent") == {"agent": "n2"}
        assert victim not in await it.pods()


async def test_best_effort_pods_count_as_pods(mode: Mode, server: NatsServer) -> None:
    """basic_scheduling 4."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", pods="1")
        await it.create(mode.pod("one"))
        await it.bound("one")
        await it.create(mode.pod("two"))
        await mode.why(it, "two")


async def test_pods_of_a_job_run_and_complete(mode: Mode, server: NatsServer) -> None:
    """recovery_and_restart 2: jobs submitted, immediate restart, pods run."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        template = mode.pod("t", app="job", cpu="100m", annotations={"test/ends-after": "0.1"}, restartPolicy="Never")
        spec = {
            "parallelism": 5,
            "completions": 5,
            "template": {**template, "metadata": template["metadata"] | {"name": ""}},
        }
        await it.create(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec},
            "jobs",
            "/apis/batch/v1",
        )
        await it.stop_front()
        await it.start_front()
        await it.until(lambda pods: sum(one.status.phase == "Succeeded" for one in pods.values()) == 5)
