"""A model of the filters of Kubernetes' default scheduler of 1.36, as far as they need no volumes that bind late: which
filter keeps a pod off a node. Written from the reference of Kubernetes, over objects as JSON; shares no code with the
front end. It is slow on purpose: each filter looks at all nodes and pods anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
KEEPS_AWAY = ("NoSchedule", "NoExecute")
BY_CLASS = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True)
class Cluster:
    """`pods`: those with a node. `claims`: the access modes of each, by name; all in the namespace `default`."""

    nodes: Sequence[Json]
    pods: Sequence[Json] = ()
    namespaces: Sequence[Json] = ()
    device_classes: Sequence[Json] = ()
    claims: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def labels_of_namespace(self, name: str) -> Json:
        return next((labels_of(one) for one in self.namespaces if one["metadata"]["name"] == name), {})

    def node_of(self, pod: Json) -> Json | None:
        name = pod["spec"]["nodeName"]
        return next((one for one in self.nodes if one["metadata"]["name"] == name), None)


def decisions(pod: Json, cluster: Cluster) -> dict[str, str]:
    """For each node the filter that refuses it, the first in the order of the scheduler; empty: it suits the pod."""
    return {
        node["metadata"]["name"]: next((name for name, passes in FILTERS.items() if not passes(pod, node, cluster)), "")
        for node in cluster.nodes
    }


def of_devices(pod: Json, cluster: Cluster) -> set[str]:
    """The extended resources of the pod that no node has as a resource of its own, and that DeviceClasses serve: by the
    name that a class gives, or by the name of a class, which nothing else can serve. Devices are allocated for them."""
    served = {one["spec"].get("extendedResourceName") for one in cluster.device_classes}
    wanted = {
        name
        for one in (*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ()))
        for name in one.get("resources", {}).get("requests", {})
    }
    served |= {name for name in wanted if name.startswith(BY_CLASS)}
    there = {name for node in cluster.nodes for name in node.get("status", {}).get("allocatable", {})}
    return (wanted & served) - there


# Selectors


def labels_of(one: Json) -> Json:
    return one["metadata"].get("labels") or {}


def holds(of: Json, labels: Json) -> bool:
    key, value = of["key"], labels.get(of["key"])
    match of["operator"]:
        case "In":
            return value in of["values"]
        case "NotIn":
            return value not in of["values"]
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    assert of["operator"] in ("Gt", "Lt")
    if value is None or not is_integer(value) or not is_integer(of["values"][0]):
        return False
    return int(value) > int(of["values"][0]) if of["operator"] == "Gt" else int(value) < int(of["values"][0])


def is_integer(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def selects(selector: Json | None, labels: Json) -> bool:
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == wanted[key] for key in wanted) and all(
        holds(one, labels) for one in selector.get("matchExpressions", ())
    )


def affinity(pod: Json, kind: str) -> Any:
    return (pod["spec"].get("affinity") or {}).get(kind, {}).get(HARD) or ()


def meets_node_affinity(pod: Json, node: Json) -> bool:
    labels, name = labels_of(node), {"metadata.name": node["metadata"]["name"]}
    if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
        return False
    required = affinity(pod, "nodeAffinity")
    return not required or any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(holds(one, labels) for one in term.get("matchExpressions", ()))
        and all(holds(one, name) for one in term.get("matchFields", ()))
        for term in required["nodeSelectorTerms"]
    )


def tolerates(pod: Json, taint: Json) -> bool:
    def by(one: Json) -> bool:
        if one.get("effect") not in (None, "", taint["effect"]):
            return False
        if one.get("key") and one["key"] != taint["key"]:
            return False
        operator, value, own = one.get("operator") or "Equal", one.get("value", ""), taint.get("value", "")
        if operator in ("Gt", "Lt"):  # alpha: numbers
            both = is_integer(own) and is_integer(value)
            return both and (int(own) > int(value) if operator == "Gt" else int(own) < int(value))
        return operator == "Exists" or (operator == "Equal" and value == own)

    return any(by(one) for one in pod["spec"].get("tolerations", ()))


# The filters


def node_unschedulable(pod: Json, node: Json, _: Cluster) -> bool:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return not node.get("spec", {}).get("unschedulable") or tolerates(pod, cordon)


def taint_toleration(pod: Json, node: Json, _: Cluster) -> bool:
    taints = (one for one in node.get("spec", {}).get("taints", ()) if one["effect"] in KEEPS_AWAY)
    return all(tolerates(pod, one) for one in taints)


def node_affinity(pod: Json, node: Json, _: Cluster) -> bool:
    return meets_node_affinity(pod, node)


def host_ports(pod: Json) -> Iterator[tuple[int, str, str]]:
    """Number, protocol and address. Of init containers only those that run on do keep theirs."""
    inits = [one for one in pod["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"]
    for one in (*pod["spec"].get("containers", ()), *inits):
        for port in one.get("ports", ()):
            if port.get("hostPort"):
                yield port["hostPort"], port.get("protocol", "TCP"), port.get("hostIP") or "0.0.0.0"


def node_ports(pod: Json, node: Json, cluster: Cluster) -> bool:
    used = [port for one in there(cluster, node) for port in host_ports(one)]
    return not any(
        (number, protocol) == (other, another) and (address == used_address or "0.0.0.0" in (address, used_address))
        for number, protocol, address in host_ports(pod)
        for other, another, used_address in used
    )


def there(cluster: Cluster, node: Json) -> list[Json]:
    return [one for one in cluster.pods if one["spec"]["nodeName"] == node["metadata"]["name"]]


def volume_restrictions(pod: Json, _: Json, cluster: Cluster) -> bool:
    """A claim with the mode ReadWriteOncePod is for one pod in the whole cluster."""
    own = {name for name in claims(pod) if "ReadWriteOncePod" in cluster.claims.get(name, ())}
    namespace = pod["metadata"]["namespace"]
    return not any(own & set(claims(one)) for one in cluster.pods if one["metadata"]["namespace"] == namespace)


def claims(pod: Json) -> list[str]:
    volumes = pod["spec"].get("volumes", ())
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def topology_spread(pod: Json, node: Json, cluster: Cluster) -> bool:
    constraints = [
        one
        for one in pod["spec"].get("topologySpreadConstraints", ())
        if one.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    keys = [one["topologyKey"] for one in constraints]
    if any(key not in labels_of(node) for key in keys):
        return False
    counted = [one for one in cluster.nodes if all(key in labels_of(one) for key in keys)]
    return all(has_little_skew(pod, node, cluster, one, counted) for one in constraints)


def has_little_skew(pod: Json, node: Json, cluster: Cluster, of: Json, counted: Sequence[Json]) -> bool:
    key, own = of["topologyKey"], labels_of(pod)
    selector = dict(of.get("labelSelector") or {})
    more = [{"key": one, "operator": "In", "values": [own[one]]} for one in of.get("matchLabelKeys", ()) if one in own]
    selector["matchExpressions"] = [*selector.get("matchExpressions", ()), *more]
    known = selector if of.get("labelSelector") is not None else None
    domains: dict[str, int] = {}
    for one in counted:
        if of.get("nodeAffinityPolicy", "Honor") == "Honor" and not meets_node_affinity(pod, one):
            continue
        if of.get("nodeTaintsPolicy", "Ignore") == "Honor" and not taint_toleration(pod, one, cluster):
            continue
        alike = [
            other
            for other in there(cluster, one)
            if other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and not other["metadata"].get("deletionTimestamp")
            and selects(known, labels_of(other))
        ]
        domain = labels_of(one)[key]
        domains[domain] = domains.get(domain, 0) + len(alike)
    if not domains:
        return True
    least = 0 if len(domains) < (of.get("minDomains") or 1) else min(domains.values())
    here = domains.get(labels_of(node)[key], 0) + selects(known, own)
    return bool(here - least <= of["maxSkew"])


def means(term: Json, of: Json, pod: Json, cluster: Cluster) -> bool:
    """Whether the term of a pod means another one."""
    namespace = pod["metadata"]["namespace"]
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not named and selector is None:
        named = (of["metadata"]["namespace"],)
    if namespace not in named and not selects(selector, cluster.labels_of_namespace(namespace)):
        return False
    return selects(term.get("labelSelector"), labels_of(pod))


def inter_pod_affinity(pod: Json, node: Json, cluster: Cluster) -> bool:
    labels = labels_of(node)

    def is_near(other: Json, key: str) -> bool:
        on = cluster.node_of(other)
        return on is not None and key in labels and labels_of(on).get(key) == labels[key]

    for other in cluster.pods:
        for term in affinity(other, "podAntiAffinity"):
            if means(term, other, pod, cluster) and is_near(other, term["topologyKey"]):
                return False
        for term in affinity(pod, "podAntiAffinity"):
            if means(term, pod, other, cluster) and is_near(other, term["topologyKey"]):
                return False
    wanted = affinity(pod, "podAffinity")
    if any(term["topologyKey"] not in labels for term in wanted):
        return False
    alike = [one for one in cluster.pods if all(means(term, pod, one, cluster) for term in wanted)]
    if all(any(is_near(one, term["topologyKey"]) for one in alike) for term in wanted):
        return True
    on_labelled = [
        one for one in alike
        if (on := cluster.node_of(one)) is not None and any(term["topologyKey"] in labels_of(on) for term in wanted)
    ]  # fmt: skip
    return not on_labelled and all(means(term, pod, pod, cluster) for term in wanted)


def declared_features(pod: Json, node: Json, _: Cluster) -> bool:
    restarts_all = any(
        rule["action"] == "RestartAllContainers"
        for one in (*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ()))
        for rule in one.get("restartPolicyRules", ())
    )
    needed = {"RestartAllContainersOnContainerExits"} if restarts_all else set()
    return needed <= set(node.get("status", {}).get("declaredFeatures", ()))


FILTERS: dict[str, Callable[[Json, Json, Cluster], bool]] = {
    "NodeUnschedulable": node_unschedulable,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodeDeclaredFeatures": declared_features,
    "NodePorts": node_ports,
    "VolumeRestrictions": volume_restrictions,
    "PodTopologySpread": topology_spread,
    "InterPodAffinity": inter_pod_affinity,
}
