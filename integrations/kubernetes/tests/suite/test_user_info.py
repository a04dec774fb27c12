"""For which user a pod runs: what the webhook writes into pods and into the templates of workloads, on the real API
server and with its controllers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from integrations.kubernetes.tests.cluster import cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.manifests import pod
from integrations.kubernetes.tests.suite.admission import DRY_RUN, TEAM, created, webhook
from remuda.embedded import NatsServer
from remuda_kubernetes.api.client import Client, Rejected
from remuda_kubernetes.shim import names
from tests.system.running import until

LABELS = {"app": "w"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "none"}]},
}
ONCE = TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
# kind: group and version, collection, spec.
WORKLOADS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Deployment": ("apps/v1", "deployments", SELECTED),
    "StatefulSet": ("apps/v1", "statefulsets", SELECTED | {"serviceName": "w"}),
    "DaemonSet": ("apps/v1", "daemonsets", SELECTED),
    "ReplicaSet": ("apps/v1", "replicasets", SELECTED),
    "Job": ("batch/v1", "jobs", {"template": ONCE}),
    "CronJob": (
        "batch/v1beta1", "cronjobs", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": ONCE}}},
    ),
}  # fmt: skip
CRON_JOBS_SINCE = 21  # in batch/v1; all others are in v1 of their group
CONTROLLERS = ("^admin$", "^system:serviceaccount:kube-system:", "^system:kube-controller-manager$")
APPS = f"/apis/apps/v1/namespaces/{TEAM}"
BOB = json.dumps({"user": "bob", "groups": []})
LIMIT = """
partitions:
  - name: default
    queues: [{{name: root, submitacl: '*', queues: [
      {{name: a, limits: [{{limit: one, users: ["{user}"], maxresources: {{vcore: 1}}}}]}}]}}]
"""


def user_of(thing: dict[str, Any]) -> str:
    """The user in the annotation of a pod or a template; empty: none."""
    text = (thing["metadata"].get("annotations") or {}).get(names.USER_INFO)
    return json.loads(text)["user"] if text else ""


def template_of(workload: dict[str, Any]) -> dict[str, Any]:
    spec = workload["spec"]
    return spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]


async def reviewed(client: Client, kind: str, minor: int) -> dict[str, Any]:
    """A workload of this kind, as the API server would store it."""
    _, collection, spec = WORKLOADS[kind]
    version = version_of(kind, minor)
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    path = f"/apis/{version}/namespaces/{TEAM}/{collection}{DRY_RUN}"
    return json.loads(await client.create(path, manifest))


def version_of(kind: str, minor: int) -> str:
    """Group and version of a kind of workload, on Kubernetes 1.`minor`."""
    version = WORKLOADS[kind][0]
    return version.removesuffix("beta1") if minor >= CRON_JOBS_SINCE else version


async def listed(client: Client, path: str) -> list[dict[str, Any]]:
    return json.loads(await client.call("GET", path))["items"]


async def test_user_is_added_to_templates(plane: Plane, server: NatsServer) -> None:
    """admission_controller 11, 12, 13, 14, 15, 16, 19: of all kinds, but not to what a controller makes."""
    bot = f"^{re.escape(plane.user('bot'))}$"
    async with webhook(plane, server, system_users=(bot,)) as alice, Client(plane.credentials("bot")) as controller:
        for kind in WORKLOADS:
            assert user_of(template_of(await reviewed(alice, kind, plane.minor))) == plane.user("alice"), kind
        assert user_of(template_of(await reviewed(controller, "ReplicaSet", plane.minor))) == ""


@pytest.mark.parametrize("trusted", [False, True])
async def test_controllers_copy_users_if_they_are_trusted(plane: Plane, server: NatsServer, trusted: bool) -> None:
    """admission_controller 17."""
    async with webhook(plane, server, trust_controllers=trusted, system_users=CONTROLLERS) as alice:
        manifest = {"metadata": {"name": "d"}, "spec": SELECTED | {"replicas": 2}}
        await alice.create(f"{APPS}/deployments", manifest)

        async def pods_are_there() -> bool:
            return len(await listed(alice, f"/api/v1/namespaces/{TEAM}/pods")) == 2

        async def controller_is_refused() -> bool:
            (deployment,) = await listed(alice, f"{APPS}/deployments")
            conditions = deployment["status"].get("conditions", [])
            return any("may not set the annotation" in one.get("message", "") for one in conditions)

        async def all_is_gone() -> bool:
            paths = (f"{APPS}/deployments", f"{APPS}/replicasets", f"/api/v1/namespaces/{TEAM}/pods")
            return not any([await listed(alice, path) for path in paths])

        try:
            await until(pods_are_there if trusted else controller_is_refused, within_s=30)
            pods = await listed(alice, f"/api/v1/namespaces/{TEAM}/pods")
            assert [user_of(one) for one in pods] == [plane.user("alice")] * (2 if trusted else 0)
            assert len(await listed(alice, f"{APPS}/replicasets")) == (1 if trusted else 0)
        finally:
            await alice.call("DELETE", f"{APPS}/deployments/d", {"propagationPolicy": "Background"})
            await until(all_is_gone, within_s=30)


async def test_external_user_may_name_another_user(plane: Plane, server: NatsServer) -> None:
    """admission_controller 18: one that is listed; and any user, if that is not checked."""
    for_bob = pod("p", annotations={names.USER_INFO: BOB})
    listed_users = (f"^{re.escape(plane.user('alice'))}$",)
    async with webhook(plane, server, external_users=listed_users) as alice, Client(plane.credentials("bot")) as bot:
        made = await created(alice, for_bob, dry=True)
        assert made.metadata.annotation(names.USER_INFO) == BOB
        with pytest.raises(Rejected, match="may not set"):
            await created(bot, for_bob, dry=True)
    async with webhook(plane, server, bypass_auth=True), Client(plane.credentials("bot")) as bot:
        made = await created(bot, for_bob, dry=True)
        assert made.metadata.annotation(names.USER_INFO) == BOB


async def test_service_account_has_the_limit_of_its_name(plane: Plane, server: NatsServer, tmp_path: Path) -> None:
    """user_group_limit 17."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(LIMIT.format(user=plane.user("bot")))
    async with (
        cluster(plane, server.url, queues) as it,
        webhook(plane, server) as alice,
        Client(plane.credentials("bot")) as bot,
    ):
        it.namespace = TEAM
        await it.add_nodes("n1")
        await created(bot, pod("first", app="bot", queue="root.a", cpu="1"))
        await it.bound("first")
        await created(bot, pod("second", app="bot", queue="root.a", cpu="1"))
        await created(alice, pod("of-alice", app="alice", queue="root.a", cpu="2"))
        await it.bound("of-alice")
        assert plane.user("bot") in await it.waits("second", "SchedulingSkipped")
