"""The admission webhook: what it fills in, and what it refuses. Each refusal is a cell of the security table."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from integrations.kubernetes.tests import manifests
from integrations.kubernetes.tests.objects import annotated
from remuda_kubernetes.api.objects import Namespace, PriorityClass
from remuda_kubernetes.shim import names
from remuda_kubernetes.webhook.policy import WebhookPolicy
from remuda_kubernetes.webhook.review import Surroundings, answer, request_of

OWN = "system:serviceaccount:remuda:remuda"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
KUBELET = "system:node:n1"
ALICE = json.dumps({"user": "alice", "groups": ["dev"]}, separators=(",", ":"))
BOB = json.dumps({"user": "bob", "groups": []})
GATE = [{"name": names.GATE}]


def policy(**of: Any) -> WebhookPolicy:
    return WebhookPolicy(
        **{
            "scheduler_name": "remuda",
            "allowed_names": frozenset({"remuda", "yunikorn"}),
            "own_user": OWN,
            "own_namespace": "remuda",
        }
        | of
    )


PLUGIN: dict[str, Any] = {
    "scheduler_name": "default-scheduler",
    "allowed_names": frozenset({"remuda", "default-scheduler"}),
    "gates": True,
}


def plain(**of: Any) -> dict[str, Any]:
    return manifests.pod("p", **{"scheduler": "default-scheduler"} | of)


def info(text: str) -> dict[str, str]:
    return {names.USER_INFO: text}


def reviewed(
    thing: dict[str, Any],
    *,
    by: str = "alice",
    groups: tuple[str, ...] = ("dev",),
    before: dict[str, Any] | None = None,
    namespace: str = "team",
    classes: dict[str, PriorityClass] | None = None,
    annotations: dict[str, str] | None = None,
    **of: Any,
) -> Any:
    """The object after the patch, or the reason of the refusal."""
    request = {
        "uid": "u",
        "kind": {"kind": thing["kind"]},
        "operation": "UPDATE" if before is not None else "CREATE",
        "userInfo": {"username": by, "groups": list(groups)},
        "namespace": namespace,
        "object": thing,
        "oldObject": before,
    }
    around = Surroundings(namespace, annotated(Namespace, namespace, annotations or {}), classes or {}, "f00d")
    response = answer(request_of(json.dumps({"request": request}).encode()), policy(**of), around)["response"]
    if not response["allowed"]:
        return response["status"]["message"]
    changed = json.loads(json.dumps(thing))
    for operation in json.loads(base64.b64decode(response.get("patch", "")) or "[]"):
        *way, last = operation["path"].split("/")[1:]
        at = changed
        for part in way:
            at = at[part]
        at[last] = operation["value"]
    return changed


# Scheduler names, applications, preemption (admission_controller 1 to 6)


@pytest.mark.parametrize("named", ["", "default-scheduler", "another"])
def test_pod_of_a_managed_namespace_gets_the_scheduler_name(named: str) -> None:
    assert reviewed(plain(scheduler=named))["spec"]["schedulerName"] == "remuda"


def test_pod_may_name_an_accepted_scheduler() -> None:
    assert reviewed(plain(scheduler="yunikorn"))["spec"]["schedulerName"] == "yunikorn"


@pytest.mark.parametrize("namespace", ["kube-system", "remuda"])
def test_pod_of_another_namespace_keeps_its_scheduler(namespace: str) -> None:
    assert reviewed(plain(), namespace=namespace)["spec"]["schedulerName"] == "default-scheduler"


def test_annotation_of_a_namespace_counts_more_than_lists() -> None:
    taken = {names.ENABLE: "true"}
    assert reviewed(plain(), namespace="kube-system", annotations=taken)["spec"]["schedulerName"] == "remuda"
    left = {names.ENABLE: "false"}
    assert reviewed(plain(), annotations=left)["spec"]["schedulerName"] == "default-scheduler"


def test_pod_gets_an_application_if_it_has_none() -> None:
    assert reviewed(plain())["metadata"]["labels"] == {names.APPLICATION: "yunikorn-team-autogen"}
    unique = reviewed(plain(), unique_applications=True)
    assert unique["metadata"]["labels"] == {names.APPLICATION: "team-f00d"}
    assert reviewed(plain(app="mine"))["metadata"]["labels"] == {"applicationId": "mine"}
    assert names.APPLICATION not in reviewed(plain(), no_label=("^team$",))["metadata"]["labels"]


@pytest.mark.parametrize(
    "of",
    [
        {"labels": {names.KUEUE_GROUP: "g"}}, {"annotations": {names.VOLCANO_GROUP: "g"}},
        {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    ],
)  # fmt: skip
def test_pod_of_a_group_of_others_has_the_application_of_the_group(of: dict[str, Any]) -> None:
    grouped = plain()
    grouped["metadata"] |= {key: value for key, value in of.items() if key != "spec"}
    grouped["spec"] |= of.get("spec", {})
    made = reviewed(grouped, **PLUGIN)
    assert names.APPLICATION not in (made["metadata"].get("labels") or {})
    assert made["spec"]["schedulingGates"] == GATE


def test_generated_application_of_a_long_namespace_is_a_label() -> None:
    """Cut behind a hyphen, it would be none, and the API server would refuse each pod of the namespace."""
    made = reviewed(plain(), namespace="n" * 53 + "-team")
    assert made["metadata"]["labels"][names.APPLICATION] == "yunikorn-" + "n" * 53


@pytest.mark.parametrize(("said", "expected"), [("false", "false"), ("true", "true"), ("", "true")])
def test_priority_class_decides_who_may_be_preempted(said: str, expected: str) -> None:
    classes = {"c": annotated(PriorityClass, "c", {names.ALLOW_PREEMPTION: said} if said else {})}
    made = reviewed(plain(priorityClassName="c"), classes=classes)
    assert made["metadata"]["annotations"][names.ALLOW_PREEMPTION] == expected


# Plugin mode


def test_pod_with_an_application_is_gated() -> None:
    made = reviewed(plain(schedulingGates=[{"name": "other"}]), **PLUGIN)
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["schedulingGates"] == [{"name": "other"}, *GATE]


def test_pod_that_bypasses_queues_is_not_gated() -> None:
    made = reviewed(plain(annotations={names.IGNORE_APPLICATION: "true"}), **PLUGIN)
    assert "schedulingGates" not in made["spec"]
    assert "schedulingGates" not in reviewed(plain(), label=("^none$",), **PLUGIN)["spec"]


# Users (admission_controller 10 to 19)


def test_user_is_that_of_the_request() -> None:
    assert reviewed(plain())["metadata"]["annotations"][names.USER_INFO] == ALICE
    assert reviewed(plain(annotations=info(ALICE)))["metadata"]["annotations"][names.USER_INFO] == ALICE


@pytest.mark.parametrize("namespace", ["team", "kube-system"])
def test_another_user_cannot_be_named(namespace: str) -> None:
    assert "may not set" in reviewed(plain(annotations=info(BOB)), namespace=namespace)


def test_groups_cannot_be_added() -> None:
    more = json.dumps({"user": "alice", "groups": ["dev", "admins"]})
    assert "may not set" in reviewed(plain(annotations=info(more)))


@pytest.mark.parametrize(
    "of",
    [
        {"external_users": ("^alice$",)},
        {"external_groups": ("^dev$",)},
        {"bypass_auth": True},
    ],
)
def test_trusted_users_may_name_others(of: dict[str, Any]) -> None:
    assert reviewed(plain(annotations=info(BOB)), **of)["metadata"]["annotations"][names.USER_INFO] == BOB


def test_controllers_are_trusted_unless_told_otherwise() -> None:
    pod = plain(annotations=info(ALICE))
    assert reviewed(pod, by=CONTROLLER)["metadata"]["annotations"][names.USER_INFO] == ALICE
    assert "may not set" in reviewed(pod, by=CONTROLLER, trust_controllers=False)


@pytest.mark.parametrize("bob", [{"user": "bob", "groups": None}, {"User": "bob", "Groups": ["dev"]}])
def test_user_as_go_writes_it(bob: dict[str, Any]) -> None:
    text = json.dumps(bob)
    made = reviewed(plain(annotations=info(text)), external_users=("^alice$",))
    assert made["metadata"]["annotations"][names.USER_INFO] == text


@pytest.mark.parametrize("text", ["alice", "{}", '{"user": ""}', '{"user": 1}', "[" * 5_000])
def test_malformed_user_is_refused_even_from_the_trusted(text: str) -> None:
    assert names.USER_INFO in reviewed(plain(annotations=info(text)), external_users=("^alice$",))


def test_user_of_a_pod_cannot_be_changed() -> None:
    before = plain(annotations=info(ALICE))
    assert "cannot be changed" in reviewed(plain(annotations=info(BOB)), before=before)
    assert "cannot be changed" in reviewed(plain(), before=before)
    assert reviewed(before, before=before) == before


KINDS = {
    "Deployment": ("spec", "template"), "StatefulSet": ("spec", "template"), "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"), "ReplicationController": ("spec", "template"), "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}  # fmt: skip


def workload(kind: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    for part in reversed(KINDS[kind]):
        made = {part: made}
    return {"kind": kind, "metadata": {"name": "w"}} | made


def template(thing: Any, kind: str) -> Any:
    for part in KINDS[kind]:
        thing = thing[part]
    return thing["metadata"]["annotations"][names.USER_INFO]


@pytest.mark.parametrize("kind", KINDS)
def test_user_goes_into_the_template_of_each_workload(kind: str) -> None:
    assert template(reviewed(workload(kind)), kind) == ALICE
    assert "may not set" in reviewed(workload(kind, info(BOB)))


@pytest.mark.parametrize("kind", KINDS)
def test_template_cannot_be_changed_to_another_user(kind: str) -> None:
    """Its controller is trusted, and would make pods of that user."""
    before = workload(kind, info(ALICE))
    assert "may not set" in reviewed(workload(kind, info(BOB)), before=before)
    assert template(reviewed(workload(kind), before=before), kind) == ALICE  # nor dropped
    assert reviewed(before, before=before, by="carol") == before  # others may scale it


def test_workload_of_a_controller_is_left_alone() -> None:
    made = workload("ReplicaSet")
    assert reviewed(made, by=CONTROLLER) == made


# What only the front end may do


@pytest.mark.parametrize("key", [names.PLACEHOLDER, names.PLACEHOLDER_LEGACY])
def test_placeholders_are_made_by_the_front_end(key: str) -> None:
    pod = plain(annotations={key: "true"})
    assert "may set" in reviewed(pod)
    assert "may set" in reviewed(pod, by=CONTROLLER)
    assert "may set" in reviewed(pod | {"metadata": pod["metadata"] | {"annotations": {key: "true"}}}, before=plain())
    assert reviewed(plain(annotations={key: "true"} | info(ALICE)), by=OWN)["metadata"]["annotations"][key] == "true"


def test_gate_is_removed_by_the_front_end() -> None:
    before = plain(schedulingGates=GATE)
    assert "may remove" in reviewed(plain(), before=before)
    assert "may remove" in reviewed(plain(), before=before, by=CONTROLLER)
    assert reviewed(plain(), before=before, by=OWN) == plain()


def test_node_is_not_chosen_past_the_queue() -> None:
    pod = plain(nodeName="n1")
    assert "nodeName" in reviewed(pod)
    assert reviewed(pod, by=KUBELET, groups=("system:nodes",))["spec"]["nodeName"] == "n1"
    assert reviewed(pod, namespace="kube-system")["spec"]["nodeName"] == "n1"


# Reviews


def test_subresource_is_not_looked_at() -> None:
    body = {"uid": "u", "kind": {"kind": "Pod"}, "operation": "UPDATE", "userInfo": {}, "subResource": "status"}
    request = request_of(json.dumps({"request": body | {"object": plain(), "oldObject": plain()}}).encode())
    around = Surroundings("team", None, {}, "")
    assert answer(request, policy(), around)["response"] == {"uid": "u", "allowed": True}


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 5_000, b'{"request": {"uid": 1}}'])
def test_malformed_review_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        request_of(content)
