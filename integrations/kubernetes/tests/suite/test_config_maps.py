"""The configuration in ConfigMaps of the front end's namespace."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from integrations.kubernetes.tests.cluster import Cluster, cluster
from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import pod
from integrations.kubernetes.tests.suite.admission import MAPS, webhook
from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus
from remuda_kubernetes.api.client import MERGE_PATCH, Rejected
from remuda_kubernetes.shim import names
from tests.system.web_client import web_service

SETTINGS = {"config_maps": ("yunikorn-defaults", "yunikorn-configs")}
# Names of a queue, and of users and groups in the filter of a rule.
NAMED = """
partitions:
  - name: default
    placementrules: [{{name: provided, filter: {{type: allow, users: ["{user}"], groups: ["{group}"]}}}}]
    queues: [{{name: root, submitacl: '*', queues: [{{name: "{queue}"}}]}}]
"""
VALID = {"queue": "aZ-_09", "user": "al.ice@corp:x-1_", "group": "dev.ops:x-1_"}
INVALID = {"queue": "a b!", "user": "al ice!", "group": "dev ops!"}
QUEUES = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a, resources: {max: {vcore: %d}}}]}]
"""


def configuration(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "yunikorn-configs"}, "data": {"queues.yaml": text}}


async def patched(of: Cluster, content: dict[str, Any]) -> None:
    await of.client.patch(f"{MAPS}/yunikorn-configs", content, MERGE_PATCH)


async def test_configuration_is_in_force_and_changes_live(plane: ControlPlane, server: NatsServer) -> None:
    """configmap 1, 2; a change that is wrong leaves the last good one in force."""
    async with cluster(plane, server.url) as it:
        await it.stop_front()
        await it.client.create(MAPS, configuration(QUEUES % 1))
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


async def test_names_in_a_configuration(plane: ControlPlane, server: NatsServer, bus: NatsBus) -> None:
    """configmap 3 to 8, admission_controller 9, user_group_limit 14: what is invalid is not even stored."""
    async with cluster(plane, server.url) as it, web_service(server.url, bus, base="") as web:
        await it.stop_front()
        await it.start_front(**SETTINGS)
        await it.add_nodes("n1")
        async with webhook(plane, server, webhook_validation=str(web.base_url)):
            for kind, name in INVALID.items():
                text = NAMED.format(**VALID | {kind: name})
                with pytest.raises(Rejected, match=name):
                    await it.client.create(MAPS, configuration(text))
            await it.client.create(MAPS, configuration(NAMED.format(**VALID)))
        users = {
            "by-user": {"user": VALID["user"]},
            "by-group": {"user": "bob", "groups": [VALID["group"]]},
            "neither": {"user": "bob"},
        }
        for name, user in users.items():
            annotations = {names.USER_INFO: json.dumps(user)}
            await it.create(pod(name, app=name, queue=f"root.{VALID['queue']}", cpu="1", annotations=annotations))
        await it.bound("by-user", "by-group")
        await it.until(lambda pods: pods["neither"].status.phase == "Failed")
        await it.client.call("DELETE", f"{MAPS}/yunikorn-configs")
