"""Plugin mode on the real default scheduler, through the extender: it places, and remuda decides who may and where."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from remuda.embedded import NatsServer
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Client
from remuda_kubernetes.shim import names
from tests.kubernetes import manifests
from tests.kubernetes.cluster import Cluster, cluster
from tests.kubernetes.control_plane.existing import ExistingPlane, Plane, chosen
from tests.kubernetes.control_plane.processes import ControlPlane, programs

RIGHTS_FILES = [Path(__file__).parents[3] / f"deploy/kubernetes/{name}/rights.yaml" for name in ("scheduler", "plugin")]
LIMITS = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
            limits: [{limit: one, users: [alice], maxresources: {vcore: 1}}]
"""
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


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A control plane whose default scheduler asks the extender; that of `make kubernetes-suite`, if it knows gates."""
    if chosen() is not None:
        existing: ExistingPlane = request.getfixturevalue("plane")
        if existing.minor < limits.GATES_SINCE:
            pytest.skip("without gates, its default scheduler would have to be configured")
        yield existing
        return
    if programs() is None:
        pytest.skip("no control plane: run `make kubernetes`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ControlPlane(tmp_path_factory.mktemp("extended"), scheduler=True, extender_port=port) as running:
        for manifest in (one for file in RIGHTS_FILES for one in YAML(typ="safe").load_all(file)):
            running.apply(manifest)
        yield running


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return file


def plugin_cluster(plane: Plane, server: NatsServer, queues: Path) -> AbstractAsyncContextManager[Cluster]:
    return cluster(plane, server.url, queues, mode="plugin", extender_port=plane.extender_port)


def pod(name: str, **of: Any) -> dict[str, Any]:
    """With the gate that the webhook adds to pods with an application. API servers that do not know gates drop it."""
    gates = [{"name": names.GATE}] if of.get("app") else []
    return manifests.pod(name, **{"scheduler": "default-scheduler", "schedulingGates": gates} | of)


async def test_pod_without_an_application_is_untouched(extended: Plane, server: NatsServer, queues: Path) -> None:
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1")
        await it.create(pod("free", cpu="2"))
        await it.bound("free")
        assert not await it.reported("QuotaApproved", "free")


async def test_pod_is_approved_and_bound_on_the_node_of_its_allocation(
    extended: Plane, server: NatsServer, queues: Path
) -> None:
    """basic_scheduling 1, 2."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1", "n2", "n3")
        await it.create(pod("one", app="app", queue="root.b", cpu="1"))
        await it.bound("one")
        await it.told("QuotaApproved", "one")


async def test_quota_holds_a_pod_back(extended: Plane, server: NatsServer, queues: Path) -> None:
    """queue_quota_mgmt 1: the surplus pod waits with the reason of the queue, then runs."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1")
        await it.create(pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(pod("second", app="app", queue="root.a", cpu="1"))
        await it.until(lambda pods: "root.a" in reason(pods["second"]))
        await it.end("first")
        await it.bound("second")


async def test_held_pod_makes_no_victims(extended: Plane, server: NatsServer, queues: Path) -> None:
    """The default scheduler must not preempt for a pod whose quota says no."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000}
        )
        try:
            await it.create(pod("low1", app="low", queue="root.b", cpu="1"))
            await it.create(pod("low2", cpu="1"))
            await it.bound("low1", "low2")
            await it.create(pod("high", app="high", queue="root.a", cpu="2", priorityClassName="high"))
            await it.until(lambda pods: "root.a" in reason(pods["high"]))
            pods = await it.pods()
            assert [pods[name].metadata.deletion_timestamp for name in ("low1", "low2")] == [None, None]
        finally:
            await it.client.call("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/high")


async def test_preemption_is_that_of_the_queues(extended: Plane, server: NatsServer, queues: Path) -> None:
    """preemption 1."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(pod("b1", app="b", queue="root.b", cpu="1"))
        await it.create(pod("b2", app="b", queue="root.b", cpu="1"))
        await it.bound("b1", "b2")
        await it.create(pod("c1", app="c", queue="root.c", cpu="1"))
        await it.bound("c1")
        await it.told("Preempted")


async def test_gang_is_placed_by_its_placeholders(extended: Plane, server: NatsServer, queues: Path) -> None:
    """gang_scheduling 1, 2."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1", "n2")
        groups = json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "3"}}])
        gang = {"yunikorn.apache.org/task-groups": groups, "yunikorn.apache.org/task-group-name": "g"}
        for name in ("m1", "m2"):
            await it.create(pod(name, app="gang", queue="root.b", cpu="3", annotations=gang))
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
    extended: Plane, server: NatsServer, queues: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002, RejectTask: the pod was let go, and its binding failed. The default scheduler asks about it again. Meanwhile
    `explain` says what the default scheduler says."""
    if extended.is_existing:
        pytest.skip("a gate cannot be closed again; and the rights of another cluster's scheduler are not ours")
    monkeypatch.setattr(limits, "UNFIT_SWEEPS", 8)
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1")
        await may_bind(it.client, may=False)
        try:
            await it.create(pod("one", app="app", queue="root.b", cpu="1"))
            await it.told("TaskRejected", "one")
            await it.until(lambda pods: "binding rejected" in reason(pods["one"]))
            explained = await it.explained("one")
            assert "was not bound to node n1: binding rejected" in explained, explained
        finally:
            await may_bind(it.client, may=True)
        on = await it.bound("one")
        (row,) = await it.rows("allocations")
        assert {"one": row["node"]} == on


async def test_room_that_another_scheduler_has_taken(extended: Plane, server: NatsServer, queues: Path) -> None:
    """A pod without an application takes the node first: the pod with one is decided again, or waits for room."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1", cpu="2")
        await it.create(pod("free", cpu="2"))
        await it.bound("free")
        await it.create(pod("one", app="app", queue="root.b", cpu="1"))
        await it.until(lambda pods: reason(pods["one"]) not in ("", "waiting for remuda"))
        await it.end("free")
        await it.bound("one")


async def test_user_limit_holds_a_pod_back(extended: Plane, server: NatsServer, tmp_path: Path) -> None:
    """user_group_limit 1."""
    file = tmp_path / "limits.yaml"
    file.write_text(LIMITS)
    alice, bob = (
        {"yunikorn.apache.org/user.info": json.dumps({"user": user, "groups": []})} for user in ("alice", "bob")
    )
    async with plugin_cluster(extended, server, file) as it:
        await it.add_nodes("n1")
        await it.create(pod("a1", app="a", queue="root.a", cpu="1", annotations=alice))
        await it.bound("a1")
        await it.create(pod("a2", app="a", queue="root.a", cpu="1", annotations=alice))
        await it.create(pod("b1", app="b", queue="root.a", cpu="1", annotations=bob))
        await it.bound("b1")
        await it.until(lambda pods: "alice" in reason(pods["a2"]))
        await it.end("a1")
        await it.bound("a2")


async def test_priority_comes_first(extended: Plane, server: NatsServer, queues: Path) -> None:
    """priority_scheduling 1: of two applications that wait, the one of higher priority goes first."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1")
        await it.client.create(classes, {"metadata": {"name": "urgent"}, "value": 100})
        try:
            await it.create(pod("first", app="first", queue="root.a", cpu="1"))
            await it.bound("first")
            await it.create(pod("low", app="low", queue="root.a", cpu="1"))
            await it.until(lambda pods: "root.a" in reason(pods["low"]))
            await it.create(pod("urgent", app="urgent", queue="root.a", cpu="1", priorityClassName="urgent"))
            await it.until(lambda pods: "root.a" in reason(pods["urgent"]))
            await it.end("first")
            await it.bound("urgent")
            assert not (await it.pod("low")).spec.node_name
        finally:
            await it.client.call("DELETE", f"{classes}/urgent")


async def test_restart_keeps_what_was_let_go(extended: Plane, server: NatsServer, queues: Path) -> None:
    """recovery_and_restart 1, 2."""
    async with plugin_cluster(extended, server, queues) as it:
        await it.add_nodes("n1")
        await it.create(pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(pod("second", app="app", queue="root.a", cpu="1"))
        await it.until(lambda pods: "root.a" in reason(pods["second"]))
        before = await it.rows("allocations")
        await it.stop_front()
        await it.create(pod("third", app="app", queue="root.b", cpu="1"))
        await it.start_front(mode="plugin", extender_port=extended.extender_port)
        await it.end("first")
        await it.bound("second")
        await it.until_rows("allocations", 1)
        (after,) = await it.rows("allocations")
        assert after["uuid"] != before[0]["uuid"]


def reason(one: Any) -> str:
    """Why a pod is held: in the condition of the extender, or in that of all pods."""
    found = {it.type: it.message for it in one.status.conditions if it.status == "False"}
    return found.get(names.APPROVED) or found.get("PodScheduled", "")
