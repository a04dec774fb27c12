"""Pods as the operators of Spark, Ray and Flink make them for YuniKorn: the same application, queue and gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node
from integrations.kubernetes.tests.operators import NAMES, pods_of
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, CreatePlaceholder, Effect, RecordEvent, Submit
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

# By file: the application, and how many placeholders each task group has.
EXPECTED: dict[str, tuple[str, dict[str, int]]] = {
    "flink": ("wordcount-stream", {}),
    "ray": ("train-rays", {"headgroup": 1, "small-group": 2}),
    "ray-autoscaled": ("elastic-rays", {}),
    "spark": ("spark-0f4d2a9c7b6e4c55a1b2c3d4e5f60718", {"spark-driver": 1, "spark-executor": 2}),
}
MI = 2**20


def test_each_file_is_expected() -> None:
    assert list(EXPECTED) == NAMES


def reporting() -> Shim:
    it = Shim(ShimPolicy(frozenset({"yunikorn"})))
    it.node_changed(node("n1"))
    it.report()
    it.take()
    return it


def seen(manifest: dict[str, Any], node_name: str = "") -> Pod:
    name = manifest["metadata"]["name"]
    one = msgspec.convert(manifest, Pod)
    metadata = msgspec.structs.replace(one.metadata, namespace="team", uid=f"uid-{name}", resource_version="1")
    spec = msgspec.structs.replace(one.spec, node_name=node_name)
    return msgspec.structs.replace(one, metadata=metadata, spec=spec)


def submitted(effects: list[Effect]) -> si.AddApplicationRequest:
    (found,) = [one.application for one in effects if isinstance(one, Submit)]
    return found


def made(effects: list[Effect]) -> list[dict[str, Any]]:
    return [one.manifest for one in effects if isinstance(one, CreatePlaceholder)]


def group_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["annotations"][names.TASK_GROUP])


def started(name: str) -> tuple[Shim, list[Effect], list[dict[str, Any]]]:
    """All pods of a file, and the application is accepted: what the first pods led to, and the placeholders."""
    it = reporting()
    for manifest in pods_of(name):
        it.pod_changed(seen(manifest))
    first = it.take()
    accepted = si.AcceptedApplication(applicationID=f"team.{EXPECTED[name][0]}")
    it.application(si.ApplicationResponse(accepted=[accepted]))
    return it, first, made(it.take())


@pytest.mark.parametrize("name", NAMES)
def test_application_queue_and_gang(name: str) -> None:
    application, groups = EXPECTED[name]
    _, first, placeholders = started(name)
    one = submitted(first)
    assert (one.applicationID, one.queueName) == (f"team.{application}", "root.default")
    counts: dict[str, int] = {}
    for manifest in placeholders:
        counts[group_of(manifest)] = counts.get(group_of(manifest), 0) + 1
    assert counts == groups
    assert one.placeholderAsk.resources["pods"].value == sum(groups.values())
    told = [effect.reason for effect in first if isinstance(effect, RecordEvent) and effect.is_warning]
    assert set(told) == ({"TaskGroupsError"} if name == "ray-autoscaled" else set())


@pytest.mark.parametrize("name", NAMES)
def test_real_pods_are_asked_for_when_the_gang_is_there(name: str) -> None:
    """At once if there is none. Each is of its task group, and as large as its placeholder."""
    _, groups = EXPECTED[name]
    it, first, placeholders = started(name)
    asks = [one.ask for one in first if isinstance(one, Ask)]
    if groups:
        assert not asks, "real pods wait for the placeholders"
        for number, manifest in enumerate(placeholders):
            bound = {**manifest, "metadata": {**manifest["metadata"], "name": f"tg-{number}"}}
            it.pod_changed(seen(bound, "n1"))
        asks = [one.ask for one in it.take() if isinstance(one, Ask) and not one.ask.placeholder]
    manifests = {f"uid-{one['metadata']['name']}": one for one in pods_of(name)}
    assert {one.allocationKey for one in asks} == set(manifests)
    for ask in asks:
        assert ask.taskGroupName == (group_of(manifests[ask.allocationKey]) if groups else ask.taskGroupName)
        assert ask.resourceAsk.resources["vcore"].value == 1_000


def test_placeholders_have_what_their_group_says() -> None:
    _, _, of_spark = started("spark")
    executors = [one for one in of_spark if group_of(one) == "spark-executor"]
    assert {one["metadata"]["labels"]["version"] for one in of_spark} == {"3.5.2"}
    assert [one["spec"]["tolerations"] for one in executors] == [
        [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]
    ] * 2
    _, _, of_ray = started("ray")
    (head,) = [one for one in of_ray if group_of(one) == "headgroup"]
    assert head["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    workers = [one for one in of_ray if group_of(one) == "small-group"]
    assert [one["spec"]["nodeSelector"] for one in workers] == [{"kubernetes.io/os": "linux"}] * 2
    for placeholders, first in ((of_spark, "pi-driver"), (of_ray, "train-rays-head")):
        assert {one["metadata"]["ownerReferences"][0]["name"] for one in placeholders} == {first}
        assert {one["spec"]["schedulerName"] for one in placeholders} == {"yunikorn"}


def test_executors_that_come_when_the_driver_runs_replace_their_placeholders() -> None:
    """As with Spark itself: the driver creates them. A third one, beyond the gang, is asked for like the others."""
    it = reporting()
    driver, *executors = pods_of("spark")
    it.pod_changed(seen(driver))
    it.take()
    accepted = si.AcceptedApplication(applicationID=f"team.{EXPECTED['spark'][0]}")
    it.application(si.ApplicationResponse(accepted=[accepted]))
    for number, manifest in enumerate(made(it.take())):
        it.pod_changed(seen({**manifest, "metadata": {**manifest["metadata"], "name": f"tg-{number}"}}, "n1"))
    assert [one.ask.allocationKey for one in it.take() if isinstance(one, Ask) and not one.ask.placeholder] == [
        "uid-pi-driver"
    ]
    it.pod_changed(seen(driver, "n1"))
    more = {**executors[0], "metadata": {**executors[0]["metadata"], "name": "pi-exec-3"}}
    for manifest in (*executors, more):
        it.pod_changed(seen(manifest))
    asks = [one.ask for one in it.take() if isinstance(one, Ask)]
    assert {(one.allocationKey, one.taskGroupName) for one in asks} == {
        (f"uid-pi-exec-{number}", "spark-executor") for number in (1, 2, 3)
    }
