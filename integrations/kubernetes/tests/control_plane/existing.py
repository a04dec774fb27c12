"""A control plane that runs already: that of a kubeconfig with the rights of an administrator.

The suite adds nodes, fake kubelets and pods, and removes all pods and nodes in the end. So it takes a control plane
without nodes only.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ruamel.yaml import YAML

from integrations.kubernetes.tests.control_plane.processes import NAMESPACE, ControlPlane
from remuda_kubernetes.api.client import NODES, Client, Conflict
from remuda_kubernetes.api.credentials import Credentials, read_kubeconfig

T = TypeVar("T")

VARIABLE = "REMUDA_SUITE_KUBECONFIG"
# The service account of each user of the suite, in the namespace of the front end.
ACCOUNTS = {"remuda": "remuda", "webhook": "remuda-webhook", "alice": "alice", "bot": "bot"}


def chosen() -> Path | None:
    """The kubeconfig of the cluster to test; None: none, a control plane is started."""
    file = os.environ.get(VARIABLE, "")
    return Path(file) if file else None


class ExistingPlane:
    """As ControlPlane, of a cluster that runs. Users other than `admin` are service accounts."""

    of_extender: Mapping[str, Any] = {"extender_port": 0}
    is_existing = True

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self.minor = 0

    def __enter__(self) -> Self:
        """Raises RuntimeError for a cluster with nodes."""
        version, nodes = self._call(_look)
        if nodes:
            raise RuntimeError(
                f"{self._kubeconfig}: expected a cluster without nodes, found {nodes}: the suite removes all"
            )
        self.minor = int(str(version["minor"]).rstrip("+"))
        self._call(_prepare)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def user(self, name: str) -> str:
        return f"system:serviceaccount:{NAMESPACE}:{ACCOUNTS[name]}"

    def credentials(self, name: str = "admin") -> Credentials:
        return read_kubeconfig(self.kubeconfig(name))

    def kubeconfig(self, name: str = "admin") -> Path:
        if name == "admin":
            return self._kubeconfig
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNTS[name]}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        token = json.loads(self._call(lambda client: client.create(path, body)))["status"]["token"]
        document = YAML(typ="safe").load(self._kubeconfig.read_text())
        current = next(one for one in document["contexts"] if one["name"] == document["current-context"])
        cluster = next(one for one in document["clusters"] if one["name"] == current["context"]["cluster"])
        authority = cluster["cluster"].get("certificate-authority")
        if authority:
            cluster["cluster"]["certificate-authority"] = str(self._kubeconfig.parent / authority)
        file = self._folder / f"{name}.conf"
        made = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster["cluster"]}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": NAMESPACE}}],
        }
        file.write_text(json.dumps(made))
        return file

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create an object of RBAC, or replace that of an earlier run."""
        if manifest["apiVersion"].startswith("rbac."):
            namespace = manifest["metadata"].get("namespace", "")
            within = f"namespaces/{namespace}/" if namespace else ""
            path = f"/apis/{manifest['apiVersion']}/{within}{manifest['kind'].lower()}s"
            self._call(lambda client: _put(client, path, manifest))

    def _call(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Also from within a running loop: in a thread."""

        async def call() -> T:
            async with Client(read_kubeconfig(self._kubeconfig)) as client:
                return await work(client)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, call()).result()


async def _put(client: Client, path: str, manifest: dict[str, Any]) -> None:
    try:
        await client.create(path, manifest)
    except Conflict:
        await client.call("PUT", f"{path}/{manifest['metadata']['name']}", manifest)


async def _look(client: Client) -> tuple[dict[str, Any], list[str]]:
    """The version of the API server, and the names of nodes."""
    nodes, _ = await client.list(NODES)
    return json.loads(await client.call("GET", "/version")), [one.metadata.name for one in nodes]


async def _prepare(client: Client) -> None:
    with suppress(Conflict):
        await client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for name in ACCOUNTS.values():
        with suppress(Conflict):
            await client.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})


Plane = ControlPlane | ExistingPlane
