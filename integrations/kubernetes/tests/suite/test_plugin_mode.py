"""Plugin mode on the real default scheduler, through the extender: it places, and remuda decides who may and where."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.suite.modes import Mode, reason, until_explained
from remuda.embedded import NatsServer
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Client

QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: a, resources: {max: {vcore: 1}}}
          - {name: b}
          - {name: c, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}
"""


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return file


@pytest.fixture
def plugin(extended: Plane) -> Mode:
    return Mode(extended, is_plugin=True)


async def test_pod_without_an_application_is_untouched(plugin: Mode, server: NatsServer, queues: Path) -> None:
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.create(plugin.pod("free", app="", cpu="2"))
        await it.bound("free")
        assert not await it.reported("QuotaApproved", "free")


async def test_pod_is_approved_and_bound_on_the_node_of_its_allocation(
    plugin: Mode, server: NatsServer, queues: Path
) -> None:
    """basic_scheduling 1, 2."""
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1", "n2", "n3")
        await it.create(plugin.pod("one", app="app", queue="root.b", cpu="1"))
        await it.bound("one")
        await it.told("QuotaApproved", "one")


async def test_held_pod_makes_no_victims(plugin: Mode, server: NatsServer, queues: Path) -> None:
    """The default scheduler must not preempt for a pod whose quota says no."""
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000}
        )
        try:
            await it.create(plugin.pod("low1", app="low", queue="root.b", cpu="1"))
            await it.create(plugin.pod("low2", app="", cpu="1"))
            await it.bound("low1", "low2")
            await it.create(plugin.pod("high", app="high", queue="root.a", cpu="2", priorityClassName="high"))
            await it.until(lambda pods: "root.a" in reason(pods["high"]))
            pods = await it.pods()
            assert [pods[name].metadata.deletion_timestamp for name in ("low1", "low2")] == [None, None]
        finally:
            await it.client.call("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/high")


async def test_gang_is_placed_by_its_placeholders(plugin: Mode, server: NatsServer, queues: Path) -> None:
    """gang_scheduling 1."""
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1", "n2")
        groups = json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "3"}}])
        gang = {"yunikorn.apache.org/task-groups": groups, "yunikorn.apache.org/task-group-name": "g"}
        for name in ("m1", "m2"):
            await it.create(plugin.pod(name, app="gang", queue="root.b", cpu="3", annotations=gang))
        on = await it.bound("m1", "m2")
        assert sorted(on.values()) == ["n1", "n2"]
        await it.until(lambda pods: set(pods) == {"m1", "m2"})


SCHEDULER = "system:kube-scheduler"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{SCHEDULER}"


async def may_bind(client: Client, *, may: bool) -> None:
    """Give the default scheduler the right to bind pods, or take it away. Returns when the API server knows it."""
    role = json.loads(await client.call("GET", ROLE))
    role["rules"] = [one for one in role["rules"] if "pods/binding" not in one["resources"]]
    role["metadata"].pop("resourceVersion")
    if may:
        role["rules"].append({"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]})
    await client.call("PUT", ROLE, role)
    asked = {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "default"}
    review = {"spec": {"user": SCHEDULER, "resourceAttributes": asked}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    async with asyncio.timeout(30):
        while json.loads(await client.create(path, review))["status"]["allowed"] is not may:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_pod_seen_again_is_decided_again(
    plugin: Mode, server: NatsServer, queues: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002, RejectTask: the pod was let go, and its binding failed. The default scheduler asks about it again. Meanwhile
    `explain` says what the default scheduler says."""
    if plugin.plane.is_existing:
        pytest.skip("a gate cannot be closed again; and the rights of another cluster's scheduler are not ours")
    monkeypatch.setattr(limits, "UNFIT_SWEEPS", 8)
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await may_bind(it.client, may=False)
        try:
            await it.create(plugin.pod("one", app="app", queue="root.b", cpu="1"))
            await it.told("TaskRejected", "one")
            await it.until(lambda pods: "binding rejected" in reason(pods["one"]))
            await until_explained(it, "one", "was not bound to node n1: binding rejected")
        finally:
            await may_bind(it.client, may=True)
        on = await it.bound("one")
        (row,) = await it.rows("allocations")
        assert {"one": row["node"]} == on


async def test_room_that_another_scheduler_has_taken(plugin: Mode, server: NatsServer, queues: Path) -> None:
    """A pod without an application takes the node first: the pod with one is decided again, or waits for room."""
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(plugin.pod("free", app="", cpu="2"))
        await it.bound("free")
        await it.create(plugin.pod("one", app="app", queue="root.b", cpu="1"))
        await it.until(lambda pods: reason(pods["one"]) not in ("", "waiting for remuda"))
        await it.end("free")
        await it.bound("one")


async def test_priority_comes_first(plugin: Mode, server: NatsServer, queues: Path) -> None:
    """priority_scheduling 1: of two applications that wait, the one of higher priority goes first."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.client.create(classes, {"metadata": {"name": "urgent"}, "value": 100})
        try:
            await it.create(plugin.pod("first", app="first", queue="root.a", cpu="1"))
            await it.bound("first")
            await it.create(plugin.pod("low", app="low", queue="root.a", cpu="1"))
            await it.until(lambda pods: "root.a" in reason(pods["low"]))
            await it.create(plugin.pod("urgent", app="urgent", queue="root.a", cpu="1", priorityClassName="urgent"))
            await it.until(lambda pods: "root.a" in reason(pods["urgent"]))
            await it.end("first")
            await it.bound("urgent")
            assert not (await it.pod("low")).spec.node_name
        finally:
            await it.client.call("DELETE", f"{classes}/urgent")


async def test_restart_keeps_what_was_let_go(plugin: Mode, server: NatsServer, queues: Path) -> None:
    """recovery_and_restart 1, 2."""
    async with plugin.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.create(plugin.pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(plugin.pod("second", app="app", queue="root.a", cpu="1"))
        await it.until(lambda pods: "root.a" in reason(pods["second"]))
        before = await it.rows("allocations")
        await it.stop_front()
        await it.create(plugin.pod("third", app="app", queue="root.b", cpu="1"))
        await it.start_front()
        await it.end("first")
        await it.bound("second")
        await it.until_rows("allocations", lambda rows: len(rows) == 1)
        (after,) = await it.rows("allocations")
        assert after["uuid"] != before[0]["uuid"]
