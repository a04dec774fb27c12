"""The admission webhook on the real API server, which calls it by URL with the certificates that it has made."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus
from remuda_kubernetes.api.client import Client
from remuda_kubernetes.api.errors import ApiError, Conflict, NotFound, Rejected
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell import main as kubernetes_main
from remuda_kubernetes.shim import names
from remuda_kubernetes.webhook.registration import MUTATING, NAME, NAMESPACE_NAME, VALIDATING
from tests.integration.running import running
from tests.kubernetes.cluster import cluster
from tests.kubernetes.control_plane.existing import Plane
from tests.kubernetes.manifests import pod

REMUDA = "remuda"  # the namespace of the webhook
TEAM = "team"  # managed
OPEN = "open"  # not managed
DRY_RUN = "?dryRun=All"
MAPS = f"/api/v1/namespaces/{REMUDA}/configmaps"
WRONG_MAP = {"metadata": {"name": "yunikorn-configs"}, "data": {"queue.yaml": ""}}
OWN_QUEUES = """
partitions:
  - name: default
    queues: [{{name: root, queues: [{{name: own, submitacl: "{user}"}}, {{name: other, submitacl: bob}}]}}]
"""
ALICE: dict[str, dict[str, Any]] = {
    "clusterroles": {"rules": [{"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["*"]}]},
    "clusterrolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "alice"},
    },
}


@asynccontextmanager
async def webhook(plane: Plane, server: NatsServer, **settings: Any) -> AsyncIterator[Client]:
    """The webhook with the rights of its role, and a client of the user alice."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with Client(plane.credentials()) as admin:
        for name, labels in (
            (REMUDA, {NAMESPACE_NAME: REMUDA}), (TEAM, {"remuda.io/managed": "true"}), (OPEN, {}),
        ):  # fmt: skip
            with suppress(Conflict):
                await admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
            with suppress(Conflict):  # pods of an API server that wants one need it
                account = {"metadata": {"name": "default"}}
                await admin.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
            await admin.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": plane.user("alice")}
        for kind, body in {
            **ALICE,
            "clusterrolebindings": ALICE["clusterrolebindings"] | {"subjects": [subject]},
        }.items():
            with suppress(Conflict):
                await admin.create(
                    f"/apis/rbac.authorization.k8s.io/v1/{kind}", {"metadata": {"name": "alice"}, **body}
                )

        async def main(_: NatsBus, __: object) -> None:
            of = KubernetesSettings(
                nats_url=server.url, kubeconfig=plane.kubeconfig("webhook"), role="webhook",
                webhook_url=f"https://127.0.0.1:{port}", webhook_host="127.0.0.1", webhook_port=port, **settings,
            )  # fmt: skip
            await kubernetes_main(None, of)

        try:
            async with running(server.url, "webhook", main) as task:  # type: ignore[arg-type]
                async with asyncio.timeout(30):
                    while not task.done() and not await are_called(admin):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                async with Client(plane.credentials("alice")) as alice:
                    yield alice
        finally:
            for collection in (MUTATING, VALIDATING):
                with suppress(NotFound):
                    await admin.call("DELETE", f"{collection}/{NAME}")
            for namespace in (TEAM, OPEN):
                await admin.call("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})


async def are_called(admin: Client) -> bool:
    """Whether the API server calls both webhooks. It learns a little later of a registration, and of its end."""
    try:
        made = await created(admin, pod("dry", scheduler="default-scheduler"), TEAM, dry=True)
    except ApiError:  # those of an earlier test
        return False
    if not made.metadata.annotation(names.USER_INFO):
        return False
    try:
        await admin.create(f"{MAPS}{DRY_RUN}", WRONG_MAP)
    except Rejected:
        return True
    return False


async def created(client: Client, manifest: dict[str, Any], namespace: str = TEAM, *, dry: bool = False) -> Pod:
    """`dry`: it is reviewed only."""
    path = f"/api/v1/namespaces/{namespace}/pods{DRY_RUN if dry else ''}"
    return msgspec.json.decode(await client.create(path, manifest), type=Pod)


async def until_refused(client: Client, manifest: dict[str, Any]) -> str:
    """Why the API server does not create the pod, once it has learned of a changed webhook. It makes none."""
    async with asyncio.timeout(30):
        while True:
            try:
                await created(client, manifest, TEAM, dry=True)
            except ApiError as error:
                return str(error)


@pytest.fixture
def plain() -> dict[str, Any]:
    return pod("p", scheduler="default-scheduler")


async def test_pod_is_filled_in_and_guarded(plane: Plane, server: NatsServer, plain: dict[str, Any]) -> None:
    """admission_controller 4, 5, 10, 11, 18."""
    async with webhook(plane, server) as alice:
        made = await created(alice, plain)
        assert made.spec.scheduler_name == "remuda"
        assert made.metadata.label(names.APPLICATION) == "yunikorn-team-autogen"
        assert made.metadata.annotation(names.ALLOW_PREEMPTION) == "true"
        assert json.loads(made.metadata.annotation(names.USER_INFO))["user"] == plane.user("alice")
        other = {names.USER_INFO: json.dumps({"user": "bob"})}
        with pytest.raises(Rejected, match="may not set"):
            await created(alice, pod("q", annotations=other))
        with pytest.raises(Rejected, match="cannot be changed"):
            await alice.patch("/api/v1/namespaces/team/pods/p", {"metadata": {"annotations": other}})
        with pytest.raises(Rejected, match="may set"):
            await created(alice, pod("q", annotations={names.PLACEHOLDER: "true"}))
        with pytest.raises(Rejected, match="nodeName"):
            await created(alice, pod("q", nodeName="n1"))
        labels = {"app": "d"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        deployment = {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }  # fmt: skip
        made_d = json.loads(await alice.create("/apis/apps/v1/namespaces/team/deployments", deployment))
        info = made_d["spec"]["template"]["metadata"]["annotations"][names.USER_INFO]
        assert json.loads(info)["user"] == plane.user("alice")
        await alice.call("DELETE", "/apis/apps/v1/namespaces/team/deployments/d")


async def test_only_managed_namespaces_fail_closed(plane: Plane, server: NatsServer, plain: dict[str, Any]) -> None:
    async with webhook(plane, server, process_namespaces=("^team$",)) as alice:
        elsewhere = await created(alice, plain, OPEN)
        assert elsewhere.spec.scheduler_name == "default-scheduler"
        async with Client(plane.credentials()) as admin:  # a webhook that does not answer
            hooks = json.loads(await admin.call("GET", f"{MUTATING}/{NAME}"))
            for hook in hooks["webhooks"]:
                hook["clientConfig"]["url"] = "https://127.0.0.1:1/mutate"
            await admin.call("PUT", f"{MUTATING}/{NAME}", hooks)
        assert "managed.remuda.io" in await until_refused(alice, plain)
        await created(alice, pod("q"), OPEN)


async def test_queue_is_for_the_users_that_it_names(plane: Plane, server: NatsServer, tmp_path: Path) -> None:
    """A tenant may name any queue. Its `submitacl` decides, for the user whom the webhook has written into the pod."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(OWN_QUEUES.format(user=plane.user("alice")))
    async with cluster(plane, server.url, queues) as it, webhook(plane, server) as alice:
        await it.add_nodes("n1")
        for name in ("own", "other"):
            await created(alice, pod(name, app=name, queue=f"root.{name}", cpu="1"))
        await it.bound("own")
        pods = await it.until(lambda pods: pods["other"].status.phase == "Failed")
        assert pods["other"].status.reason == "ApplicationRejected"


async def test_config_maps_are_checked(plane: Plane, server: NatsServer) -> None:
    """admission_controller 7, 8."""
    async with webhook(plane, server), Client(plane.credentials()) as admin:
        with pytest.raises(Rejected, match="expected the key"):
            await admin.create(MAPS, WRONG_MAP)
        await admin.create(MAPS, {"metadata": {"name": "yunikorn-configs"}})
        await admin.create(MAPS, {"metadata": {"name": "unrelated"}, "data": {"queue.yaml": ""}})
        for name in ("yunikorn-configs", "unrelated"):
            await admin.call("DELETE", f"{MAPS}/{name}")


async def test_second_process_shares_the_certificates(plane: Plane, server: NatsServer) -> None:
    async with Client(plane.credentials()) as admin:
        found = []
        for _ in range(2):
            async with webhook(plane, server):
                secret = json.loads(await admin.call("GET", "/api/v1/namespaces/remuda/secrets/remuda-webhook"))
                found.append(secret["data"]["ca.crt"])
        assert found[0] == found[1]
