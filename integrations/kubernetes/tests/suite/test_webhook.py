"""The admission webhook on the real API server, which calls it by URL with the certificates that it has made."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integrations.kubernetes.tests.cluster import WITHIN_S, cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.manifests import pod
from integrations.kubernetes.tests.suite.admission import MAPS, OPEN, TEAM, WRONG_MAP, created, webhook
from remuda.embedded import NatsServer
from remuda_kubernetes.api.client import MERGE_PATCH, ApiError, Client, NotFound, Rejected
from remuda_kubernetes.shim import names
from remuda_kubernetes.webhook.registration import MUTATING, NAME, VALIDATING
from tests.system.running import until

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
OWN_QUEUES = """
partitions:
  - name: default
    queues: [{{name: root, queues: [{{name: own, submitacl: "{user}"}}, {{name: other, submitacl: bob}}]}}]
"""


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
    """admission_controller 5, 10."""
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


async def test_priority_class_says_who_may_be_preempted(plane: Plane, server: NatsServer) -> None:
    """admission_controller 1, 2, 3, 4."""
    async with webhook(plane, server) as alice, Client(plane.credentials()) as admin:
        expected = {"allows": "true", "forbids": "false", "silent": "true", "": "true"}
        for name in filter(None, expected):
            said = {} if name == "silent" else {names.ALLOW_PREEMPTION: expected[name]}
            await admin.create(CLASSES, {"metadata": {"name": name, "annotations": said}, "value": 1})
        try:

            async def is_known() -> bool:
                made = await created(alice, pod("p", priorityClassName="forbids"), dry=True)
                return made.metadata.annotation(names.ALLOW_PREEMPTION) == "false"

            await until(is_known)  # the webhook learns of classes a little later
            for name, may in expected.items():
                made = await created(alice, pod("p", priorityClassName=name), dry=True)
                assert made.metadata.annotation(names.ALLOW_PREEMPTION) == may, name
        finally:
            for name in filter(None, expected):
                await admin.call("DELETE", f"{CLASSES}/{name}")


async def test_only_managed_namespaces_fail_closed(plane: Plane, server: NatsServer, plain: dict[str, Any]) -> None:
    """admission_controller 6."""
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
        group = {"metadata": {"name": "yunikorn-defaults"}, "data": {"service.policyGroup": "blue"}}
        await admin.create(MAPS, group)
        await admin.create(MAPS, {"metadata": {"name": "remuda-configs"}, "data": {"blue.yaml": ""}})
        for name in ("yunikorn-configs", "unrelated", "yunikorn-defaults", "remuda-configs"):
            await admin.call("DELETE", f"{MAPS}/{name}")


async def test_registration_that_somebody_has_emptied_is_put_back(plane: Plane, server: NatsServer) -> None:
    """The API server leaves out an empty list."""
    async with Client(plane.credentials()) as admin:
        for collection in (MUTATING, VALIDATING):
            await admin.create(collection, {"metadata": {"name": NAME}, "webhooks": []})
        async with webhook(plane, server):
            assert json.loads(await admin.call("GET", f"{MUTATING}/{NAME}"))["webhooks"]
            for lose in ("emptied", "deleted"):  # while it runs
                if lose == "emptied":
                    await admin.patch(f"{MUTATING}/{NAME}", {"webhooks": None}, MERGE_PATCH)
                else:
                    await admin.call("DELETE", f"{MUTATING}/{NAME}")
                await until_registered(admin)


async def until_registered(admin: Client) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(NotFound):
                if json.loads(await admin.call("GET", f"{MUTATING}/{NAME}")).get("webhooks"):
                    return
            await asyncio.sleep(0.1)


async def test_second_process_shares_the_certificates(plane: Plane, server: NatsServer) -> None:
    async with Client(plane.credentials()) as admin:
        found = []
        for _ in range(2):
            async with webhook(plane, server):
                secret = json.loads(await admin.call("GET", "/api/v1/namespaces/remuda/secrets/remuda-webhook"))
                found.append(secret["data"]["ca.crt"])
        assert found[0] == found[1]
