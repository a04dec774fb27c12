"""Claims of pods, with the controller of volumes."""

from __future__ import annotations

from typing import Any

from remuda.embedded import NatsServer
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.suite.modes import Mode

ON_N2 = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}}  # fmt: skip


async def local_volume(of: Cluster, name: str) -> None:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "local": {"path": "/data"}, "nodeAffinity": ON_N2,
    }  # fmt: skip
    await of.client.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


async def test_local_volume_is_bound_when_its_pod_was_placed(mode: Mode, server: NatsServer) -> None:
    """persistent_volume 1, late."""
    async with mode.cluster(server.url) as it:
        await it.client.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        await it.add_nodes("n1", "n2")
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await it.create(mode.pod("p", cpu="1", volumes=volumes))
        await mode.why(it, "p", "claim data does not exist")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await it.create({"metadata": {"name": "data"}, "spec": spec}, kind="persistentvolumeclaims")
        await local_volume(it, "here")
        assert await it.bound("p") == {"p": "n2"}
