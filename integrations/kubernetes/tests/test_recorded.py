"""Objects as API servers from 1.30 to 1.36 report them (`recorded/`), and what the front end makes of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from integrations.kubernetes.tests.objects import node
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import (
    DeviceClass,
    Node,
    Object,
    Pod,
    PodGroup,
    ResourceClaim,
    ResourceSlice,
    Workload,
)
from remuda_kubernetes.plugin.plugin import Hold, PluginPolicy
from remuda_kubernetes.predicates import on_node
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, CreatePlaceholder, ReportNode, SetCondition, Submit
from remuda_kubernetes.shim.quantities import request_of
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

FILES = sorted((Path(__file__).parent / "recorded").glob("*.yaml"))
KINDS: dict[str, type[Object]] = {
    "Pod": Pod, "Node": Node, "DeviceClass": DeviceClass, "Workload": Workload, "PodGroup": PodGroup,
    "ResourceClaim": ResourceClaim, "ResourceSlice": ResourceSlice,
}  # fmt: skip
MI = 2**20


@cache
def recorded() -> dict[str, Any]:
    """The objects of all versions by name, decoded as the front end decodes what an API server sends."""
    found = {}
    for file in FILES:
        for one in YAML(typ="safe").load_all(file):
            name = one["metadata"]["name"]
            assert name not in found, f"{file.name}: {name} is there twice"
            found[name] = msgspec.json.decode(msgspec.json.encode(one), type=KINDS[one["kind"]])
    return found


def test_each_version_has_objects() -> None:
    assert [file.stem for file in FILES] == [f"1.{minor}" for minor in range(30, 37)]
    assert recorded()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gated", {"vcore": 500, "memory": 256 * MI}),
        ("sidecar", {"vcore": 1700, "memory": 320 * MI}),
        ("apart", {"vcore": 250}),
        ("whole", {"vcore": 2000, "memory": 1024 * MI, "example.com/fpga": 1}),
        ("deferred", {"vcore": 2000, "memory": 256 * MI}),
        ("infeasible", {"vcore": 1000, "memory": 256 * MI}),
        ("shrinking", {"vcore": 1000, "memory": 256 * MI}),
        ("nominated", {"vcore": 1000}),
        ("whole-resized", {"vcore": 2000, "memory": 1024 * MI}),
    ],
)
def test_amounts(name: str, expected: dict[str, int]) -> None:
    assert request_of(recorded()[name]) == expected | {"pods": 1}


def test_pod_waits_for_the_gates_of_others() -> None:
    policy = PluginPolicy(frozenset({"remuda"}), placed_by=frozenset({"default-scheduler"}), hold=Hold.GATES)
    gated = recorded()["gated"]
    assert policy.holds(gated)
    assert policy.gates_of(gated) == ["example.com/license"]


def test_pod_with_merged_label_keys_is_apart_from_pods_of_its_template_only() -> None:
    it = shim("n1", "n2")
    alike, before = recorded()["apart"], msgspec.to_builtins(recorded()["apart"])
    for name, template, on in (("new", "6f7d9c", "n1"), ("old", "0aa1bb", "n2")):
        one = before | {"metadata": before["metadata"] | {"name": name, "uid": name}}
        one["metadata"]["labels"] = {"app": "web", "pod-template-hash": template}
        one["spec"] = {"nodeName": on, "containers": []}
        it.pod_changed(msgspec.convert(one, Pod))
    it.pod_changed(alike)
    refused = {name for name in ("n1", "n2") if it.predicates.refusal(alike.uid, name)}
    assert refused == {"n1"}


def test_pods_with_devices_wait_with_the_reason_in_shim_mode() -> None:
    it = shim("n1")
    it.device_class_changed(recorded()["gpu"])
    for name, part in (("claims", "resourceClaims"), ("extended", "example.com/gpu")):
        it.pod_changed(recorded()[name])
        effects = it.take()
        assert not [one for one in effects if isinstance(one, Ask)]
        (condition,) = [one for one in effects if isinstance(one, SetCondition)]
        assert (condition.reason, part in condition.message) == ("Unschedulable", True)


def test_node_has_to_declare_the_feature() -> None:
    spec = recorded()["restarts-all"].spec
    assert on_node.refusal(spec, node("n1")) == "node does not declare RestartAllContainersOnContainerExits"
    assert on_node.refusal(spec, recorded()["declares"]) == ""


@pytest.mark.parametrize(
    ("pod", "kind", "group"),
    [
        ("of-workload", names.NATIVE_WORKLOADS, "training"),
        ("of-group", names.NATIVE_PODGROUPS, "training-workers"),
    ],
)
def test_native_gang_gets_its_placeholders(pod: str, kind: str, group: str) -> None:
    it = shim("n1")
    it.pod_changed(recorded()[pod])
    assert [one.reason for one in it.take() if isinstance(one, SetCondition)] == ["SchedulingSkipped"]
    it.applications.group_changed(kind, recorded()[group])
    (submitted,) = [one.application.applicationID for one in it.take() if isinstance(one, Submit)]
    it.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID=submitted)]))
    assert len([one for one in it.take() if isinstance(one, CreatePlaceholder)]) == 3


def test_devices_and_claims_of_them() -> None:
    it = Shim(ShimPolicy(frozenset({"remuda"}), device_classes=(("gpu", "gpu"),)))
    for name in ("n1", "n2"):
        it.node_changed(node(name))
    it.device_class_changed(recorded()["gpu"])
    for name in ("n1-gpu.example.com-8c2fq", "n2-gpu.example.com-m4z7d"):
        it.device_claims.slice_changed(recorded()[name])
    for name in ("in-use", "prioritized", "aligned"):
        it.device_claims.claim_changed(recorded()[name])
    it.report()
    reported = {one.node.nodeID: one.node for one in it.take() if isinstance(one, ReportNode)}
    attributes = {name: {key: text for key, text in one.attributes.items() if key.startswith("remuda/devices.")}
                  for name, one in reported.items()}  # fmt: skip
    assert attributes == {
        "n1": {"remuda/devices.gpu": "gpu-0,gpu-1", "remuda/devices.gpu.occupied": "gpu-0=1"},
        "n2": {"remuda/devices.gpu": "gpu-0,gpu-1", "remuda/devices.gpu.unfit": "gpu-1"},
    }
    it.pod_changed(recorded()["claims"])
    (waits,) = [one.message for one in it.take() if isinstance(one, SetCondition)]
    assert waits == "ResourceClaim claims-gpu-x7k2p does not exist"
    it.device_claims.claim_changed(recorded()["claims-gpu-x7k2p"])
    (ask,) = [one.ask for one in it.take() if isinstance(one, Ask)]
    assert ask.resourceAsk.resources["gpu"].value == 2
