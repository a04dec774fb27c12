"""Predicates that depend on the node alone: its name, cordon, taints and labels; and selectors of
labels and fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from remuda_kubernetes.api.objects import (
    LabelSelector,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
    TopologyTerm,
)

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
# The action of a container's restart rule, and the feature of the nodes that know it.
RESTART_ALL: Final = "RestartAllContainers"
RESTARTS_ALL: Final = "RestartAllContainersOnContainerExits"
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
    if missing := [name for name in features_of(spec) if name not in node.status.declared_features]:
        return f"node does not declare {', '.join(missing)}"
    return ""


def features_of(spec: PodSpec) -> list[str]:
    """The features that a node has to declare for the pod (NodeDeclaredFeatures, from 1.35)."""
    containers = (*spec.containers, *spec.init_containers)
    restarts_all = any(rule.action == RESTART_ALL for one in containers for rule in one.restart_policy_rules)
    return [RESTARTS_ALL] if restarts_all else []


def is_selected(spec: PodSpec, node: Node) -> bool:
    """Whether the node is selected by the pod's node selector and required node affinity."""
    labels = node.metadata.labels or NOTHING
    for key, value in (spec.node_selector or NOTHING).items():
        if labels.get(key) != value:
            return False
    required = spec.required_nodes
    return required is None or node_selected(required, node.metadata.name, labels)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):  # alpha
        return _compares(Requirement(toleration.key, toleration.operator, [toleration.value]), taint.value)
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


Labels = Mapping[str, str]
NOTHING: Labels = {}


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether the selector selects the labels. None selects nothing; an empty selector selects everything."""
    if selector is None:
        return False
    wanted = selector.match_labels or NOTHING
    return all(labels.get(key) == value for key, value in wanted.items()) and _all(selector.match_expressions, labels)


def node_selected(selector: NodeSelector, name: str, labels: Labels) -> bool:
    """Whether one of the terms selects the node."""
    return any(_term(term, name, labels) for term in selector.node_selector_terms)


def topology_selected(terms: Iterable[TopologyTerm], labels: Labels) -> bool:
    """Whether one of the terms has the values of these labels."""
    return any(all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in terms)


def _term(term: NodeSelectorTerm, name: str, labels: Labels) -> bool:
    """An empty term selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return _all(term.match_expressions, labels) and _all(term.match_fields, fields)


def _all(requirements: Iterable[Requirement], labels: Labels) -> bool:
    return all(_holds(one, labels) for one in requirements)


def _holds(requirement: Requirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement, value)
    return False


def _compares(requirement: Requirement, value: str) -> bool:
    if len(requirement.values) != 1:
        return False
    try:
        has, bound = int(value), int(requirement.values[0])
    except ValueError:
        return False
    return has > bound if requirement.operator == "Gt" else has < bound
