"""Gangs that others define come together like gangs of task groups, from manifests that are left as they are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import JobSet, Pod, PodGroup, Workload
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Ask, CreatePlaceholder, RecordEvent, SetCondition, Submit
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

LIMITED = {"requests": {"cpu": "500m", "memory": "1Gi"}}


def member(name: str, labels: Any = None, annotations: Any = None, **spec: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {
                "name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1",
                "creationTimestamp": f"2026-01-01T00:00:0{name[-1]}Z", "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {"schedulerName": "remuda", "containers": [{"name": "c", "resources": LIMITED}], **spec},
        },
        Pod,
    )  # fmt: skip


def of_kind(kind: Any, name: str, spec: Any) -> Any:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, kind)


JOBS = {
    "replicatedJobs": [
        {"name": "driver", "template": {"spec": {"template": {"spec": {"containers": [{"resources": LIMITED}]}}}}},
        {
            "name": "workers", "replicas": 2,
            "template": {"spec": {"parallelism": 2, "template": {"spec": {"containers": [{"resources": LIMITED}]}}}},
        },
    ]
}  # fmt: skip
GROUPS = json.dumps([{"name": "workers", "minMember": 3, "minResource": {"cpu": "500m", "memory": "1Gi"}}])
# Of each definition: labels, annotations and spec of the pods; the kind of the object that says the size, and the
# object; the application, its queue, and how many placeholders each task group has.
DEFINITIONS: dict[str, Any] = {
    "YuniKorn": (
        {names.APPLICATION: "app", names.QUEUE: "root.a"},
        {names.TASK_GROUPS: GROUPS, names.TASK_GROUP: "workers"}, {}, "", None, "app", "root.a", {"workers": 3},
    ),
    "Kueue": (
        {names.KUEUE_GROUP: "train", names.KUEUE_QUEUE: "user-queue"}, {names.KUEUE_GROUP_SIZE: "3"}, {}, "", None,
        "train", "user-queue", {"train": 3},
    ),
    "Volcano": (
        {}, {names.VOLCANO_GROUP: "train"}, {}, names.VOLCANO_PODGROUPS,
        of_kind(PodGroup, "train", {"minMember": 3, "queue": "batch"}), "train", "batch", {"train": 3},
    ),
    "scheduler plugins": (
        {names.PLUGIN_GROUP: "train"}, {}, {}, names.PLUGIN_PODGROUPS,
        of_kind(PodGroup, "train", {"minMember": 3, "scheduleTimeoutSeconds": 90}), "train", "", {"train": 3},
    ),
    "scheduler plugins, first version": (
        {names.PLUGIN_GROUP_OLDEST: "train", names.PLUGIN_GROUP_OLDEST_SIZE: "3"}, {}, {}, "", None, "train", "",
        {"train": 3},
    ),
    "PodGroup of Kubernetes": (
        {}, {}, {"schedulingGroup": {"podGroupName": "train"}}, names.NATIVE_PODGROUPS,
        of_kind(PodGroup, "train", {"schedulingPolicy": {"gang": {"minCount": 3}}}), "train", "", {"train": 3},
    ),
    "Workload of Kubernetes": (
        {}, {}, {"workloadRef": {"name": "w", "podGroup": "workers", "podGroupReplicaKey": "0"}},
        names.NATIVE_WORKLOADS,
        of_kind(Workload, "w", {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]}),
        "w-workers-0", "", {"workers": 3},
    ),
    "LeaderWorkerSet": (
        {names.LEADER_WORKER_SET: "serve", names.LEADER_WORKER_GROUP: "1"}, {names.LEADER_WORKER_SIZE: "3"}, {}, "",
        None, "serve-1", "", {"serve-1": 3},
    ),
    "JobSet": (
        {names.JOB_SET: "train", names.JOB_SET_JOB: "workers"}, {}, {}, names.JOB_SETS,
        of_kind(JobSet, "train", JOBS), "train", "", {"driver": 1, "workers": 4},
    ),
}  # fmt: skip
WITH_OBJECT = [name for name, one in DEFINITIONS.items() if one[3]]


def accept(of: Shim, application: str) -> None:
    of.application(si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID=f"team.{application}")]))


def placeholders(of: Shim) -> list[dict[str, Any]]:
    return [effect.manifest for effect in of.take() if isinstance(effect, CreatePlaceholder)]


def by_group(manifests: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in manifests:
        group = one["metadata"]["annotations"][names.TASK_GROUP]
        found[group] = found.get(group, 0) + 1
    return found


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_namespace_moves_without_touching_its_manifests(name: str) -> None:
    """From the first pod to the asks of its real pods, and through a restart of the front end in between."""
    labels, annotations, spec, kind, found, application, queue, groups = DEFINITIONS[name]
    pods = [member(f"pod-{number}", labels, annotations, **spec) for number in range(3)]
    it = shim("n1")
    if found is not None:
        it.applications.group_changed(kind, found)
    for one in pods:
        it.pod_changed(one)
    submitted = [effect.application for effect in it.take() if isinstance(effect, Submit)]
    assert [(one.applicationID, one.queueName) for one in submitted] == [(f"team.{application}", queue)]
    assert submitted[0].placeholderAsk.resources["vcore"].value == 500 * sum(groups.values())
    accept(it, application)
    made = placeholders(it)
    assert by_group(made) == groups
    requests = made[0]["spec"]["containers"][0]["resources"]["requests"]
    assert (requests["cpu"], requests["memory"]) in (("500m", "1Gi"), ("500m", str(2**30)))
    assert not [effect for effect in it.take() if isinstance(effect, Ask)], "real pods wait for the placeholders"
    for number, manifest in enumerate(made):
        bound = msgspec.convert(manifest, Pod)
        metadata = msgspec.structs.replace(bound.metadata, uid=f"uid-{number}", resource_version="1")
        it.pod_changed(Pod(metadata=metadata, spec=msgspec.structs.replace(bound.spec, node_name="n1")))
    asks = [effect.ask for effect in it.take() if isinstance(effect, Ask)]
    real = [one for one in asks if not one.placeholder]
    assert [one.allocationKey for one in real] == [one.uid for one in pods]
    assert {one.taskGroupName for one in real} <= groups.keys()


@pytest.mark.parametrize("name", WITH_OBJECT)
def test_pods_wait_for_the_object_that_says_how_large_the_gang_is(name: str) -> None:
    labels, annotations, spec, kind, found, application, queue, groups = DEFINITIONS[name]
    it = shim("n1")
    it.pod_changed(member("pod-0", labels, annotations, **spec))
    effects = it.take()
    (condition,) = [one for one in effects if isinstance(one, SetCondition)]
    assert (condition.reason, "how large its gang is" in condition.message) == ("SchedulingSkipped", True)
    assert not [one for one in effects if isinstance(one, Submit | Ask)]
    it.applications.group_changed(kind, found)
    (submitted,) = [one.application for one in it.take() if isinstance(one, Submit)]
    assert submitted.queueName == queue
    accept(it, application)
    assert by_group(placeholders(it)) == groups


@pytest.mark.parametrize("name", WITH_OBJECT)
def test_where_the_api_server_has_no_such_objects_it_is_no_gang(name: str) -> None:
    labels, annotations, spec, kind, *_ = DEFINITIONS[name]
    it = shim("n1")
    it.pod_changed(member("pod-0", labels, annotations, **spec))
    it.take()
    it.applications.groups_served(kind, are_served=False)
    effects = it.take()
    assert [one.ask.allocationKey for one in effects if isinstance(one, Ask)] == ["uid-pod-0"]
    assert [one.reason for one in effects if isinstance(one, RecordEvent) and one.is_warning] == ["TaskGroupsError"]


def test_the_time_of_a_group_is_that_of_the_gang() -> None:
    labels, annotations, spec, kind, found, *_ = DEFINITIONS["scheduler plugins"]
    it = shim("n1")
    it.applications.group_changed(kind, found)
    it.pod_changed(member("pod-0", labels, annotations, **spec))
    (submitted,) = [one.application for one in it.take() if isinstance(one, Submit)]
    assert submitted.executionTimeoutMilliSeconds == 90_000


@pytest.mark.parametrize(
    ("labels", "annotations", "spec", "kind", "found"),
    [
        ({names.KUEUE_GROUP: "g"}, {names.KUEUE_GROUP_SIZE: "1"}, {}, "", None),
        (
            {}, {}, {"schedulingGroup": {"podGroupName": "g"}}, names.NATIVE_PODGROUPS,
            of_kind(PodGroup, "g", {"schedulingPolicy": {"basic": {}}}),
        ),
        ({}, {names.VOLCANO_GROUP: "g"}, {}, names.VOLCANO_PODGROUPS, of_kind(PodGroup, "g", {"minMember": 1})),
    ],
)  # fmt: skip
def test_a_group_of_one_or_without_a_gang_is_placed_pod_by_pod(
    labels: Any, annotations: Any, spec: Any, kind: str, found: Any
) -> None:
    it = shim("n1")
    if found is not None:
        it.applications.group_changed(kind, found)
    it.pod_changed(member("pod-0", labels, annotations, **spec))
    assert [one.ask.allocationKey for one in it.take() if isinstance(one, Ask)] == ["uid-pod-0"]


@pytest.mark.parametrize("members", ["", "many", "-1", "9" * 80, "1000001"])
def test_a_size_that_is_none_is_told(members: str) -> None:
    it = shim("n1")
    it.pod_changed(member("pod-0", {names.KUEUE_GROUP: "g"}, {names.KUEUE_GROUP_SIZE: members}))
    effects = it.take()
    assert [one.reason for one in effects if isinstance(one, RecordEvent) and one.is_warning] == ["TaskGroupsError"]
    assert [one.ask.allocationKey for one in effects if isinstance(one, Ask)] == ["uid-pod-0"]


def test_task_groups_of_this_family_count_before_those_of_others() -> None:
    it = shim("n1")
    annotations = {names.TASK_GROUPS: GROUPS, names.TASK_GROUP: "workers", names.KUEUE_GROUP_SIZE: "2"}
    it.pod_changed(member("pod-0", {names.APPLICATION: "app", names.KUEUE_GROUP: "g"}, annotations))
    accept(it, "app")
    assert by_group(placeholders(it)) == {"workers": 3}


def test_a_group_whose_placeholders_are_placed_where_its_pods_may_be() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    spec = {
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }  # fmt: skip
    it = shim("n1")
    it.pod_changed(member("pod-0", {names.KUEUE_GROUP: "g"}, {names.KUEUE_GROUP_SIZE: "2"}, **spec))
    accept(it, "g")
    made = placeholders(it)[0]["spec"]
    assert made["nodeSelector"] == spec["nodeSelector"]
    assert made["tolerations"][0]["key"] == "gpu"
    kept = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert kept[0]["matchExpressions"] == required["nodeSelectorTerms"][0]["matchExpressions"]
