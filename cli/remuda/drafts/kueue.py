"""Kueue: ClusterQueues, Cohorts, LocalQueues, ResourceFlavors, WorkloadPriorityClasses, Topologies;
v1alpha1 to v1beta2.

A cohort becomes a parent, a ClusterQueue a leaf. The nominal quota is guaranteed. The maximum is what the ClusterQueue
may have at most, after Kueue's rules for borrowing and lending along the path of cohorts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import CommentedMap

from . import tree
from .amounts import Amounts, kubernetes_amount, resource_name
from .kubernetes import Object, mapping, with_names
from .notes import Notes
from .sources import Document, NotReadable

NAME = "kueue"
_GROUP = "kueue.x-k8s.io/"
# A pod without them is none, so a ClusterQueue that does not name them leaves them open.
_OF_EVERY_POD = ("vcore", "memory", "pods", "ephemeral-storage")
_NEVER = "Never"
_QUOTA = ("nominalQuota", "borrowingLimit", "lendingLimit", "min", "max", "guaranteed", "ceiling")
_HOST = "kubernetes.io/hostname"  # of the level `host`, which every topology has


@dataclass(slots=True)
class _Quota:
    """The quota of one resource, over all flavors. `borrowing` None: as much as there is; `lending` None: all of it."""

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


@dataclass(slots=True)
class _Node:
    """A cohort, or a ClusterQueue (which has no `below`). `source` None: a cohort that exists by its name alone."""

    name: str
    source: Object | None
    quotas: dict[str, _Quota] = field(default_factory=dict)
    above: _Node | None = None
    below: list[_Node] = field(default_factory=list)
    local_queues: list[str] = field(default_factory=list)
    is_cohort: bool = False
    subtrees: dict[str, int] = field(default_factory=dict)  # what `subtree` has computed

    def nominal(self, resource: str) -> int:
        return self.quotas[resource].nominal if resource in self.quotas else 0

    def subtree(self, resource: str) -> int:
        """The own quota and what the nodes below lend."""
        if resource not in self.subtrees:
            lent = sum(one.subtree(resource) - one.kept(resource) for one in self.below)
            self.subtrees[resource] = self.nominal(resource) + lent
        return self.subtrees[resource]

    def kept(self, resource: str) -> int:
        """The amount that is not lent to others."""
        quota = self.quotas.get(resource)
        lending = quota.lending if quota and self.above else None
        return 0 if lending is None else max(0, self.subtree(resource) - lending)

    def available(self, resource: str) -> int:
        """The most that the node can get, with all it can borrow."""
        if self.above is None:
            return self.subtree(resource)
        most = self.kept(resource) + self.above.available(resource)
        quota = self.quotas.get(resource)
        borrowing = quota.borrowing if quota else None
        return most if borrowing is None else min(most, self.subtree(resource) + borrowing)

    def maximum(self, resource: str) -> int:
        """The most of the queue: what it can get, and what the queues below keep for themselves."""
        return self.available(resource) + self._kept_below(resource)

    def _kept_below(self, resource: str) -> int:
        return sum(one.kept(resource) + one._kept_below(resource) for one in self.below)

    def resources(self) -> set[str]:
        return {*self.quotas, *(name for one in self.below for name in one.resources())}


def recognises(document: Document) -> bool:
    return isinstance(document.content, Mapping) and str(document.content.get("apiVersion", "")).startswith(_GROUP)


def translate(documents: list[Document], notes: Notes) -> CommentedMap:
    """Translates objects of Kueue into a draft of queues.yaml. Raises NotReadable."""
    objects = [Object.of(document) for document in documents if recognises(document)]
    queues = [one for one in objects if one.kind == "ClusterQueue"]
    if not queues and not any(one.kind == "Cohort" for one in objects):
        raise NotReadable(
            f"{documents[0].file}: the file has no ClusterQueue and no Cohort: export them with the other objects"
        )
    return _Translation(objects, notes).draft()


class _Translation:
    def __init__(self, objects: list[Object], notes: Notes) -> None:
        self._objects = objects
        self._notes = notes
        self._cohorts: dict[str, _Node] = {}
        self._queues: dict[str, _Node] = {}
        self._paths: dict[str, str] = {}  # of ClusterQueues
        self._covered: set[str] = set()  # all resources of which there is a quota

    def draft(self) -> CommentedMap:
        for one in self._of("Cohort"):
            self._cohorts[one.name] = _Node(one.name, one, self._quotas(one), is_cohort=True)
        for one in self._of("ClusterQueue"):
            self._queues[one.name] = _Node(one.name, one, self._quotas(one))
        self._connect()
        self._covered = {name for node in (*self._cohorts.values(), *self._queues.values()) for name in node.quotas}
        self._read_local_queues()
        tops = [one for one in (*self._cohorts.values(), *self._queues.values()) if one.above is None]
        queues = self._below(tops, tree.ROOT, {})
        made = tree.document(queues, preemption=self._preempts(), topology=self._levels())
        self._note_objects()
        return made

    def _of(self, kind: str) -> Iterator[Object]:
        return (one for one in self._objects if one.kind == kind)

    # The tree.

    def _connect(self) -> None:
        for nodes, keys in ((self._queues, ("cohortName", "cohort")), (self._cohorts, ("parentName", "parent"))):
            for node in list(nodes.values()):
                spec = node.source.spec if node.source else {}
                self._hang(node, str(spec.get(keys[0]) or spec.get(keys[1]) or ""))

    def _hang(self, node: _Node, cohort: str) -> None:
        if not cohort:
            return
        above = self._cohorts.setdefault(cohort, _Node(cohort, None, is_cohort=True))
        if tree.is_below(above, node):
            assert node.source is not None
            key = "parentName" if "parentName" in node.source.spec else "parent"
            self._notes.none(
                node.source.in_spec(key), f"cohort {node.name}", "it is above itself", f"It is below {tree.ROOT}."
            )
            return
        node.above = above
        above.below.append(node)

    def _below(self, nodes: list[_Node], path: str, most: Amounts) -> list[tree.Queue]:
        return [self._queue(node, name, path, most) for node, name in with_names(nodes, path, self._notes)]

    def _queue(self, node: _Node, name: str, above: str, most: Amounts) -> tree.Queue:
        path, resources = f"{above}.{name}", node.resources()
        maximum = {resource: node.maximum(resource) for resource in sorted(resources)}
        if not node.is_cohort:
            maximum.update(
                (resource, 0) for resource in sorted(self._covered - resources) if resource not in _OF_EVERY_POD
            )
        own = {resource: amount for resource, amount in maximum.items() if most.get(resource) != amount}
        guaranteed = {resource: node.nominal(resource) for resource in sorted(node.quotas)}
        if node.is_cohort:  # its own quota is for all below, beside what each of them has
            guaranteed = {resource: _promised(node, resource) for resource, amount in guaranteed.items() if amount}
        comment = f"{'Cohort' if node.is_cohort else 'ClusterQueue'} {node.name}"
        if node.local_queues:
            comment += f"; LocalQueues {', '.join(node.local_queues)}"
        made = tree.Queue(
            name, comment, guaranteed, own, properties=self._properties(node),
            queues=self._below(node.below, path, {**most, **maximum}), parent=node.is_cohort and not node.below,
        )  # fmt: skip
        if not node.is_cohort:
            self._paths[node.name] = path
        self._note_queue(node, path)
        return made

    # Quotas.

    def _quotas(self, one: Object) -> dict[str, _Quota]:
        parts: dict[str, list[_Quota]] = {}
        flavors: dict[str, list[str]] = {}
        for flavor, resource, written in _flavor_resources(one.spec):
            name = resource_name(resource)
            found = {key: self._amount(one, written, key, name) for key in written if key in _QUOTA}
            # v1alpha1 and v1alpha2 have a minimum and a maximum: what may be borrowed is the difference.
            nominal = next((found[key] for key in ("nominalQuota", "min", "guaranteed") if found.get(key)), None) or 0
            most = next((found[key] for key in ("max", "ceiling") if found.get(key) is not None), None)
            borrowing = found.get("borrowingLimit") if most is None else max(0, most - nominal)
            quota = _Quota(nominal, borrowing, found.get("lendingLimit"))
            parts.setdefault(name, []).append(quota)
            flavors.setdefault(name, []).append(flavor)
        for name, of in flavors.items():
            if len(of) > 1:
                self._notes.near(
                    one.in_spec("resourceGroups"), f"{name} by flavors {', '.join(of)}",
                    "a queue has one amount of a resource, whatever the node",
                    "They are added up. For quotas by kind of node, report it as a resource of its own, or nodes in a "
                    "partition of their own.",
                )  # fmt: skip
        return {name: _added(quotas) for name, quotas in parts.items()}

    def _amount(self, one: Object, resource: Any, key: str, name: str) -> int | None:
        if resource.get(key) is None:
            return None
        try:
            return kubernetes_amount(name, str(resource[key]))
        except ValueError as error:
            raise NotReadable(f"{one.document.at(resource, key)}: {key} of {name}: {error}") from None

    # Topology.

    def _levels(self) -> list[dict[str, str]]:
        """The levels of the first Topology that has any above the host."""
        levels: list[dict[str, str]] = []
        for one in self._of("Topology"):
            labels = [str(level.get("nodeLabel")) for level in _maps(one.spec.get("levels"))]
            labels = [label for label in labels if label != _HOST]
            place = one.place_of_name
            if not labels:
                self._notes.near(
                    place, f"Topology {one.name}", "its only level is the host, which every topology has",
                    tree.PACK_APPLICATIONS,
                )  # fmt: skip
            elif levels:
                self._notes.none(
                    place, f"Topology {one.name}", "a partition has one topology",
                    "Report the nodes that have it in a partition of their own.",
                )  # fmt: skip
            else:
                levels = [{"level": _level(label, place), "attribute": label} for place, label in enumerate(labels)]
                self._notes.elsewhere(
                    place, f"Topology {one.name}", "nodes report some labels only, and pods keep Kueue's annotations",
                    f"Name {', '.join(labels)} in `kubernetes.topology_labels` if they are not there by default.",
                )  # fmt: skip
        return levels

    # Preemption and properties.

    def _preempts(self) -> bool:
        return any(_reclaims(node) for node in self._queues.values())

    def _properties(self, node: _Node) -> dict[str, str]:
        if node.is_cohort or not self._preempts() or _reclaims(node):
            return {}
        return {"preemption.policy": "fence"}

    # Notes.

    def _note_queue(self, node: _Node, path: str) -> None:
        one = node.source
        if one is None:
            return
        notes, spec = self._notes, one.spec
        for resource, quota in node.quotas.items():
            if quota.lending is not None and node.above is not None:
                notes.near(
                    one.in_spec("resourceGroups"), f"lendingLimit of {resource}", "idle resources are free for all",
                    "The maximum of each other queue counts what is not lent; two borrowers may exceed it until "
                    f"{path} takes it back by preemption.",
                )  # fmt: skip
        self._note_preemption(one, mapping(spec.get("preemption")))
        fair = mapping(spec.get("fairSharing"))
        if str(fair.get("weight", 1)) != "1":
            notes.near(
                one.in_spec("fairSharing"), f"fairSharing weight {fair.get('weight')}",
                "shares are those of the guaranteed resources",
                "Raise the guaranteed resources of a queue that is to have more.",
            )  # fmt: skip
        if str(spec.get("queueingStrategy", "")) == "StrictFIFO":
            notes.near(
                one.in_spec("queueingStrategy"), "StrictFIFO", "an ask that does not fit holds back no other one",
                "An ask that has waited reserves a node, so it is not passed over for ever.",
            )  # fmt: skip
        if spec.get("stopPolicy") not in (None, "None"):
            notes.elsewhere(
                one.in_spec("stopPolicy"), f"stopPolicy {spec['stopPolicy']}", "operators hold a queue",
                f"Run `remuda hold RM {path}`.",
            )  # fmt: skip
        for key in ("admissionChecks", "admissionChecksStrategy"):
            if spec.get(key):
                notes.none(
                    one.in_spec(key), key, "no other controller is asked before an ask is placed",
                    "Provision nodes by pending pods; one scheduler serves several clusters.",
                )  # fmt: skip
        if (
            isinstance(spec.get("flavorFungibility"), Mapping)
            and len({flavor for flavor, *_ in _flavor_resources(spec)}) > 1
        ):
            notes.none(
                one.in_spec("flavorFungibility"), "flavorFungibility", "flavors are added up",
                "Let pods name the nodes they may run on.",
            )  # fmt: skip
        if "admissionScope" in spec:
            notes.near(
                one.in_spec("admissionScope"), "admissionScope", "the past of users counts, not that of LocalQueues",
                f"Set `fair.half-life` and `application.sort.policy: fair-users` of {path}.",
            )  # fmt: skip
        for key in spec:
            if key not in _READ:
                notes.none(
                    one.in_spec(str(key)), str(key), "remuda has nothing like it",
                    _INSTEAD.get(str(key), "Nothing takes its place."),
                )  # fmt: skip
        if not node.is_cohort:
            self._note_namespaces(one)

    def _note_preemption(self, one: Object, preemption: Mapping[str, Any]) -> None:
        within = str(preemption.get("withinClusterQueue") or _NEVER)
        reclaim = str(preemption.get("reclaimWithinCohort") or _NEVER)
        policy = str(mapping(preemption.get("borrowWithinCohort")).get("policy") or _NEVER)
        if within != _NEVER:
            self._notes.none(
                one.in_spec("preemption", "withinClusterQueue"), f"withinClusterQueue {within}",
                "a queue preempts nothing of its own", "Give what is urgent a queue of its own, with a guarantee.",
            )  # fmt: skip
        if reclaim == "LowerPriority":
            self._notes.near(
                one.in_spec("preemption", "reclaimWithinCohort"), f"reclaimWithinCohort {reclaim}",
                "allocations of equal priority are preempted, too",
                "Give them a higher priority where they are to stay.",
            )  # fmt: skip
        elif reclaim == "Any":
            self._notes.near(
                one.in_spec("preemption", "reclaimWithinCohort"), f"reclaimWithinCohort {reclaim}",
                "allocations of higher priority are not preempted",
                "Set `priority.policy: fence` for the queues, so that priorities count inside of them only.",
            )  # fmt: skip
        if policy != _NEVER:
            self._notes.none(
                one.in_spec("preemption", "borrowWithinCohort"), f"borrowWithinCohort {policy}",
                "a queue preempts for its guaranteed resources, never beyond them", "Raise what is guaranteed to it.",
            )  # fmt: skip

    def _note_namespaces(self, one: Object) -> None:
        selector = one.spec.get("namespaceSelector")
        if selector is None:
            self._notes.near(
                one.in_spec() if "spec" in one.document.content else one.at(), "no namespaceSelector",
                "it admits no namespace, while here everyone may submit", "Set `submitacl` of root and of the queues.",
            )  # fmt: skip
        elif selector:
            self._notes.near(
                one.in_spec("namespaceSelector"), "namespaceSelector", "queues admit users and groups, not namespaces",
                "Set `submitacl` of root and of the queues, or place pods by a rule `tag` with the value `namespace`.",
            )  # fmt: skip

    def _read_local_queues(self) -> None:
        for one in self._of("LocalQueue"):
            target = self._queues.get(str(one.spec.get("clusterQueue")))
            if target is not None:
                target.local_queues.append(f"{one.namespace}/{one.name}")

    def _note_objects(self) -> None:
        for one in self._objects:
            if one.kind == "LocalQueue":
                self._note_local_queue(one)
            elif one.kind == "ResourceFlavor":
                self._note_flavor(one)
            elif one.kind == "WorkloadPriorityClass":
                self._notes.elsewhere(
                    one.place_of_name, f"WorkloadPriorityClass {one.name}",
                    "pods have the priority of their class",
                    f"Make a PriorityClass with the value {one.document.content.get('value')} for them.",
                )  # fmt: skip
            elif one.kind not in ("ClusterQueue", "Cohort", "Workload", "Topology"):
                self._notes.none(
                    one.place_of_name, f"{one.kind} {one.name}", "remuda has no such object",
                    _INSTEAD.get(one.kind, "Nothing takes its place."),
                )  # fmt: skip

    def _note_local_queue(self, one: Object) -> None:
        path = self._paths.get(str(one.spec.get("clusterQueue")))
        label = f"LocalQueue {one.namespace}/{one.name}"
        if path is None:
            self._notes.none(
                one.place_of_name, label,
                f"its ClusterQueue {one.spec.get('clusterQueue')} is not in the files",
                "Import them together.",
            )  # fmt: skip
            return
        self._notes.elsewhere(
            one.place_of_name, label, "pods name the queue itself",
            f"Label pods `yunikorn.apache.org/queue: {path}` in place of `kueue.x-k8s.io/queue-name: {one.name}`.",
        )  # fmt: skip
        if one.spec.get("stopPolicy") not in (None, "None"):
            self._notes.none(
                one.in_spec("stopPolicy"), f"stopPolicy {one.spec['stopPolicy']} of {label}",
                "it is no queue of its own",
                f"`remuda hold RM {path}` holds the whole queue.",
            )  # fmt: skip
        if one.spec.get("fairSharing"):
            self._notes.none(
                one.in_spec("fairSharing"), f"fairSharing of {label}", "it is no queue of its own",
                f"Make queues below {path}, with guaranteed resources or with `fair.weight`.",
            )  # fmt: skip

    def _note_flavor(self, one: Object) -> None:
        for key, why, instead in _OF_FLAVORS:
            if one.spec.get(key):
                self._notes.none(one.in_spec(key), f"{key} of ResourceFlavor {one.name}", why, instead)


_OF_FLAVORS = (
    ("nodeLabels", "nothing is added to pods", "Put the labels into the pods' nodeSelector."),
    ("tolerations", "nothing is added to pods", "Put the tolerations into the pods."),
    ("nodeTaints", "taints count as those of the nodes", "Nothing needs to be done where nodes have the taints."),
)  # fmt: skip
_INSTEAD = {
    "AdmissionCheck": "No other controller is asked before an ask is placed.",
    "MultiKueueConfig": "Run a front end for each cluster: each is a resource manager of one scheduler.",
    "MultiKueueCluster": "Run a front end for each cluster: each is a resource manager of one scheduler.",
    "ProvisioningRequestConfig": "Autoscalers provision nodes for pending pods.",
    "concurrentAdmissionPolicy": "Let pods name the nodes they may run on.",
}
# Keys of ClusterQueues and Cohorts that are translated, or noted with their own reason.
_READ = {
    "resourceGroups", "resources", "requestableResources", "cohort", "cohortName", "parent", "parentName", "preemption",
    "fairSharing", "queueingStrategy", "stopPolicy", "admissionChecks", "admissionChecksStrategy", "flavorFungibility",
    "admissionScope", "namespaceSelector",
}  # fmt: skip


def _level(label: str, place: int) -> str:
    """The name of a level: the last part of its label, if that may be called so."""
    name = label.rpartition("/")[2].lower()
    return name if re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) and name != "host" else f"level-{place + 1}"


def _flavor_resources(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Flavor, resource and quota, for each resource of each flavor."""
    for resource in _maps(spec.get("resources") or spec.get("requestableResources")):  # v1alpha1 and v1alpha2
        for flavor in _maps(resource.get("flavors")):
            name = str(flavor.get("name") or flavor.get("resourceFlavor"))
            yield name, str(resource.get("name")), mapping(flavor.get("quota"))
    for group in _maps(spec.get("resourceGroups")):
        for flavor in _maps(group.get("flavors")):
            for resource in _maps(flavor.get("resources")):
                yield str(flavor.get("name")), str(resource.get("name")), resource


def _maps(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in (value if isinstance(value, list) else ()) if isinstance(one, Mapping))


def _added(quotas: Iterable[_Quota]) -> _Quota:
    """The quotas of all flavors. A flavor without a limit has no limit in sum; one that lends all lends its quota."""
    quotas = list(quotas)
    borrowing = [one.borrowing for one in quotas if one.borrowing is not None]
    lending = [one.nominal if one.lending is None else one.lending for one in quotas]
    return _Quota(
        sum(one.nominal for one in quotas),
        sum(borrowing) if len(borrowing) == len(quotas) else None,
        None if all(one.lending is None for one in quotas) else sum(lending),
    )


def _promised(node: _Node, resource: str) -> int:
    return node.nominal(resource) + sum(_promised(one, resource) for one in node.below)


def _reclaims(node: _Node) -> bool:
    """Whether a ClusterQueue takes back what others have borrowed."""
    preemption = mapping(node.source.spec.get("preemption")) if node.source else {}
    return str(preemption.get("reclaimWithinCohort") or _NEVER) != _NEVER
