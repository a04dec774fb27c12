"""Predicates that depend on other pods: host ports, affinity between pods, and spread over domains. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from remuda_kubernetes.api.objects import (
    LabelSelector,
    Namespace,
    Node,
    Pod,
    PodAffinityTerm,
    Port,
    Requirement,
    SpreadConstraint,
)
from remuda_kubernetes.predicates import on_node
from remuda_kubernetes.predicates.selectors import NOTHING, selects

ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node. Its node is one that the API server has."""

    pod: Pod
    node: Node


# Host ports


def host_ports(pod: Pod) -> list[Port]:
    return [port for container in pod.spec.containers for port in container.ports if port.host_port]


def ports_refusal(pod: Pod, on_the_node: Iterable[Pod]) -> str:
    wanted = host_ports(pod)
    if wanted:
        for used in chain.from_iterable(host_ports(one) for one in on_the_node):
            for port in wanted:
                if _conflict(port, used):
                    return f"host port {port.host_port}/{port.protocol} is in use"
    return ""


def _conflict(one: Port, other: Port) -> bool:
    if (one.host_port, one.protocol) != (other.host_port, other.protocol):
        return False
    return one.host_ip == other.host_ip or one.host_ip in ANY_ADDRESS or other.host_ip in ANY_ADDRESS


# Affinity between pods


def terms(pod: Pod, *, anti: bool) -> list[PodAffinityTerm]:
    affinity = pod.spec.affinity
    between = None if affinity is None else affinity.pod_anti_affinity if anti else affinity.pod_affinity
    return [] if between is None else between.required


def term_matches(term: PodAffinityTerm, of: Pod, other: Pod, namespaces: dict[str, Namespace]) -> bool:
    """Whether the term of one pod means the other."""
    namespace = other.metadata.namespace
    if term.namespaces or term.namespace_selector is not None:
        known = namespaces.get(namespace)
        labels = (known.metadata.labels if known is not None else None) or NOTHING
        if namespace not in term.namespaces and not selects(term.namespace_selector, labels):
            return False
    elif namespace != of.metadata.namespace:
        return False
    return selects(term.label_selector, other.metadata.labels or NOTHING)


def affinity_refusal(pod: Pod, node: Node, placed: Iterable[Placed], namespaces: dict[str, Namespace]) -> str:
    """By required affinity and anti-affinity of the pod, and anti-affinity of the pods that are there."""
    labels = node.metadata.labels or NOTHING
    wanted, unwanted = terms(pod, anti=False), terms(pod, anti=True)
    near: Counter[tuple[str, str]] = Counter()
    for there in placed:
        of_there = there.node.metadata.labels or NOTHING
        for term in terms(there.pod, anti=True):
            key = term.topology_key
            is_near = key in of_there and of_there[key] == labels.get(key)
            if is_near and term_matches(term, there.pod, pod, namespaces):
                return f"pod {there.pod.key} there has an anti-affinity to this pod"
        for term in unwanted:
            key = term.topology_key
            is_near = key in of_there and of_there[key] == labels.get(key)
            if is_near and term_matches(term, pod, there.pod, namespaces):
                return f"this pod has an anti-affinity to pod {there.pod.key} there"
        if wanted and all(term_matches(term, pod, there.pod, namespaces) for term in wanted):
            near.update(
                (term.topology_key, of_there[term.topology_key]) for term in wanted if term.topology_key in of_there
            )
    if any(term.topology_key not in labels for term in wanted):
        return "node has no label for the pod's affinity"
    if all(near[term.topology_key, labels[term.topology_key]] for term in wanted):
        return ""
    # The first of pods that have an affinity to each other may start anywhere.
    if not near and all(term_matches(term, pod, pod, namespaces) for term in wanted):
        return ""
    return "no pod for which this pod has an affinity is there"


# Spread


def hard_constraints(pod: Pod) -> list[SpreadConstraint]:
    return [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"]


def spread_refusal(pod: Pod, node: Node, nodes: Iterable[Node], placed: Iterable[Placed]) -> str:
    """By topology spread constraints that are not only wishes."""
    constraints = hard_constraints(pod)
    if not constraints:
        return ""
    labels = node.metadata.labels or NOTHING
    for constraint in constraints:
        if constraint.topology_key not in labels:
            return f"node has no label {constraint.topology_key}, over which the pod is spread"
    keys = [one.topology_key for one in constraints]
    with_keys = [one for one in nodes if all(key in (one.metadata.labels or NOTHING) for key in keys)]
    there = [one for one in placed if _counts(one.pod, pod)]
    own = pod.metadata.labels or NOTHING
    for constraint in constraints:
        selector = _with_keys(constraint, pod)
        eligible = {one.metadata.name: one for one in with_keys if _is_eligible(pod, one, constraint)}
        domains = Counter({(one.metadata.labels or NOTHING)[constraint.topology_key]: 0 for one in eligible.values()})
        for one in there:
            if one.node.metadata.name in eligible and selects(selector, one.pod.metadata.labels or NOTHING):
                domains[(one.node.metadata.labels or NOTHING)[constraint.topology_key]] += 1
        least = min(domains.values(), default=0)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            least = 0
        more = 1 if selects(selector, own) else 0
        if domains and domains[labels[constraint.topology_key]] + more - least > constraint.max_skew:
            return (
                f"the pod would be spread over {constraint.topology_key} with more than {constraint.max_skew} of skew"
            )
    return ""


def _counts(there: Pod, pod: Pod) -> bool:
    return there.metadata.namespace == pod.metadata.namespace and there.metadata.deletion_timestamp is None


def _is_eligible(pod: Pod, node: Node, constraint: SpreadConstraint) -> bool:
    if constraint.node_affinity_policy != "Ignore" and not on_node.is_selected(pod.spec, node):
        return False
    if constraint.node_taints_policy == "Honor":
        taints = [taint for taint in node.spec.taints if taint.effect in on_node.KEEPS_AWAY]
        return all(on_node.tolerates(pod.spec.tolerations, taint) for taint in taints)
    return True


def _with_keys(constraint: SpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The selector, and the pod's own values of the labels that the constraint names."""
    selector = constraint.label_selector
    own = pod.metadata.labels or NOTHING
    added = [
        Requirement(key=key, operator="In", values=[own[key]]) for key in constraint.match_label_keys if key in own
    ]
    if selector is None or not added:
        return selector
    return LabelSelector(match_labels=selector.match_labels, match_expressions=[*selector.match_expressions, *added])
