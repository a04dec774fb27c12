"""Pods and nodes that would end the process, and with it scheduling for the whole cluster."""

from __future__ import annotations

import json

import msgspec
import pytest

from integrations.kubernetes.tests.objects import node, pod
from integrations.kubernetes.tests.reporting_shim import shim
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.effects import Ask, CreatePlaceholder, RecordEvent, ReportAllocation, ReportNode, Submit
from remuda_kubernetes.shim.pod_reading import application_of
from remuda_kubernetes.shim.task_groups import task_groups_of
from remuda_proto.bounds import INT64, TAGS, problem_of_map
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.requests import RequestEncoder

MESSAGE_BYTES = 1_000_000
GROUP = {"name": "g", "minMember": 1, "minResource": {"cpu": "1"}}
DEEP = '{"a":' * 20_000 + "1" + "}" * 20_000


def containers(*memory: str) -> list[dict[str, object]]:
    return [{"name": f"c{n}", "resources": {"requests": {"memory": one}}} for n, one in enumerate(memory)]


def test_sum_above_the_largest_amount_saturates() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", containers=containers("8E", "8E")))
    asked = next(effect.ask for effect in it.take() if isinstance(effect, Ask))
    assert asked.resourceAsk.resources["memory"].value == INT64[1]


def test_pods_of_other_schedulers_above_the_largest_amount_saturate() -> None:
    it = shim("n1")
    for name in ("p", "q"):
        it.pod_changed(pod(name, scheduler="another", node="n1", memory="7E"))
    reported = next(effect.node for effect in it.take() if isinstance(effect, ReportNode))
    assert reported.occupiedResource.resources["memory"].value == INT64[1]


def test_node_with_a_wrong_amount_is_reported_by_an_event() -> None:
    it = shim()
    it.node_changed(node("n1", cpu="9E"))
    it.node_changed(node("n2"))
    effects = it.take()
    assert [one.note for one in effects if isinstance(one, RecordEvent) and one.reason == "NodeRejected"]
    reported = {one.node.nodeID: one.node for one in effects if isinstance(one, ReportNode)}
    assert reported["n2"].schedulableResource.resources["vcore"].value == 4_000
    assert not reported["n1"].schedulableResource.resources


@pytest.mark.parametrize(
    "annotations",
    [
        {names.TASK_GROUPS: json.dumps([GROUP])[:-2] + f', "affinity": {DEEP}}}]'},
        {names.TASK_GROUPS: json.dumps([GROUP]), names.POLICY_PARAMETERS: "placeholderTimeoutInSeconds=" + "9" * 5_000},
        {names.USER_INFO: f'{{"user": "alice", "more": {DEEP}}}'},
    ],
    ids=["deep task groups", "long timeout", "deep user"],
)
def test_annotation_of_a_pod_does_not_end_the_process(annotations: dict[str, str]) -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", annotations=annotations))
    assert any(isinstance(effect, Submit) for effect in it.take())


def test_members_of_all_groups_of_a_gang_have_a_bound() -> None:
    groups = [GROUP | {"name": f"g{number}", "minMember": 5_001} for number in range(2)]
    with pytest.raises(ValueError, match="10002 members in all: expected at most 10000"):
        task_groups_of(pod("p", annotations={names.TASK_GROUPS: json.dumps(groups)}))


def test_text_of_a_quantity_has_a_bound() -> None:
    with pytest.raises(ValueError, match="quantity"):
        task_groups_of(
            pod("p", annotations={names.TASK_GROUPS: json.dumps([GROUP | {"minResource": {"cpu": "0" * 10_000}}])})
        )


def with_many_labels(name: str, on: str = "") -> Pod:
    return pod(name, app="app", node=on, labels={f"label-{number:05}": "x" * 63 for number in range(20_000)})


def test_labels_above_the_bound_of_tags_are_left_out() -> None:
    it = shim("n1")
    it.pod_changed(with_many_labels("p"))
    asked = next(effect.ask for effect in it.take() if isinstance(effect, Ask))
    assert problem_of_map("tags", asked.tags, TAGS) is None
    assert asked.tags["kubernetes.io/meta/podName"] == "p"


def test_pull_secrets_have_a_bound() -> None:
    it = shim("n1")
    it.pod_changed(pod("p", app="app", imagePullSecrets=[{"name": f"secret-{n}-{'x' * 200}"} for n in range(5_000)]))
    submitted = next(effect.application for effect in it.take() if isinstance(effect, Submit))
    assert problem_of_map("tags", submitted.tags, TAGS) is None


def test_node_with_many_large_pods_fits_into_messages() -> None:
    it = shim()
    for number in range(30):
        it.pod_changed(with_many_labels(f"p{number}", "n1"))
    it.node_changed(node("n1"))
    effects = it.take()
    reported = [effect.node for effect in effects if isinstance(effect, ReportNode)]
    after = [effect.allocation for effect in effects if isinstance(effect, ReportAllocation)]
    encoder = RequestEncoder("rm-1")
    assert all(len(part) <= MESSAGE_BYTES for part in encoder.nodes(reported, MESSAGE_BYTES))
    keys = [one.allocationKey for one in (*reported[0].existingAllocations, *after)]
    assert sorted(keys) == sorted(f"uid-p{number}" for number in range(30))


def in_namespace(namespace: str, name: str, created: str, annotations: dict[str, str] | None = None) -> Pod:
    made = pod(name, app="app" if name != "p" else "", cpu="1", created=created, annotations=annotations)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, namespace=namespace))


def test_pod_does_not_join_an_application_of_another_namespace() -> None:
    it = shim("n1")
    it.pod_changed(in_namespace("victim", "v", "2026-01-02T00:00:00Z"))
    gang = {names.TASK_GROUPS: json.dumps([GROUP]), names.QUEUE: "root.other"}
    it.pod_changed(in_namespace("other", "o", "2026-01-01T00:00:00Z", gang))
    ids = ["victim.app", "other.app"]
    it.application(
        si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID=application) for application in ids])
    )
    effects = it.take()
    submitted = [effect.application for effect in effects if isinstance(effect, Submit)]
    assert [(one.applicationID, one.queueName) for one in submitted] == [
        ("victim.app", ""),
        ("other.app", "root.other"),
    ]
    assert [effect.ask.applicationID for effect in effects if isinstance(effect, Ask)] == ["victim.app"]
    created = [effect.manifest["metadata"] for effect in effects if isinstance(effect, CreatePlaceholder)]
    assert [(one["namespace"], one["labels"][names.APPLICATION]) for one in created] == [("other", "app")]


def test_generated_applications_of_long_namespaces_are_two() -> None:
    """Their names are cut to the same one."""
    both = [application_of(in_namespace("n" * 62 + end, "p", "")) for end in "ab"]
    assert both[0].id != both[1].id
