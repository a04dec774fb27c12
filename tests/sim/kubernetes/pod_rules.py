"""What an API server does with pods that are created, changed and bound, by its minor version: it drops fields that it
does not know, and refuses changes that it forbids. Pure."""

from __future__ import annotations

from typing import Any, Final

from remuda_kubernetes.api.client import error_of

Json = dict[str, Any]

GATES_SINCE: Final = 27
GENERATIONS_SINCE: Final = 33
NOMINATIONS_END_SINCE: Final = 35  # when the pod is bound
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
BOUND: Final = {"type": "PodScheduled", "status": "True"}


def created(pod: Json, minor: int) -> Json:
    """The pod as it is stored. Raises ApiError."""
    spec, status = dict(pod.get("spec", {})), {"phase": "Pending"}
    gates = spec.pop("schedulingGates", None)
    if gates and minor >= GATES_SINCE:
        if spec.get("nodeName"):
            raise error_of(422, "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared")
        spec["schedulingGates"] = gates
        status["conditions"] = [GATED]  # type: ignore[assignment]
    metadata = pod["metadata"] | ({"generation": 1} if minor >= GENERATIONS_SINCE else {})
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def changed(before: Json, after: Json, minor: int) -> Json:
    """The pod as it is stored after a change of the pod itself: its status stays. Raises ApiError."""
    spec = {**after["spec"]}
    if minor < GATES_SINCE:
        spec.pop("schedulingGates", None)
    old = before["spec"]
    gates, had = spec.get("schedulingGates", []), old.get("schedulingGates", [])
    if any(gate not in had for gate in gates):
        raise error_of(422, "spec.schedulingGates: Forbidden: only deletion is allowed")
    others = {key: value for key, value in spec.items() if key not in ("schedulingGates", "affinity")}
    if others != {key: value for key, value in old.items() if key not in ("schedulingGates", "affinity")}:
        raise error_of(422, "spec: Forbidden: pod updates may not change fields other than some")
    if spec.get("affinity") != old.get("affinity"):
        _check_affinity(old.get("affinity") or {}, spec.get("affinity") or {}, is_gated=bool(had))
    metadata = {**after["metadata"], "uid": before["metadata"]["uid"]}
    if spec != old and minor >= GENERATIONS_SINCE:
        metadata["generation"] = before["metadata"].get("generation", 1) + 1
    return {**after, "metadata": metadata, "spec": spec, "status": before.get("status", {})}


def _check_affinity(old: Json, new: Json, *, is_gated: bool) -> None:
    """Required terms may only become narrower, and only while the pod has a gate. Preferences may be any."""
    if not is_gated:
        raise error_of(422, "spec.affinity: Forbidden: pod updates may not change it")
    apart = [{key: value for key, value in one.items() if key != "nodeAffinity"} for one in (old, new)]
    if apart[0] != apart[1]:
        raise error_of(422, "spec.affinity: Forbidden: only nodeAffinity may change")
    had, has = (_terms(one) for one in (old, new))
    if not had:
        return
    if len(had) != len(has) or any(not _is_narrower(*pair) for pair in zip(had, has, strict=True)):
        raise error_of(422, "spec.affinity.nodeAffinity: Invalid value: only additions to terms are allowed")


def _terms(affinity: Json) -> list[Json]:
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms: list[Json] = required.get("nodeSelectorTerms", [])
    return terms


def _is_narrower(old: Json, new: Json) -> bool:
    return all(
        new.get(part, [])[: len(old.get(part, []))] == old.get(part, []) for part in ("matchExpressions", "matchFields")
    )


def bound(pod: Json, node: str, minor: int) -> tuple[Json, Json]:
    """Changes of spec and status of a pod that is bound. Raises ApiError: it may not be."""
    name = pod["metadata"]["name"]
    if there := pod["spec"].get("nodeName"):
        raise error_of(409, f'pod {name} is already assigned to node "{there}"')
    if pod["metadata"].get("deletionTimestamp"):
        raise error_of(409, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("schedulingGates"):
        raise error_of(409, f"pod {name} has non-empty .spec.schedulingGates")
    others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != BOUND["type"]]
    status: Json = {"conditions": [*others, BOUND]}
    if minor >= NOMINATIONS_END_SINCE and pod.get("status", {}).get("nominatedNodeName"):
        status["nominatedNodeName"] = ""
    return {"nodeName": node}, status
