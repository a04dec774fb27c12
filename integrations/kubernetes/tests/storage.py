"""A class of volumes of a cluster under test, with its claims and volumes. They are gone in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from integrations.kubernetes.tests.cluster import WITHIN_S, Cluster
from integrations.kubernetes.tests.control_plane import provisioner
from integrations.kubernetes.tests.control_plane.provisioner import Provisioner
from integrations.kubernetes.tests.manifests import claim_spec, local_volume
from remuda_kubernetes.api.client import CLAIMS, MERGE_PATCH, VOLUMES, ApiError, NotFound
from remuda_kubernetes.api.objects import Claim

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class LateClass:
    """Its claims bind when their first pod was placed."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    def _claim_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._cluster.namespace}/persistentvolumeclaims/{name}"

    async def add_volume(self, name: str, node: str, size: str = "1Gi", driver: str = "") -> None:
        """Usable when this returns. `driver`: attaches it; else it is on a disk of the node."""
        volume = local_volume(name, self.name, node, size)
        if driver:
            del volume["spec"]["local"]
            volume["spec"]["csi"] = {"driver": driver, "volumeHandle": name}
        await self._cluster.client.create("/api/v1/persistentvolumes", volume)
        async with asyncio.timeout(WITHIN_S):  # a pod that waits for it may bind it at once
            while (await self.volumes()).get(name, ("", ""))[0] not in ("Available", "Bound"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def add_claims(self, *names: str, volume: str = "") -> None:
        """`volume`: they are bound to it at once."""
        for name in names:
            spec = claim_spec(self.name) | ({"volumeName": volume} if volume else {})
            await self._cluster.create({"metadata": {"name": name}, "spec": spec}, kind="persistentvolumeclaims")

    async def claim(self, name: str) -> Claim:
        return await self._cluster.client.get(self._claim_path(name), Claim)

    async def volumes(self) -> dict[str, tuple[str, str]]:
        """Phase and claim of each volume of the class."""
        found, _ = await self._cluster.client.list(VOLUMES)
        of_class = [one for one in found if one.storage_class == self.name]
        return {
            one.metadata.name: (one.status.phase, one.spec.claim_ref.name if one.spec.claim_ref is not None else "")
            for one in of_class
        }

    async def remove(self) -> None:
        client = self._cluster.client
        claims = [one for one in (await client.list(CLAIMS))[0] if one.storage_class == self.name]
        paths = [self._claim_path(one.metadata.name) for one in claims]
        paths += [f"/api/v1/persistentvolumes/{name}" for name in await self.volumes()]
        for path in paths:
            with suppress(NotFound):
                await client.call("DELETE", path)
                await client.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH)  # no controller waits for it
        with suppress(ApiError):
            await client.call("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{self.name}")


@asynccontextmanager
async def late_class(of: Cluster, name: str, made_by: Provisioner | None = None) -> AsyncIterator[LateClass]:
    """`made_by`: makes its volumes; else those are used that are there."""
    named = provisioner.NAME if made_by is not None else NO_PROVISIONER
    manifest: dict[str, Any] = {
        "metadata": {"name": name}, "provisioner": named, "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    await of.client.create("/apis/storage.k8s.io/v1/storageclasses", manifest)
    running = asyncio.create_task(made_by.run()) if made_by is not None else None
    late = LateClass(of, name)
    try:
        yield late
    finally:
        await of.remove_pods()
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        await late.remove()


def with_claims(*names: str) -> dict[str, Any]:
    """Of the spec of a pod."""
    return {"volumes": [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]}
