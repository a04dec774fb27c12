"""Selectors of labels and fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remuda_kubernetes.api.objects import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from remuda_kubernetes.api.storage import TopologyTerm

Labels = Mapping[str, str]
NOTHING: Labels = {}


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """None selects nothing; an empty selector selects everything."""
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
