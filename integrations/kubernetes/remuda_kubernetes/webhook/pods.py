"""Admission of pods and of workloads that make pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from remuda_kubernetes.api.objects import Namespace, PriorityClass
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.pod_reading import generated_application
from remuda_kubernetes.webhook.policy import FALSE, TRUE, Caller, WebhookPolicy
from remuda_kubernetes.webhook.user_info import Denied, Json, annotations_of, filled_in, template_of

Operation = dict[str, Any]

# Only the front end sets them: a placeholder is replaced by another pod and counts as reserved.
RESERVED: Final = (names.PLACEHOLDER, names.PLACEHOLDER_LEGACY)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What admission depends on besides the object. `unique`: makes the name of an application its own."""

    namespace_name: str
    namespace: Namespace | None
    priority_classes: dict[str, PriorityClass]
    unique: str


def admit_new_pod(pod: Json, caller: Caller, policy: WebhookPolicy, around: Surroundings) -> list[Operation]:
    """The patch of a pod that is created. Raises Denied."""
    annotations, labels = dict(annotations_of(pod)), dict(pod["metadata"].get("labels") or {})
    info = filled_in(pod, None, caller, policy)
    if info is not None:
        annotations[names.USER_INFO] = info
    _check_reserved(annotations, {}, caller, policy)
    spec: Json = pod["spec"]
    changes: list[Operation] = []
    if policy.manages(around.namespace_name, around.namespace):
        if spec.get("nodeName") and not policy.may_choose_nodes(caller):
            raise Denied("spec.nodeName: a pod of a managed namespace cannot be placed past its queue")
        if spec.get("schedulerName", "") not in policy.allowed_names:
            changes.append(_set("/spec/schedulerName", policy.scheduler_name))
        if not _has_application(labels, annotations) and policy.labels(around.namespace_name, around.namespace):
            own = around.unique if policy.unique_applications else ""
            labels[names.APPLICATION] = generated_application(around.namespace_name, own)
        annotations.setdefault(names.ALLOW_PREEMPTION, _may_be_preempted(spec, around))
        if policy.gates and _is_held(labels, annotations) and not spec.get("nodeName"):
            changes += _gate(spec)
    if labels != (pod["metadata"].get("labels") or {}):
        changes.append(_set("/metadata/labels", labels))
    if annotations != annotations_of(pod):
        changes.append(_set("/metadata/annotations", annotations))
    return changes


def admit_changed_pod(pod: Json, before: Json, caller: Caller, policy: WebhookPolicy) -> list[Operation]:
    """Raises Denied."""
    if policy.is_own(caller):
        return []
    given, former = annotations_of(pod), annotations_of(before)
    if given.get(names.USER_INFO) != former.get(names.USER_INFO):
        raise Denied(f"the annotation {names.USER_INFO} of a pod cannot be changed")
    _check_reserved(given, former, caller, policy)
    if _has_gate(before["spec"]) and not _has_gate(pod["spec"]):
        raise Denied(f"only {policy.own_user} may remove the scheduling gate {names.GATE}")
    return []


def admit_workload(workload: Json, before: Json | None, caller: Caller, policy: WebhookPolicy) -> list[Operation]:
    """The patch of the pod template of a workload. That of a controller's own is left alone: its maker would see a
    difference and make another one. Raises Denied."""
    if policy.is_system(caller) and policy.trust_controllers:
        return []
    path, template = template_of(workload)
    info = filled_in(template, template_of(before)[1] if before is not None else None, caller, policy)
    if info is None:
        return []
    changes = [] if template.get("metadata") else [_set(f"{path}/metadata", {})]
    return [*changes, _set(f"{path}/metadata/annotations", {**annotations_of(template), names.USER_INFO: info})]


def _check_reserved(given: dict[str, str], former: dict[str, str], caller: Caller, policy: WebhookPolicy) -> None:
    for key in RESERVED:
        if given.get(key) != former.get(key) and not policy.is_own(caller):
            raise Denied(f"only {policy.own_user} may set the annotation {key}")


def _has_application(labels: dict[str, str], annotations: dict[str, str]) -> bool:
    given = (labels.get(names.APPLICATION), annotations.get(names.APPLICATION))
    return any(given) or any(labels.get(key) for key in names.APPLICATION_LABELS)


def _is_held(labels: dict[str, str], annotations: dict[str, str]) -> bool:
    return _has_application(labels, annotations) and annotations.get(names.IGNORE_APPLICATION) != TRUE


def _may_be_preempted(spec: Json, around: Surroundings) -> str:
    """By the annotation of the priority class, else yes."""
    found = around.priority_classes.get(spec.get("priorityClassName", ""))
    said = found.metadata.annotation(names.ALLOW_PREEMPTION) if found is not None else ""
    return FALSE if said.lower() == FALSE else TRUE


def _has_gate(spec: Json) -> bool:
    return any(gate.get("name") == names.GATE for gate in spec.get("schedulingGates") or ())


def _gate(spec: Json) -> list[Operation]:
    if _has_gate(spec):
        return []
    return [_set("/spec/schedulingGates", [*(spec.get("schedulingGates") or ()), {"name": names.GATE}])]


def _set(path: str, value: Any) -> Operation:
    """Adds, or replaces what is there (RFC 6902, 4.1)."""
    return {"op": "add", "path": path, "value": value}
