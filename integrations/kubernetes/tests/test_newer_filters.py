"""Filters that the default scheduler has since 1.34: features that nodes declare, resources that devices serve."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import DeviceClass, Node, Pod
from remuda_kubernetes.plugin.plugin import Hold, PluginPolicy, PluginShim
from remuda_kubernetes.predicates import on_node
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Ask, SetCondition
from remuda_kubernetes.shim.shim import Shim

FEATURE = "RestartAllContainersOnContainerExits"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
GPU = "example.com/gpu"


def asking(name: str = "p", scheduler: str = "remuda", resource: str = "cpu", **container: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {
                "name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1",
                "labels": {names.APPLICATION: "app"},
            },
            "spec": {
                "schedulerName": scheduler,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", resource: "1"}}, **container}],
            },
        },
        Pod,
    )  # fmt: skip


def declaring(name: str, *features: str) -> Node:
    plain = node(name)
    return msgspec.structs.replace(plain, status=msgspec.structs.replace(plain.status, declared_features=[*features]))


def device_class(resource: str) -> DeviceClass:
    return msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": resource}}, DeviceClass)


@pytest.mark.parametrize(
    ("container", "features", "refused"),
    [
        ({"restartPolicyRules": RULES}, (), True), ({"restartPolicyRules": RULES}, ("Another",), True),
        ({"restartPolicyRules": RULES}, (FEATURE,), False), ({}, (), False),
        ({"restartPolicyRules": [{"action": "Restart"}]}, (), False),
    ],
)  # fmt: skip
def test_a_node_declares_what_the_pod_needs(container: Any, features: Any, refused: bool) -> None:
    reason = on_node.refusal(asking(**container).spec, declaring("n1", *features))
    assert reason == (f"node does not declare {FEATURE}" if refused else "")


def test_a_node_that_declares_the_feature_later_is_looked_at_again() -> None:
    it = shim("n1")
    it.pod_changed(asking(restartPolicyRules=RULES))
    assert it.predicates.refusal("uid-p", "n1")
    it.node_changed(declaring("n1", FEATURE))
    assert not it.predicates.refusal("uid-p", "n1")


def asks(of: Shim) -> list[dict[str, int]]:
    return [
        {name: amount.value for name, amount in one.ask.resourceAsk.resources.items()}
        for one in of.take()
        if isinstance(one, Ask)
    ]


@pytest.mark.parametrize("resource", [GPU, f"{names.DEVICE_CLASS_RESOURCE}gpu"])
def test_shim_mode_tells_why_a_pod_waits_whose_resource_devices_serve(resource: str) -> None:
    it = shim("n1")
    it.device_class_changed(device_class(GPU))
    it.pod_changed(asking(resource=resource))
    effects = it.take()
    (condition,) = [one for one in effects if isinstance(one, SetCondition)]
    assert condition.reason == "Unschedulable"
    assert (
        condition.message == f"its {resource} (dynamic resource allocation) is allocated by the default scheduler only"
    )
    assert not [one for one in effects if isinstance(one, Ask)]


def test_a_resource_that_a_node_has_is_no_device() -> None:
    it = shim()
    plain = node("n1")
    has = msgspec.structs.replace(plain.status, allocatable={**(plain.status.allocatable or {}), GPU: "4"})
    it.node_changed(msgspec.structs.replace(plain, status=has))
    it.take()
    it.device_class_changed(device_class(GPU))
    it.pod_changed(asking(resource=GPU))
    assert asks(it) == [{"vcore": 1000, GPU: 1, "pods": 1}]


def test_plugin_mode_leaves_the_devices_to_the_default_scheduler() -> None:
    policy = PluginPolicy(frozenset({"remuda"}), placed_by=frozenset({"default-scheduler"}), hold=Hold.EXTENDER)
    it = PluginShim(policy)
    it.node_changed(node("n1"))
    it.report()
    it.take()
    it.pod_changed(asking(scheduler="default-scheduler", resource=GPU))
    assert asks(it) == [{"vcore": 1000, GPU: 1, "pods": 1}], "no class serves it yet"
    it.device_class_changed(device_class(GPU))
    assert asks(it) == [{"vcore": 1000, "pods": 1}]
    it.device_class_gone(device_class(GPU))
    assert asks(it) == [{"vcore": 1000, GPU: 1, "pods": 1}]
