"""Namespaces, users, preemption, restarts: what queues make of pods."""

from __future__ import annotations

import json
from pathlib import Path

from integrations.kubernetes.tests.cluster import Cluster, cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.manifests import pod
from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer
from remuda_events.settings import EventsSettings
from remuda_events.shell import main as events_main
from remuda_kubernetes import limits
from remuda_kubernetes.shim import names
from tests.system.running import running, until

TWO_QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a}
          - {name: b, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}
"""


async def test_quota_of_a_namespace_that_changes_is_in_force_at_once(mode: Mode, server: NatsServer) -> None:
    """quota-preemption 2: no further application has to come."""

    async def set_quota(of: Cluster, cpu: str) -> None:
        annotations = {names.NAMESPACE_QUOTA: json.dumps({"cpu": cpu})}
        await of.client.patch("/api/v1/namespaces/grows", {"metadata": {"annotations": annotations}})

    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create_namespace("grows")
        await set_quota(it, "1")
        it.namespace = "grows"
        await it.create(mode.pod("first", app="app", cpu="1"))
        await it.bound("first")
        await it.create(mode.pod("second", app="app", cpu="1"))
        await mode.why(it, "second")
        await set_quota(it, "2")
        await it.bound("second")
        await it.create(mode.pod("third", app="app", cpu="1"))
        await mode.why(it, "third")
        await it.stop_front()
        await set_quota(it, "3")
        await it.start_front()
        await it.bound("third")
        assert [row["id"] for row in await it.rows("applications") if row["state"] != "Completed"] == ["grows.app"]


# Namespace: its annotations, and the maximum of its queue.
QUOTAS: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "older": ({"namespace_max_cpu": "1", "namespace_max_memory": "1Gi"}, {"vcore": 1000, "memory": 2**30}),
    "newer": ({"namespace_quota": '{"cpu": "1"}'}, {"vcore": 1000}),
    "both": ({"namespace_max_cpu": "4", "namespace_quota": '{"cpu": "1"}'}, {"vcore": 1000}),
    "without": ({}, {}),
    "empty": ({"namespace_max_cpu": "", "namespace_quota": ""}, {}),
    "wrong": ({"namespace_quota": "lots"}, {}),
}


async def test_quota_of_a_namespace(mode: Mode, server: NatsServer) -> None:
    """queue_quota_mgmt 1, 2, 3, 4, 5, 6: an application above it waits, and runs when there is room."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="32")
        for namespace, (annotations, _) in QUOTAS.items():
            await it.create_namespace(namespace, **annotations)
            it.namespace = namespace
            for number in (1, 2):
                await it.create(mode.pod(f"{namespace}-{number}", app=f"app-{number}", cpu="1"))
                if number == 1:
                    await it.bound(f"{namespace}-1")
        for namespace, (_, most) in QUOTAS.items():
            it.namespace, second = namespace, f"{namespace}-2"
            if most:
                await mode.why(it, second, f"root.{namespace}")
            else:
                await it.bound(second)
            queue = await it.queue(f"root.{namespace}")
            assert (queue.max, queue.allocated["vcore"]) == (most, 1000 if most else 2000), namespace
            if most:
                await it.end(f"{namespace}-1")
                await it.bound(second)
        await it.told("InvalidQuota", "wrong")


async def test_event_that_is_repeated_is_counted(mode: Mode, server: NatsServer) -> None:
    """With the rights of the manifests."""
    async with mode.cluster(server.url) as it:
        await it.create_namespace("counted", namespace_quota="lots")
        await it.told("InvalidQuota", "counted")
        for quota in ('{"cpu": "1"}', "lots"):
            annotations = {names.NAMESPACE_QUOTA: quota}
            await it.client.patch("/api/v1/namespaces/counted", {"metadata": {"annotations": annotations}})
        assert await it.counted("InvalidQuota", "counted") == 2


async def test_unknown_queue_fails_the_pod(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(TWO_QUEUES)
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("lost", app="lost", queue="root.nowhere", cpu="1"))
        pods = await it.until(lambda pods: pods["lost"].status.phase == "Failed")
        assert pods["lost"].status.reason == "ApplicationRejected"


async def test_queue_takes_back_what_it_is_guaranteed(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    """preemption 1."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(TWO_QUEUES)
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        names = [f"a{number}" for number in range(4)]
        for name in names:
            await it.create(mode.pod(name, app="a", queue="root.a", cpu="1"))
        await it.bound(*names)
        await it.create(mode.pod("b0", app="b", queue="root.b", cpu="1"))
        await it.bound("b0")
        assert len(await it.pods()) == 4  # one victim is gone
        await it.told("Preempted")


async def test_preemption_keeps_to_budgets(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    """The youngest pods would be the victims, but a budget needs both."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(TWO_QUEUES)
    version = "v1" if mode.plane.minor >= limits.BUDGETS_SINCE else "v1beta1"
    path = f"/apis/policy/{version}/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"kept": "yes"}}}
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.client.create(path, {"metadata": {"name": "both"}, "spec": spec})
        try:
            names = [f"a{number}" for number in range(4)]
            for name in names:
                labels = {"kept": "yes"} if name in ("a2", "a3") else {}
                await it.create(mode.pod(name, app="a", queue="root.a", cpu="1", labels=labels))
                await it.bound(name)
            await until(lambda: is_healthy(it, f"{path}/both"))
            await it.create(mode.pod("b0", app="b", queue="root.b", cpu="1"))
            await it.bound("b0")
            left = set(await it.pods())
            assert {"a2", "a3"} < left and len(left) == 4
        finally:
            await it.client.call("DELETE", f"{path}/both")


async def is_healthy(it: Cluster, path: str) -> bool:
    """Whether the controller of budgets knows both pods."""
    status = json.loads(await it.client.call("GET", path)).get("status", {})
    return status.get("currentHealthy") == 2 and status.get("disruptionsAllowed") == 0


async def test_events_tell_what_the_scheduler_records(plane: Plane, server: NatsServer, tmp_path: Path) -> None:
    """Of the pod that others make room for, and of the node that has come."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(TWO_QUEUES)
    events = running(server.url, "events", events_main, EventsSettings)
    async with cluster(plane, server.url, queues, informational=True) as it, events:
        await it.add_nodes("n1")
        names = [f"a{number}" for number in range(4)]
        for name in names:
            await it.create(pod(name, app="a", queue="root.a", cpu="1"))
        await it.bound(*names)
        await it.create(pod("b0", app="b", queue="root.b", cpu="1"))
        await it.bound("b0")
        await it.told("Informational", "b0")
        await it.told("Informational", "n1")


async def test_restart_keeps_what_runs(mode: Mode, server: NatsServer) -> None:
    """recovery_and_restart 1."""
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("before", cpu="3"))
        await it.bound("before")
        await it.stop_front()
        await it.create(mode.pod("meanwhile", cpu="2"))
        await it.start_front()
        await mode.why(it, "meanwhile")
        await it.delete("before")
        await it.bound("meanwhile")


async def test_pod_bound_by_another_process_is_booked(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(mode.pod("large", cpu="3", gated=False))  # a gate would refuse the binding
        uid = (await it.pod("large")).uid
        await mode.why(it, "large")
        await it.client.bind("default", "large", uid, "n1")
        await it.create(mode.pod("small", cpu="1"))
        await mode.why(it, "small")
        await it.delete("large")
        await it.bound("small")
