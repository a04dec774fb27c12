"""The simulated API server: what its version knows and refuses, and what a pin costs there."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests import manifests
from remuda_kubernetes.api.client import ApiError
from remuda_kubernetes.plugin.plugin import OpenGate, Pin
from remuda_kubernetes.shell.calls import open_gate
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import name_of
from tests.sim.kubernetes.api_server import ApiServer, Json
from tests.sim.kubernetes.world import read
from tests.sim.story import Story

GATE = [{"name": names.GATE}]
PODS = "/api/v1/namespaces/default/pods"


def server(minor: int) -> ApiServer:
    return ApiServer(Story(time.monotonic), minor)


def gated(name: str = "p", **of: Any) -> Json:
    return manifests.pod(name, app="app", schedulingGates=GATE, **of)


def refused(code: int, part: str, of: ApiServer, verb: str, path: str, body: Any) -> None:
    with pytest.raises(ApiError, match=part) as error:
        of.call(verb, path, body, None)
    assert error.value.code == code


class Counted:
    """A client whose calls are counted."""

    def __init__(self, of: ApiServer) -> None:
        self._server = of
        self.paths: list[str] = []

    async def patch(self, path: str, body: Any, *_: Any) -> bytes:
        self.paths.append(path)
        return self._server.call("PATCH", path, body, None)

    async def get(self, path: str, kind: type[Any]) -> Any:
        return msgspec.json.decode(self._server.call("GET", path, None, None), type=kind)


async def test_old_server_drops_gates() -> None:
    made = server(20).add("pods", gated(), "default")
    assert "schedulingGates" not in made["spec"] and "generation" not in made["metadata"]
    assert "conditions" not in made["status"]


async def test_new_server_holds_a_pod_with_a_gate() -> None:
    it = server(36)
    made = it.add("pods", gated(), "default")
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    target = {"metadata": {"uid": made["metadata"]["uid"]}, "target": {"name": "n1"}}
    refused(409, "non-empty .spec.schedulingGates", it, "POST", f"{PODS}/p/binding", target)
    refused(422, "nodeName", it, "POST", PODS, gated("q", nodeName="n1"))


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "another"}}, "only deletion"),
        ({"op": "add", "path": "/spec/schedulerName", "value": "another"}, "may not change"),
        ({"op": "add", "path": "/spec/affinity", "value": {"podAffinity": {}}}, "only nodeAffinity"),
    ],
)
async def test_new_server_refuses_other_changes(operation: Json, part: str) -> None:
    it = server(36)
    it.add("pods", gated(), "default")
    refused(422, part, it, "PATCH", f"{PODS}/p", [operation])


async def test_affinity_stays_once_the_gate_is_gone() -> None:
    it = server(36)
    it.add("pods", gated(), "default")
    it.call("PATCH", f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates/0"}], None)
    affinity = {"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {}}}
    refused(422, "may not change it", it, "PATCH", f"{PODS}/p", [affinity])
    regain = {"op": "add", "path": "/spec/schedulingGates/-", "value": GATE[0]}
    refused(422, "only deletion", it, "PATCH", f"{PODS}/p", [regain])


@pytest.mark.parametrize(
    ("pin", "nominates", "calls"), [("hard", False, 1), ("soft", False, 1), ("soft", True, 2), ("free", False, 1)]
)
async def test_calls_of_a_pin(pin: str, nominates: bool, calls: int) -> None:
    it = server(36)
    client = Counted(it)
    seen = read(it.add("pods", gated(), "default"))
    await open_gate(client, OpenGate(name_of(seen.metadata), "n1", Pin(pin), seen, nominates))  # type: ignore[arg-type]
    assert len(client.paths) == calls
    there = it.find("pods", "p")
    assert there is not None
    assert not there["spec"]["schedulingGates"] and there["metadata"]["generation"] == 2
    assert there["status"].get("nominatedNodeName", "") == ("n1" if nominates else "")


async def test_nomination_ends_with_the_binding() -> None:
    for minor, left in ((34, "n1"), (36, "")):
        it = server(minor)
        made = it.add("pods", manifests.pod("p"), "default")
        it.call("PATCH", f"{PODS}/p/status", {"metadata": {}, "status": {"nominatedNodeName": "n1"}}, None)
        target = {"metadata": {"uid": made["metadata"]["uid"]}, "target": {"name": "n1"}}
        it.call("POST", f"{PODS}/p/binding", target, None)
        there = it.find("pods", "p")
        assert there is not None and there["status"]["nominatedNodeName"] == left
        assert {one["type"]: one["status"] for one in there["status"]["conditions"]} == {"PodScheduled": "True"}


@pytest.mark.parametrize(
    ("api", "since"),
    [
        ("policy/v1/poddisruptionbudgets", 21),
        ("storage.k8s.io/v1beta1/csistoragecapacities", 21),
        ("storage.k8s.io/v1/csistoragecapacities", 24),
        ("resource.k8s.io/v1/deviceclasses", 34),
        ("resource.k8s.io/v1/resourceclaims", 34),
        ("resource.k8s.io/v1/resourceslices", 34),
    ],
)
async def test_api_is_there_since_its_version(api: str, since: int) -> None:
    refused(404, "could not find", server(since - 1), "GET", f"/apis/{api}", None)
    assert server(since).call("GET", f"/apis/{api}", None, {"limit": "7"})


CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"


async def test_allocation_of_a_claim_is_written_once_and_at_its_version() -> None:
    it = server(36)
    made = it.add("resourceclaims", {"metadata": {"name": "c"}, "status": {}}, "default")
    version = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    pod_uses = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    refused(422, "allocated", it, "PATCH", f"{CLAIM}/status", {"metadata": version, "status": pod_uses})
    given = {"metadata": version, "status": {"allocation": {"devices": {"results": []}}, **pod_uses}}
    it.call("PATCH", f"{CLAIM}/status", given, None)
    refused(409, "modified", it, "PATCH", f"{CLAIM}/status", given)
    other = {"metadata": {}, "status": {"allocation": {"devices": {"results": [1]}}}}
    refused(422, "immutable", it, "PATCH", f"{CLAIM}/status", other)
    it.call("PATCH", f"{CLAIM}/status", {"metadata": {}, "status": {"allocation": None, "reservedFor": None}}, None)
    there = it.find("resourceclaims", "c")
    assert there is not None and there["status"] == {}
