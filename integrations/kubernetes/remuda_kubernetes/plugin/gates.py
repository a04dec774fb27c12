"""The patches that approve a gated pod. Pure.

They are JSON patches: the gates of other controllers stay, and nothing is written to another pod of the same name. As
long as a pod is gated, the API server accepts node affinity that narrows the choice (KEP 3838).
"""

from __future__ import annotations

from typing import Any, Final

from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.plugin.policy import Pin
from remuda_kubernetes.shim import names

Operation = dict[str, Any]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def gate_patch(pod: Pod, node: str, pin: Pin) -> list[Operation]:
    """Removes the gate, and pins the pod to the node if the pin is hard. Empty: the pod has no gate."""
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if names.GATE not in gates:
        return []
    at = f"/spec/schedulingGates/{gates.index(names.GATE)}"
    operations = [
        _operation("test", "/metadata/uid", pod.uid),
        _operation("test", f"{at}/name", names.GATE),
        {"op": "remove", "path": at},
    ]
    if pin is Pin.HARD:
        operations[1:1] = _affinity(pod, node)
    return operations


def _affinity(pod: Pod, node: str) -> list[Operation]:
    """One term for the node; or the node in each term that the pod has, because terms are alternatives."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod.spec.affinity
    if affinity is None:
        return [_operation("add", "/spec/affinity", {"nodeAffinity": _required(field)})]
    if affinity.node_affinity is None:
        return [_operation("add", "/spec/affinity/nodeAffinity", _required(field))]
    at = f"/spec/affinity/nodeAffinity/{_REQUIRED}"
    required = affinity.node_affinity.required
    if required is None:
        return [_operation("add", at, _required(field)[_REQUIRED])]
    # The terms are those of this version of the pod: another one is read again.
    operations = [_operation("test", "/metadata/resourceVersion", pod.metadata.resource_version)]
    for number, term in enumerate(required.node_selector_terms):
        fields = f"{at}/nodeSelectorTerms/{number}/matchFields"
        if term.match_fields:
            operations.append(_operation("add", f"{fields}/-", field))
        else:
            operations.append(_operation("add", fields, [field]))
    return operations


def _required(field: dict[str, Any]) -> dict[str, Any]:
    return {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def _operation(kind: str, path: str, value: Any) -> Operation:
    return {"op": kind, "path": path, "value": value}
