"""Predicates that depend on the node alone: its name, cordon, taints and labels. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from remuda_kubernetes.api.objects import Node, PodSpec, Taint, Toleration
from remuda_kubernetes.predicates.selectors import NOTHING, node_selected

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")


def refusal(spec: PodSpec, node: Node) -> str:
    """Why a pod may not start on the node; empty: it may."""
    if node.spec.unschedulable and not tolerates(spec.tolerations, UNSCHEDULABLE):
        return "node is unschedulable"
    for taint in node.spec.taints:
        if taint.effect in KEEPS_AWAY and not tolerates(spec.tolerations, taint):
            return f"node has the taint {taint.key}={taint.value}:{taint.effect} that the pod does not tolerate"
    if not is_selected(spec, node):
        return "node does not match the pod's node selector or affinity"
    return ""


def is_selected(spec: PodSpec, node: Node) -> bool:
    """By the pod's node selector and required node affinity."""
    labels = node.metadata.labels or NOTHING
    for key, value in (spec.node_selector or NOTHING).items():
        if labels.get(key) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity is None or affinity.required is None or node_selected(affinity.required, node.metadata.name, labels)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
