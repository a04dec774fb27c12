"""Reading of pods, namespaces and task groups."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
import pytest

from integrations.kubernetes.tests.objects import annotated, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Namespace, Pod, PriorityClass
from remuda_kubernetes.shim import names, pod_reading
from remuda_kubernetes.shim.effects import RecordEvent, ReportAllocation, Submit
from remuda_kubernetes.shim.namespaces import tags_of
from remuda_kubernetes.shim.pod_reading import application_of
from remuda_kubernetes.shim.quantities import request_of
from remuda_kubernetes.shim.task_groups import (
    GangPolicy,
    PlaceholderUser,
    TaskGroup,
    placeholder_pod,
    policy_of,
    task_groups_of,
)

D = names.DOMAIN
LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize(
    ("labels", "annotations", "application", "queue", "ignored"),
    [
        ({f"{D}app-id": "a", "applicationId": "b"}, {f"{D}app-id": "c"}, "a", "", ("c", "b")),
        ({"applicationId": "b"}, {f"{D}app-id": "c"}, "c", "", ("b",)),
        ({"spark-app-selector": "s"}, {}, "s", "", ()),
        ({"applicationId": "a", "queue": "q"}, {f"{D}queue": "root.x"}, "a", "root.x", ()),
        ({"applicationId": "a", "queue": "q"}, {}, "a", "q", ()),
        ({"applicationId": "x-uniqueautogen"}, {}, "x-uid-p", "", ()),
        ({}, {}, "yunikorn-default-autogen", "", ()),
    ],
)  # fmt: skip
def test_application_and_queue(
    labels: dict[str, str], annotations: dict[str, str], application: str, queue: str, ignored: tuple[str, ...]
) -> None:
    said = pod_reading.application_of(pod("p", labels=labels, annotations=annotations))
    assert (said.name, said.queue, said.ignored) == (application, queue, ignored)


def test_unique_application() -> None:
    assert pod_reading.application_of(pod("p"), unique=True).name == "default-uid-p"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"user": "alice", "groups": ["dev"]}', ("alice", ("dev",))),
        ('{"user": "alice"}', ("alice", ())),
        ('{"user": "alice", "groups": null}', ("alice", ())),
        ('{"User": "alice", "GROUPS": ["dev"]}', ("alice", ("dev",))),
        ('{"user": null, "groups": ["dev"]}', ("nobody", ())),
        ("null", ("nobody", ())),
        ('{"groups": ["dev"]}', ("nobody", ())),
        ("alice", ("nobody", ())),
        ('{"user": 5}', ("nobody", ())),
        ("", ("nobody", ())),
    ],
)  # fmt: skip
def test_user(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert pod_reading.user_of(pod("p", annotations={names.USER_INFO: text})) == expected


@pytest.mark.parametrize(
    ("of_pod", "of_class", "expected"),
    [("true", "false", True), ("false", "true", False), ("", "false", False), ("", "true", True), ("", "", True)],
)
def test_preemption_is_allowed_by_pod_then_class(of_pod: str, of_class: str, expected: bool) -> None:
    priority_class = annotated(PriorityClass, "c", {names.ALLOW_PREEMPTION: of_class})
    found = pod_reading.may_be_preempted(pod("p", annotations={names.ALLOW_PREEMPTION: of_pod}), priority_class)
    assert found is expected


def test_preemption_policy() -> None:
    assert pod_reading.may_preempt(pod("p"))
    assert not pod_reading.may_preempt(pod("p", preemptionPolicy="Never"))


# Namespaces


@pytest.mark.parametrize(
    ("annotations", "quota"),
    [
        ({"namespace.quota": '{"cpu": "64", "memory": "1G"}'}, {"vcore": 64_000, "memory": 10**9}),
        ({"namespace.max.cpu": "1", "namespace.max.memory": "1Gi"}, {"vcore": 1_000, "memory": 2**30}),
        ({"namespace.quota": '{"cpu": "2"}', "namespace.max.cpu": "1"}, {"vcore": 2_000}),
        ({"namespace.quota": '{"nvidia.com/gpu": 1}'}, {"nvidia.com/gpu": 1}),
    ],
)  # fmt: skip
def test_quota_of_a_namespace(annotations: dict[str, str], quota: dict[str, int]) -> None:
    tags, wrong = tags_of(annotated(Namespace, "n", {D + key: value for key, value in annotations.items()}))
    assert not wrong
    found = json.loads(tags["namespace.resourcequota"])["resources"]
    assert {name: amount["value"] for name, amount in found.items()} == quota


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("namespace.quota", "5", "object"), ("namespace.quota", "{}", "object"),
        ("namespace.quota", '{"cpu": "0"}', "vcore=0"), ("namespace.quota", '{"cpu": "x"}', "cpu='x'"),
        ("namespace.guaranteed", "[", "JSON"), ("namespace.maxApps", "-1", "whole number"),
        ("namespace.max.cpu", "many", "cpu='many'"),
    ],
)  # fmt: skip
def test_wrong_annotation_of_a_namespace_counts_as_absent(key: str, value: str, said: str) -> None:
    tags, (wrong,) = tags_of(annotated(Namespace, "n", {D + key: value}))
    assert not tags
    assert said in wrong


# Task groups


def defining(groups: Any, policy: str = "") -> dict[str, str]:
    text = groups if isinstance(groups, str) else json.dumps(groups)
    return {names.TASK_GROUPS: text, names.POLICY_PARAMETERS: policy}


WORKERS = TaskGroup(name="workers", min_member=2, min_resource={"cpu": "1"})


@pytest.mark.parametrize(
    "text",
    [
        '[{"name":"workers","minmember":2,"minresource":{"cpu":"1"}}]',
        '[{"NAME":"workers","MINMEMBER":2,"MINRESOURCE":{"cpu":"1"}}]',
        '[{"name":"workers","minMember":2,"minResource":{"cpu":"1"},"nodeSelector":null,"tolerations":null}]',
        '[{"Name":"workers","MinMember":2,"Labels":null,"Annotations":null,"MinResource":{"cpu":"1"},'
        '"NodeSelector":null,"Tolerations":null,"Affinity":null,"TopologySpreadConstraints":null}]',
        '[{"name":"workers","minMember":2,"minResource":{"cpu":"1","memory":null},"unknown":{"Name":5}}]',
    ],
)
def test_task_groups_as_go_writes_them(text: str) -> None:
    assert task_groups_of(pod("p", annotations=defining(text))) == (WORKERS,)


def test_no_task_groups_as_go_writes_them() -> None:
    assert task_groups_of(pod("p", annotations=defining("null"))) == ()


def test_what_goes_to_the_api_server_has_its_names() -> None:
    """It knows keys in one case only. Labels have the case that they have."""
    term = {"MatchExpressions": [{"Key": "Zone", "Operator": "In", "Values": ["A"]}], "MatchFields": None}
    group = {
        "Name": "workers", "MinMember": 2, "MinResource": {"cpu": "1"}, "Labels": {"Name": "Key"},
        "Tolerations": [{"Key": "Key", "Operator": "Exists", "TolerationSeconds": None}],
        "Affinity": {"NodeAffinity": {"RequiredDuringSchedulingIgnoredDuringExecution": {"NodeSelectorTerms": [term]}}},
        "TopologySpreadConstraints": [{"MaxSkew": 1, "TopologyKey": "zone", "WhenUnsatisfiable": "ScheduleAnyway",
                                       "LabelSelector": {"MatchLabels": {"Name": "Key", "KEY": "x"}}}],
    }  # fmt: skip
    (found,) = task_groups_of(pod("p", annotations=defining([group])))
    assert found.labels == {"Name": "Key"}
    assert found.tolerations == [{"key": "Key", "operator": "Exists"}]
    terms = [{"matchExpressions": [{"key": "Zone", "operator": "In", "values": ["A"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert found.affinity == {"nodeAffinity": required}
    (constraint,) = found.topology_spread_constraints
    assert constraint == {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                          "labelSelector": {"matchLabels": {"Name": "Key", "KEY": "x"}}}  # fmt: skip


GROUP = {"name": "g", "minMember": 2, "minResource": {"cpu": "100m", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("[", "task-groups"),
        ([{"name": "g"}], "minMember"),
        ([GROUP | {"minMember": 0}], "minMember=0: expected 1"),
        ([GROUP | {"minResource": {}}], "at least one"),
        ([GROUP, GROUP], "name of its own"),
        ([GROUP | {"name": ""}], "name of its own"),
        ([GROUP | {"minResource": {"cpu": "1", "vcore": "1"}}], "not both"),
        ([GROUP | {"minResource": {"pods": "1"}}], "each member is one"),
        ([GROUP | {"minResource": {"cpu": "-1"}}], "expected 0 or more"),
        ([GROUP | {"minResource": {"cpu": "lots"}}], "Kubernetes quantity"),
        ([GROUP | {"minResource": {"memory": "9E"}}], "in all"),
    ],
)  # fmt: skip
def test_wrong_task_groups_say_what_is_wrong(groups: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        task_groups_of(pod("p", annotations=defining(groups)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard", GangPolicy(60_000, "Hard")),
        ("gangSchedulingStyle=hard", GangPolicy(0, "Soft")),
        ("placeholderTimeoutInSeconds=-1", GangPolicy(0, "Soft")),
        ("nonsense placeholderTimeoutInSeconds=5", GangPolicy(5_000, "Soft")),
        ("", GangPolicy(0, "Soft")),
    ],
)  # fmt: skip
def test_policy_parameters(text: str, expected: GangPolicy) -> None:
    assert policy_of(pod("p", annotations=defining([GROUP], text))) == expected


def test_placeholder_is_a_confined_pod_of_the_group() -> None:
    originator = pod("driver", annotations=defining([GROUP], "x=y"), priorityClassName="high")
    (group,) = task_groups_of(originator)
    made = placeholder_pod("A-very-long-application-name-of-a-user", "root.q", group, originator, "0123456789", "pause")
    assert made["metadata"]["name"] == "tg-a-very-long-application-name-g-0123456789"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-driver"
    assert made["metadata"]["annotations"][names.PLACEHOLDER] == "true"
    assert made["metadata"]["labels"][names.QUEUE] == "root.q"
    assert made["spec"]["priorityClassName"] == "high"
    (container,) = made["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "100m", "memory": "1Gi"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("application", "expected"),
    [
        ("my_app.v1", "tg-my-app-v1-the-group-0123456789"),
        ("team/ETL job", "tg-team-etl-job-the-group-0123456789"),
        ("é" * 40, f"tg-{'-' * 28}-the-group-0123456789"),
    ],
)
def test_placeholder_has_a_name_that_kubernetes_accepts(application: str, expected: str) -> None:
    (group,) = task_groups_of(pod("driver", annotations=defining([GROUP | {"name": "The_group"}])))
    made = placeholder_pod(application, "root.q", group, pod("driver"), "0123456789", "pause")
    assert made["metadata"]["name"] == expected


@pytest.mark.parametrize(
    ("application", "queue"), [("app", "root.q"), ("team/etl job", "root.a@b"), ("-x", "root.q-"), ("a" * 64, "q" * 64)]
)
def test_placeholder_belongs_to_any_application_and_queue(application: str, queue: str) -> None:
    """What an annotation says may be no label."""
    labels = {names.APPLICATION: "another", names.QUEUE: "root.another"}
    (group,) = task_groups_of(pod("driver", annotations=defining([GROUP | {"labels": labels}])))
    made = placeholder_pod(application, queue, group, pod("driver"), "0123456789", "pause")
    made["metadata"]["uid"] = "uid"
    found = application_of(msgspec.convert(made, Pod))
    assert (found.name, found.queue, found.ignored) == (application, queue, ())
    assert all(LABEL_VALUE.fullmatch(value) for value in made["metadata"]["labels"].values())


def test_vcore_of_a_group_is_cpu() -> None:
    """As in the configuration of queues."""
    (group,) = task_groups_of(pod("driver", annotations=defining([GROUP | {"minResource": {"vcore": "1500m"}}])))
    made = placeholder_pod("app", "", group, pod("driver"), "0123456789", "pause")
    assert request_of(msgspec.convert(made, Pod)) == group.size == {"vcore": 1_500, "pods": 1}


def test_placeholder_needs_no_right_on_its_owner() -> None:
    """Where OwnerReferencesPermissionEnforcement is on, only who may update its finalizers may block its deletion."""
    (group,) = task_groups_of(pod("driver", annotations=defining([GROUP])))
    made = placeholder_pod("app", "", group, pod("driver"), "0123456789", "pause")
    assert not made["metadata"]["ownerReferences"][0].get("blockOwnerDeletion")


def test_placeholder_runs_as_the_chosen_user() -> None:
    (group,) = task_groups_of(pod("driver", annotations=defining([GROUP])))
    user = PlaceholderUser(1_000, None, 2_000)
    made = placeholder_pod("app", "", group, pod("driver"), "0123456789", "pause", user)
    context = made["spec"]["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"], context["fsGroup"]) == (True, 1_000, 2_000)
    assert "runAsGroup" not in context


def test_generated_application_of_a_long_namespace_is_a_label() -> None:
    """Cut behind a hyphen, it would be none, and the API server would refuse each pod of the namespace."""
    made = pod("p")
    of = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, namespace="n" * 53 + "-team"))
    assert LABEL_VALUE.fullmatch(application_of(of).name)


def test_labels_of_older_versions() -> None:
    """One has an effect with `compatibility: yunikorn-1.4`, and one is told to have none."""
    it = shim("n1")
    it.pod_changed(pod("p", app="app", labels={names.DISABLE_STATE_AWARE: "true", names.USERNAME_LABEL: "ann"}))
    effects = it.take()
    (submitted,) = [one.application for one in effects if isinstance(one, Submit)]
    assert (submitted.tags["application.stateaware.disable"], submitted.ugi.user) == ("true", names.NOBODY)
    assert [one.reason for one in effects if isinstance(one, RecordEvent) and one.is_warning] == ["LabelIgnored"]


@pytest.mark.parametrize(
    ("annotations", "labels", "deadline_s", "tags", "bound_s"),
    [
        ({}, {}, None, {}, 0),
        ({"remuda.io/max-runtime": "40m"}, {}, None, {"remuda/maxRuntime": "40m"}, 0),
        ({"remuda.io/expected-runtime": "soon", "remuda.io/run-name": "n"}, {}, None,
         {"remuda/expectedRuntime": "soon", "remuda/name": "n"}, 0),
        ({}, {}, 60, {}, 360),
        ({}, {"kueue.x-k8s.io/max-exec-time-seconds": "100"}, 60, {}, 100),
        ({}, {"kueue.x-k8s.io/max-exec-time-seconds": "1000"}, 60, {}, 360),
        ({}, {"kueue.x-k8s.io/max-exec-time-seconds": "-1"}, -5, {}, 0),
    ],
)  # fmt: skip
def test_run_times(
    annotations: dict[str, str], labels: dict[str, str], deadline_s: int | None, tags: dict[str, str], bound_s: int
) -> None:
    read = pod("p", annotations=annotations, labels=labels)
    spec = msgspec.structs.replace(read.spec, active_deadline_seconds=deadline_s)
    read = msgspec.structs.replace(read, spec=spec)
    assert pod_reading.run_times_of(read) == tags
    assert pod_reading.bound_ms_of(read) == 1_000 * bound_s


@pytest.mark.parametrize(
    ("annotation", "reported"), [("", "360000ms"), ("2m", "120000ms"), ("1h", "360000ms"), ("soon", "360000ms")]
)
def test_a_bound_pod_is_reported_with_its_bound(annotation: str, reported: str) -> None:
    """By a tag, as an allocation has no execution time-out."""
    it = shim("n1")
    annotations = {"remuda.io/max-runtime": annotation} if annotation else {}
    it.pod_changed(pod("p", app="app", node="n1", annotations=annotations, activeDeadlineSeconds=60))
    (told,) = [one.allocation for one in it.take() if isinstance(one, ReportAllocation)]
    assert told.allocationTags["remuda/maxRuntime"] == reported
