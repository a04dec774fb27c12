"""Amounts of resources, as Kubernetes writes and sums them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim.quantities import amounts, request_of


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cpu", "1", 1_000), ("cpu", "500m", 500), ("cpu", "0.1", 100), ("cpu", "1u", 1), ("cpu", "2k", 2_000_000),
        ("memory", "1Gi", 2**30), ("memory", "1G", 10**9),
        ("memory", "128974848", 128_974_848), ("memory", "1e3", 1_000),
        ("memory", "100m", 1), ("memory", "1.5Ki", 1_536), ("memory", "129E-1", 13), ("memory", "1E", 10**18),
        ("memory", "1Ei", 2**60), ("memory", "0.5Ei", 2**59), ("memory", "1E3", 1_000),
        ("nvidia.com/gpu", "2", 2), ("pods", "110", 110), ("cpu", ".5", 500), ("cpu", "+1", 1_000),
    ],
)  # fmt: skip
def test_quantity_in_the_scheduler_s_units(name: str, text: str, expected: int) -> None:
    found = amounts({name: text})
    assert found == {("vcore" if name == "cpu" else name): expected}


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "x", "1e", "--1", "1Ei1", "10E"])
def test_wrong_quantity_names_the_resource(text: str) -> None:
    with pytest.raises(ValueError, match="memory="):
        amounts({"memory": text})


def container(cpu: str = "", *, always: bool = False, name: str = "c", **more: str) -> dict[str, Any]:
    requests = ({"cpu": cpu} if cpu else {}) | more
    return {"name": name, "resources": {"requests": requests}} | ({"restartPolicy": "Always"} if always else {})


def measured(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    text = json.dumps({"metadata": {"name": "p"}, "spec": spec, "status": status or {}})
    return request_of(msgspec.json.decode(text, type=Pod))


@pytest.mark.parametrize(
    ("spec", "vcore"),
    [
        ({"containers": [container("1"), container("2")]}, 3_000),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3_000),
        ({"containers": [container("1")], "initContainers": [container("1", always=True)]}, 2_000),
        ({"containers": [container("1")], "initContainers": [container("2", always=True), container("2")]}, 4_000),
        ({"containers": [container("1")], "initContainers": [container("2"), container("2", always=True)]}, 3_000),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1_250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4_000),
        ({"containers": [container()]}, None),
    ],
)  # fmt: skip
def test_request_of_a_pod(spec: dict[str, Any], vcore: int | None) -> None:
    assert measured(spec) == {"pods": 1} | ({} if vcore is None else {"vcore": vcore})


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    ("status", "vcore"),
    [
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}, 3_000),
        ({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}, 1_000),
        ({"resize": "Infeasible", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "500m"}}]}, 500),
        ({"conditions": INFEASIBLE, "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "500m"}}]}, 500),
        ({"conditions": INFEASIBLE}, 1_000),
    ],
)  # fmt: skip
def test_pod_that_is_resized_in_place_counts_with_the_maximum(status: dict[str, Any], vcore: int) -> None:
    assert measured({"containers": [container("1")]}, status)["vcore"] == vcore


def test_side_car_that_is_resized_counts_with_the_maximum_and_other_init_containers_do_not() -> None:
    sidecar, before = {**container("1"), "name": "s", "restartPolicy": "Always"}, {**container("1"), "name": "i"}
    statuses = [{"name": name, "resources": {"requests": {"cpu": "3"}}} for name in "si"]
    spec = {"containers": [container("1")], "initContainers": [sidecar, before]}
    assert measured(spec, {"initContainerStatuses": statuses})["vcore"] == 4_000


@pytest.mark.parametrize(
    ("status", "vcore"),
    [
        ({}, 4_000),
        ({"resources": {"requests": {"cpu": "5"}}}, 5_000),
        ({"allocatedResources": {"cpu": "6"}}, 6_000),
        ({"allocatedResources": {"cpu": "2"}}, 4_000),
        ({"allocatedResources": {"cpu": "2"}, "conditions": INFEASIBLE}, 2_000),
        ({"allocatedResources": {"memory": "2"}}, 4_000),
    ],
)
def test_pod_that_is_resized_as_a_whole_counts_with_the_maximum(status: dict[str, Any], vcore: int) -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}
    assert measured(spec, status) == {"vcore": vcore, "pods": 1}
