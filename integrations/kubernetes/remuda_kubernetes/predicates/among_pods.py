"""Predicates that depend on other pods: host ports, affinity between pods, and spread over domains. Pure.

The demands of a pod on others are worked out once, for any number of nodes. The pods on nodes are kept in groups of
pods that are alike to predicates: of one template, most of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import msgspec

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
from remuda_kubernetes.predicates.on_node import NOTHING, Labels, selects

ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on
Domain = tuple[str, str]  # topology key, value
LabelsOf = Callable[[str], Labels | None]  # of a node; None: there is no such node


# Host ports


def host_ports(pod: Pod) -> list[Port]:
    """The host ports of the containers and of the side-cars, which run beside them. Other init containers have ended by
    then."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    return [port for container in chain(pod.spec.containers, sidecars) for port in container.ports if port.host_port]


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


def affinity_of(pod: Pod) -> list[PodAffinityTerm]:
    affinity = pod.spec.affinity
    return affinity.pod_affinity.required if affinity is not None and affinity.pod_affinity is not None else []


def term_matches(
    term: PodAffinityTerm, of_namespace: str, namespace: str, labels: Labels, namespaces: Mapping[str, Namespace]
) -> bool:
    """Whether the term of a pod of `of_namespace` means pods of `namespace` with these labels."""
    if term.namespaces or term.namespace_selector is not None:
        known = namespaces.get(namespace)
        of_known = (known.metadata.labels if known is not None else None) or NOTHING
        if namespace not in term.namespaces and not selects(term.namespace_selector, of_known):
            return False
    elif namespace != of_namespace:
        return False
    return selects(term.label_selector, labels)


class AntiAffinityOfOthers:
    """The domains that pods there keep a pod away from, by their own anti-affinity."""

    def __init__(
        self,
        pod: Pod,
        groups: PodGroups,
        labels_of: LabelsOf,
        namespaces: Mapping[str, Namespace],
        without: Collection[str] = (),
    ) -> None:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or NOTHING
        self._kept_away: set[Domain] = set()
        self._keys: set[str] = set()
        for group in groups.with_anti_affinity(without):
            for term in group.anti_affinity:
                if term_matches(term, group.namespace, namespace, labels, namespaces):
                    self._kept_away |= _domains(group.nodes, term.topology_key, labels_of)
                    self._keys.add(term.topology_key)

    def refusal(self, labels: Labels) -> str:
        """`labels`: of the node."""
        if any((key, labels[key]) in self._kept_away for key in self._keys if key in labels):
            return "a pod there has an anti-affinity to this pod"
        return ""


def _domains(nodes: Iterable[str], key: str, labels_of: LabelsOf) -> set[Domain]:
    return {(key, labels[key]) for name in nodes if (labels := labels_of(name)) is not None and key in labels}


class OwnAffinity:
    """Required affinity and anti-affinity of a pod."""

    def __init__(
        self,
        pod: Pod,
        groups: PodGroups,
        labels_of: LabelsOf,
        namespaces: Mapping[str, Namespace],
        without: Collection[str] = (),
    ) -> None:
        namespace = pod.metadata.namespace
        self._wanted, unwanted = affinity_of(pod), anti_affinity_of(pod)
        self._unwanted_keys = {term.topology_key for term in unwanted}
        self._near: set[Domain] = set()
        self._unwanted: set[Domain] = set()
        for group in groups.all(without) if self._wanted or unwanted else ():
            for term in unwanted:
                if term_matches(term, namespace, group.namespace, group.labels, namespaces):
                    self._unwanted |= _domains(group.nodes, term.topology_key, labels_of)
            if self._wanted and self._all_match(namespace, group.namespace, group.labels, namespaces):
                for term in self._wanted:
                    self._near |= _domains(group.nodes, term.topology_key, labels_of)
        # The first of pods that have an affinity to each other may start anywhere.
        own = pod.metadata.labels or NOTHING
        self._is_first = not self._near and self._all_match(namespace, namespace, own, namespaces)

    def _all_match(
        self, of_namespace: str, namespace: str, labels: Labels, namespaces: Mapping[str, Namespace]
    ) -> bool:
        return all(term_matches(term, of_namespace, namespace, labels, namespaces) for term in self._wanted)

    def refusal(self, labels: Labels) -> str:
        """`labels`: of the node."""
        if any((key, labels[key]) in self._unwanted for key in self._unwanted_keys if key in labels):
            return "this pod has an anti-affinity to a pod there"
        if any(term.topology_key not in labels for term in self._wanted):
            return "node has no label for the pod's affinity"
        if all((term.topology_key, labels[term.topology_key]) in self._near for term in self._wanted):
            return ""
        return "" if self._is_first else "no pod for which this pod has an affinity is there"


# Spread


def hard_constraints(pod: Pod) -> list[SpreadConstraint]:
    return [one for one in pod.spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule"]


@dataclass(frozen=True, slots=True)
class Eligible:
    """The nodes over which a constraint spreads, and the domain of each. They depend on nodes alone."""

    domain_of: dict[str, str]
    domains: frozenset[str]


def eligible_nodes(pod: Pod, nodes: Iterable[Node]) -> list[Eligible]:
    """The nodes that count for each hard constraint of the pod."""
    constraints = hard_constraints(pod)
    keys = [one.topology_key for one in constraints]
    with_keys = [one for one in nodes if all(key in (one.metadata.labels or NOTHING) for key in keys)]
    found = []
    for constraint in constraints:
        key = constraint.topology_key
        domain_of = {
            one.metadata.name: (one.metadata.labels or NOTHING)[key]
            for one in with_keys
            if _is_eligible(pod, one, constraint)
        }
        found.append(Eligible(domain_of, frozenset(domain_of.values())))
    return found


class Spread:
    """Topology spread constraints of a pod that are not only wishes."""

    def __init__(
        self, pod: Pod, groups: PodGroups, eligible: Iterable[Eligible], without: Collection[str] = ()
    ) -> None:
        own = pod.metadata.labels or NOTHING
        of_namespace = [
            group for group in groups.all(without) if group.namespace == pod.metadata.namespace and not group.is_leaving
        ]
        self._constraints: list[tuple[SpreadConstraint, Counter[str], int]] = []  # with the most in a domain
        for constraint, nodes in zip(hard_constraints(pod), eligible, strict=True):
            selector = _with_keys(constraint, pod)
            domains = Counter(dict.fromkeys(nodes.domains, 0))
            for group in of_namespace:
                if selects(selector, group.labels):
                    for name, count in group.nodes.items():
                        domain = nodes.domain_of.get(name)
                        if domain is not None:
                            domains[domain] += count
            least = min(domains.values(), default=0)
            if constraint.min_domains is not None and len(domains) < constraint.min_domains:
                least = 0
            more = 1 if selects(selector, own) else 0
            self._constraints.append((constraint, domains, constraint.max_skew + least - more))

    def refusal(self, labels: Labels) -> str:
        """`labels`: of the node."""
        for constraint, _, _ in self._constraints:
            if constraint.topology_key not in labels:
                return f"node has no label {constraint.topology_key}, over which the pod is spread"
        for constraint, domains, most in self._constraints:
            key = constraint.topology_key
            if domains and domains[labels[key]] > most:
                return f"the pod would be spread over {key} with more than {constraint.max_skew} of skew"
        return ""


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


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True)
class PodGroup:
    """Pods of one namespace with equal labels and equal anti-affinity. `nodes`: how many there are on each node.
    `is_leaving`: they are being deleted."""

    namespace: str
    labels: Labels
    anti_affinity: tuple[PodAffinityTerm, ...]
    is_leaving: bool
    nodes: Counter[str] = field(default_factory=Counter)


class PodGroups:
    def __init__(self) -> None:
        self._groups: dict[bytes, PodGroup] = {}
        self._with_anti_affinity: dict[bytes, PodGroup] = {}
        self._places: dict[str, tuple[bytes, str]] = {}  # UID -> group, node

    def put(self, pod: Pod, node: str) -> None:
        """The pod is, or will be, on the node. Empty: on none."""
        before = self._places.get(pod.uid)
        if not node:
            if before is not None:
                self._take_away(pod.uid, *before)
            return
        key = _key(pod)
        if before == (key, node):
            return
        if before is not None:
            self._take_away(pod.uid, *before)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _group(pod)
            if group.anti_affinity:
                self._with_anti_affinity[key] = group
        group.nodes[node] += 1
        self._places[pod.uid] = key, node

    def _take_away(self, uid: str, key: bytes, node: str) -> None:
        del self._places[uid]
        group = self._groups[key]
        group.nodes[node] -= 1
        if not group.nodes[node]:
            del group.nodes[node]
            if not group.nodes:
                del self._groups[key]
                self._with_anti_affinity.pop(key, None)

    def all(self, without: Collection[str] = ()) -> Iterator[PodGroup]:
        """`without`: UIDs of pods that count as gone."""
        return self._less(self._groups, without)

    def with_anti_affinity(self, without: Collection[str] = ()) -> Iterator[PodGroup]:
        return self._less(self._with_anti_affinity, without)

    def _less(self, groups: dict[bytes, PodGroup], without: Collection[str]) -> Iterator[PodGroup]:
        gone: dict[bytes, Counter[str]] = {}
        for uid in without:
            place = self._places.get(uid)
            if place is not None:
                gone.setdefault(place[0], Counter())[place[1]] += 1
        for key, group in groups.items():
            if key not in gone:
                yield group
            else:
                left = group.nodes - gone[key]
                yield PodGroup(group.namespace, group.labels, group.anti_affinity, group.is_leaving, left)


def anti_affinity_of(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    between = affinity.pod_anti_affinity if affinity is not None else None
    return () if between is None else tuple(between.required)


def _key(pod: Pod) -> bytes:
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return _ENCODER.encode((metadata.namespace, metadata.labels, anti_affinity_of(pod), is_leaving))


def _group(pod: Pod) -> PodGroup:
    metadata = pod.metadata
    is_leaving = metadata.deletion_timestamp is not None
    return PodGroup(metadata.namespace, metadata.labels or NOTHING, anti_affinity_of(pod), is_leaving)
