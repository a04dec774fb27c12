"""The admission webhook in a process of its own, and the namespaces and users of its cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.manifests import pod
from remuda.embedded import NatsServer, free_port
from remuda_bus.nats import NatsBus
from remuda_kubernetes.api.client import ApiError, Client, Conflict, NotFound, Rejected
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell import main as kubernetes_main
from remuda_kubernetes.shim import names
from remuda_kubernetes.webhook.registration import MUTATING, NAME, NAMESPACE_NAME, VALIDATING
from tests.system.running import running

REMUDA = "remuda"  # the namespace of the webhook
TEAM = "team"  # managed
OPEN = "open"  # not managed
DRY_RUN = "?dryRun=All"
MAPS = f"/api/v1/namespaces/{REMUDA}/configmaps"
WRONG_MAP = {"metadata": {"name": "yunikorn-configs"}, "data": {"queue.yaml": ""}}
# Rights of users who are no administrators.
TENANT = "tenant"
TENANTS = ("alice", "bot")
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    {
        "apiGroups": ["apps", "batch"],
        "resources": ["deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "cronjobs"],
        "verbs": ["*"],
    },
]


@asynccontextmanager
async def webhook(plane: Plane, server: NatsServer, **settings: Any) -> AsyncIterator[Client]:
    """The webhook with the rights of its role, and a client of the user alice."""
    port = free_port("127.0.0.1")
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
        await _give_rights(admin, plane)

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


async def _give_rights(admin: Client, plane: Plane) -> None:
    group = "rbac.authorization.k8s.io"
    users = [{"kind": "User", "apiGroup": group, "name": plane.user(name)} for name in TENANTS]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": TENANT}
    for kind, body in (
        ("clusterroles", {"rules": RULES}),
        ("clusterrolebindings", {"roleRef": role, "subjects": users}),
    ):
        with suppress(Conflict):
            await admin.create(f"/apis/{group}/v1/{kind}", {"metadata": {"name": TENANT}, **body})


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
