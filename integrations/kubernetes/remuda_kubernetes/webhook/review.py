"""Reviews of the API server (admission.k8s.io/v1): which rule decides, and the answer. Rules are about
pods and workloads that make pods, the annotation that names a pod's user, and ConfigMaps of the configuration. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from remuda_kubernetes.api.objects import ConfigMap, Namespace, PriorityClass
from remuda_kubernetes.shim import go_json, names
from remuda_kubernetes.shim.config_maps import POLICY_GROUP, configuration_of, values_of
from remuda_kubernetes.shim.pod_reading import generated_application, names_group
from remuda_kubernetes.webhook.policy import FALSE, TRUE, Caller, WebhookPolicy

CREATE: Final = "CREATE"


class _Kind(msgspec.Struct):
    kind: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    groups: list[str] | None = None


class Request(msgspec.Struct, rename="camel"):
    """The request of a review. `resource.subResource` is empty for the object itself."""

    uid: str
    kind: _Kind
    operation: str
    user_info: _UserInfo
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None

    @property
    def caller(self) -> Caller:
        return Caller(self.user_info.username, tuple(self.user_info.groups or ()))


class _Review(msgspec.Struct):
    request: Request


_REVIEWS: Final = msgspec.json.Decoder(_Review)


def request_of(content: bytes) -> Request:
    """The request of a review. Raises ValueError for a review that is not understood."""
    try:
        return _REVIEWS.decode(content).request
    except RecursionError as error:
        raise ValueError(str(error)) from None


def decide(request: Request, policy: WebhookPolicy, around: Surroundings) -> list[Operation]:
    """The patch of an object. Raises Denied."""
    if request.object is None or request.sub_resource:
        return []
    is_new = request.operation == CREATE
    if request.kind.kind == "Pod" and is_new:
        return admit_new_pod(request.object, request.caller, policy, around)
    if request.kind.kind == "Pod" and request.old_object is not None:
        return admit_changed_pod(request.object, request.old_object, request.caller, policy)
    if request.kind.kind in TEMPLATES:
        return admit_workload(request.object, None if is_new else request.old_object, request.caller, policy)
    return []


def answer(request: Request, policy: WebhookPolicy, around: Surroundings) -> dict[str, Any]:
    """The AdmissionReview to send back."""
    try:
        operations = decide(request, policy, around)
    except Denied as denied:
        return refused(request.uid, str(denied))
    return allowed(request.uid, operations)


def allowed(uid: str, operations: list[Operation] | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(operations).encode()).decode()
    return _review(response)


def refused(uid: str, reason: str) -> dict[str, Any]:
    return _review({"uid": uid, "allowed": False, "status": {"code": 403, "message": reason}})


def _review(response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


Operation = dict[str, Any]

# Only the front end sets them: a placeholder is replaced by another pod and counts as reserved.
RESERVED: Final = (names.PLACEHOLDER, names.PLACEHOLDER_LEGACY)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The inputs of admission besides the object. `unique`: a part that makes the name of an application unique."""

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
        has_application = _has_application(labels, annotations) or names_group(labels, annotations, spec)
        if not has_application and policy.labels(around.namespace_name, around.namespace):
            own = around.unique if policy.unique_applications else ""
            labels[names.APPLICATION] = generated_application(around.namespace_name, own)
        annotations.setdefault(names.ALLOW_PREEMPTION, _may_be_preempted(spec, around))
        has_application = has_application or _has_application(labels, annotations)
        is_held = has_application and annotations.get(names.IGNORE_APPLICATION) != TRUE
        if policy.gates and is_held and not spec.get("nodeName"):
            changes += _gate(spec)
    if labels != (pod["metadata"].get("labels") or {}):
        changes.append(_set("/metadata/labels", labels))
    if annotations != annotations_of(pod):
        changes.append(_set("/metadata/annotations", annotations))
    return changes


def admit_changed_pod(pod: Json, before: Json, caller: Caller, policy: WebhookPolicy) -> list[Operation]:
    """Admit a change of a pod. Raises Denied."""
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


Json = dict[str, Any]

# The pod template of each kind: where its metadata is.
TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


class Denied(Exception):
    """A request is refused, and why."""


class _StatedUser(msgspec.Struct, forbid_unknown_fields=True):
    user: str = ""
    groups: tuple[str, ...] = ()


_USER_INFO: Final = go_json.names_of(_StatedUser)


def annotations_of(thing: Json) -> dict[str, str]:
    return (thing.get("metadata") or {}).get("annotations") or {}


def filled_in(thing: Json, before: Json | None, caller: Caller, policy: WebhookPolicy) -> str | None:
    """The annotation that a pod or a template has to get; None: it stays. `before`: what an update changes. Raises
    Denied."""
    given = annotations_of(thing).get(names.USER_INFO)
    former = annotations_of(before).get(names.USER_INFO) if before is not None else None
    own = json.dumps({"user": caller.user, "groups": list(caller.groups)}, separators=(",", ":"))
    if given is not None and given not in (former, own):
        if not policy.may_name_users(caller):
            raise Denied(f"{caller.user} may not set the annotation {names.USER_INFO}")
        _check(given)
        return None
    if given is None and former is not None:
        return former
    if given is None and before is None:
        return own
    return None


def _check(text: str) -> None:
    try:
        info = go_json.decode(text, _StatedUser, _USER_INFO)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Denied(f"{names.USER_INFO}: expected JSON with user and groups ({error})") from None
    if not info.user:
        raise Denied(f"{names.USER_INFO}: expected a user")


def template_of(workload: Json) -> tuple[str, Json]:
    """The path and the value of the pod template of a workload."""
    way = TEMPLATES[workload["kind"]]
    at = workload
    for part in way:
        at = at.get(part) or {}
    return "/" + "/".join(way), at


MAPS: Final = ("yunikorn-defaults", "yunikorn-configs", "remuda-configs")
_KNOWN: Final = (
    "service.", "log.", "event.", "health.", "kubernetes.", "admissionController.", "timing.", "compatibility",
)  # fmt: skip


def queues_of(map_: Json, below: Sequence[ConfigMap] = (), above: Sequence[ConfigMap] = ()) -> str:
    """The text of the queues that the front end would read because of the map; empty: none. `below`, `above`: the other
    maps, in their order. Raises Denied when the front end would reject the map, and when it has only keys without a
    meaning."""
    try:
        values = values_of(msgspec.convert(map_, ConfigMap))
        configuration = configuration_of([*_readable(below), values, *_readable(above)])
    except ValueError as error:
        raise Denied(str(error)) from None
    name = f"{configuration.extra.get(POLICY_GROUP) or 'queues'}.yaml"
    if name in values:
        return values[name]  # also if a map above it has another text: that may be deleted
    if values and not any(key.startswith(_KNOWN) for key in values):
        raise Denied(f"expected the key {name}, found {', '.join(sorted(values))}")
    return configuration.text if POLICY_GROUP in values else ""


def _readable(maps: Sequence[ConfigMap]) -> list[dict[str, str]]:
    """A map that cannot be read is not the fault of the one that is checked."""
    found: list[dict[str, str]] = []
    for one in maps:
        with suppress(ValueError):
            found.append(values_of(one))
    return found
