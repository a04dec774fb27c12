"""The configuration in ConfigMaps of the front end's namespace."""

from __future__ import annotations

import base64
import gzip
from typing import Any

from remuda.embedded import NatsServer
from remuda_kubernetes.api.client import MERGE_PATCH
from tests.kubernetes.cluster import Cluster, cluster
from tests.kubernetes.control_plane.processes import NAMESPACE, ControlPlane
from tests.kubernetes.manifests import pod

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SETTINGS = {"config_maps": ("yunikorn-defaults", "yunikorn-configs")}
QUEUES = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: %d}}}]}]
"""


async def patched(of: Cluster, content: dict[str, Any]) -> None:
    await of.client.patch(f"{MAPS}/yunikorn-configs", content, MERGE_PATCH)


async def test_configuration_is_in_force_and_changes_live(plane: ControlPlane, server: NatsServer) -> None:
    """configmap 1, 2; a change that is wrong leaves the last good one in force."""
    async with cluster(plane, server.url) as it:
        await it.stop_front()
        await it.client.create(MAPS, {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": QUEUES % 1}})
        await it.start_front(**SETTINGS)
        await it.add_nodes("n1")
        await it.create(pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(pod("second", app="app", queue="root.a", cpu="1"))
        assert "root.a" in await it.waits("second", "SchedulingSkipped")
        await patched(it, {"data": {"queues.yaml": "partitions: [{name: default}]"}})
        await it.told("ConfigurationRejected", "yunikorn-configs")
        packed = base64.b64encode(gzip.compress((QUEUES % 2).encode())).decode()
        await patched(it, {"data": None, "binaryData": {"queues.yaml.gz": packed}})
        await it.bound("second")
        await it.client.call("DELETE", f"{MAPS}/yunikorn-configs")


async def test_wrong_configuration_at_the_start_is_reported(plane: ControlPlane, server: NatsServer) -> None:
    async with cluster(plane, server.url) as it:
        await it.stop_front()
        await it.client.create(
            MAPS, {"metadata": {"name": "yunikorn-defaults"}, "data": {"queues.yaml": "partitions: 5"}}
        )
        await it.start_front(**SETTINGS)
        await it.told("ConfigurationRejected", "yunikorn-defaults")
        await it.add_nodes("n1")
        await it.create(pod("p", cpu="1"))
        await it.bound("p")
        await it.client.call("DELETE", f"{MAPS}/yunikorn-defaults")
