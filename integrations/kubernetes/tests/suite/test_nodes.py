"""Nodes, pods of other schedulers, DaemonSets and cordons."""

from __future__ import annotations

import json
from typing import Any

from integrations.kubernetes.tests.cluster import Cluster
from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer


async def test_pods_of_other_schedulers_occupy_their_node(mode: Mode, server: NatsServer) -> None:
    """foreign_pod 1: each pod of kube-system is booked on its node."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        it.namespace = "kube-system"
        foreign = {"n1": ("dns", "proxy1"), "n2": ("proxy2",)}
        for node, names in foreign.items():
            for name in names:
                await it.create(mode.pod(name, app="", cpu="1500m", scheduler="default-scheduler", nodeName=node))

        booked = {node: {"vcore": 1500 * len(names), "pods": len(names)} for node, names in foreign.items()}
        await it.until_rows("nodes", lambda rows: {row["id"]: row["occupied"] for row in rows} == booked)
        it.namespace = "default"
        await it.create(mode.pod("ours", cpu="3"))
        await mode.why(it, "ours")
        it.namespace = "kube-system"
        await it.delete("proxy2")
        it.namespace = "default"
        assert await it.bound("ours") == {"ours": "n2"}


async def test_cordoned_node_takes_nothing_new(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.patch_node("n1", {"spec": {"unschedulable": True}})
        await it.create(mode.pod("one", cpu="1"))
        await mode.why(it, "one")
        await it.patch_node("n1", {"spec": {"unschedulable": None}})
        await it.bound("one")


async def test_larger_node_has_room(mode: Mode, server: NatsServer) -> None:
    """node_resources 1: what the node can allocate is its capacity in the scheduler."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="1")
        await it.told("NodeAccepted", "n1")
        await it.create(mode.pod("large", cpu="2"))
        await mode.why(it, "large")
        await it.patch_node("n1", {"status": {"allocatable": {"cpu": "2"}}}, "/status")
        await it.bound("large")
        (node,) = await it.rows("nodes")
        assert node["capacity"] == {"vcore": 2000, "memory": 8 * 2**30, "pods": 110}


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


async def daemon_set(of: Cluster, mode: Mode) -> str:
    """The UID of a DaemonSet whose pods the tests create. Pods without a real owner, the garbage collector removes."""
    template = mode.pod("", labels={"app": "ds"})
    del template["metadata"]["name"]
    spec = {"selector": {"matchLabels": {"app": "ds"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    made = await of.client.create(path, {"metadata": {"name": "ds"}, "spec": spec})
    return str(json.loads(made)["metadata"]["uid"])


async def test_pod_of_a_daemon_set_evicts_on_its_node(mode: Mode, server: NatsServer) -> None:
    """simple_preemptor 1."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2", cpu="2")
        await it.create(mode.pod("first", cpu="2"))
        await it.create(mode.pod("second", cpu="2"))
        nodes = await it.bound("first", "second")
        victim = next(name for name, node in nodes.items() if node == "n2")
        await it.create(of_daemon_set(mode, "agent", "n2", "1", await daemon_set(it, mode)))
        assert await it.bound("agent") == {"agent": "n2"}
        assert victim not in await it.pods()


async def test_pod_of_a_daemon_set_evicts_a_regular_pod_first(mode: Mode, server: NatsServer) -> None:
    """simple_preemptor 2: then originators, though younger, and those that opted out last."""
    never = {"yunikorn.apache.org/allow-preemption": "false"}
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="4")
        # Application x has a regular pod; the others are originators.
        for name, app, annotations in (("x1", "x", {}), ("x2", "x", {}), ("y1", "y", {}), ("z1", "z", never)):
            await it.create(mode.pod(name, app=app, cpu="1", annotations=annotations))
            await it.bound(name)
        uid = await daemon_set(it, mode)
        left = {"x1", "x2", "y1", "z1"}
        for number, victims in enumerate(({"x2"}, {"y1", "x1"}, {"y1", "x1"})):
            agent = f"agent{number}"
            await it.create(of_daemon_set(mode, agent, "n1", "1", uid))
            await it.bound(agent)
            gone = left - set(await it.pods())
            assert len(gone) == 1
            assert gone <= victims
            left -= gone
        assert left == {"z1"}


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
