"""Volcano: Queues with weights, capabilities, guarantees and parents, and the configuration of its scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import CommentedMap

from . import tree
from .amounts import Amounts, kubernetes_amount, resource_name, shares
from .kubernetes import Object, mapping, with_names
from .notes import Notes
from .sources import Document, NotReadable, inside

NAME = "volcano"
_GROUPS = ("scheduling.volcano.sh/", "scheduling.incubator.k8s.io/")
_CONFIGURATION = "volcano-scheduler.conf"
_HIERARCHY, _HIERARCHY_WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
_DEFAULT = "default"
_DEQUEUE = "volcano.sh/dequeue-strategy"
_NO_QUEUES = ("PodGroup", "Job", "Numatopology", "JobFlow", "JobTemplate")
# What plugins and actions of the scheduler do that remuda does otherwise or not at all.
_PLUGINS = {
    "gang": ("similar", "an application with placeholders is placed as a whole", "Declare task groups."),
    "drf": ("similar", "applications of a queue are ordered by age", "Set `application.sort.policy: fair`."),
    "tdm": ("none", "nodes have no times of day", "Drain and undrain nodes by a timer."),
    "sla": ("none", "an ask has no deadline", "Give what is urgent a higher priority."),
    "task-topology": ("none", "asks of a job have no affinity to each other", "Use pod affinity."),
    "numaaware": ("none", "nodes have no sockets", "The kubelet's topology manager admits pods."),
    "rescheduling": ("none", "what runs is not moved", "Nothing takes its place."),
    "usage": ("none", "requests count, not what is used", "Nothing takes its place."),
    "extender": ("none", "no other process is asked", "The front end evaluates the predicates of Kubernetes."),
    "network-topology-aware": ("similar", "levels are attributes of nodes, not HyperNodes", tree.NAME_LEVELS),
    "nodegroup": ("none", "queues have no nodes of their own", "Let pods name the nodes they may run on."),
}  # fmt: skip


@dataclass(slots=True)
class _Queue:
    source: Object
    below: list[_Queue] = field(default_factory=list)
    guaranteed: Amounts = field(default_factory=dict)
    made: bool = False  # it has no object

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.source.spec

    @property
    def annotations(self) -> Mapping[str, Any]:
        return self.source.annotations

    def at(self, *path: str) -> str:
        return self.source.at(*path)

    @property
    def weight(self) -> int:
        annotated = str(self.annotations.get(_HIERARCHY_WEIGHTS, "")).rpartition("/")[2]
        weight = int(annotated) if annotated.isdecimal() and not self.spec.get("parent") else self.spec.get("weight")
        return weight if isinstance(weight, int) and weight > 0 else 1


@dataclass(frozen=True, slots=True)
class _Scheduler:
    """The settings of Volcano's scheduler. `reclaims` None: the files have no configuration of the scheduler."""

    reclaims: bool | None = None
    packs: bool = False
    by_capacity: bool = False


def recognises(document: Document) -> bool:
    content = document.content
    if not isinstance(content, Mapping):
        return False
    if content.get("kind") == "ConfigMap":
        return _scheduler_key(content) is not None
    return str(content.get("apiVersion", "")).startswith(_GROUPS)


def translate(documents: list[Document], notes: Notes, capacity: Amounts) -> CommentedMap:
    """Translates queues of Volcano into a draft of queues.yaml. `capacity`: what all nodes have together; weights
    are shares of it. Raises NotReadable.
    """
    known = [document for document in documents if recognises(document)]
    scheduler = _Scheduler()
    queues: dict[str, _Queue] = {}
    for document in known:
        content = document.content
        if content.get("kind") == "ConfigMap":
            scheduler = _read_scheduler(document, notes)
        elif content.get("kind") == "Queue":
            one = _Queue(Object.of(document))
            queues[one.name] = one
        elif content.get("kind") == "HyperNode":
            notes.near(document.at(content), "HyperNode", "levels are attributes of nodes", tree.NAME_LEVELS)
        elif content.get("kind") not in _NO_QUEUES:
            notes.none(
                document.at(content), str(content.get("kind")), "remuda has no such object", "Nothing takes its place."
            )
    if not queues:
        raise NotReadable(f"{documents[0].file}: no Queue inside: export the Queues, too")
    if _DEFAULT not in queues:
        queues[_DEFAULT] = _made(_DEFAULT, documents[0], {})
    return _Translation(queues, scheduler, notes, capacity).draft()


def _made(name: str, document: Document, spec: Mapping[str, Any]) -> _Queue:
    """A queue that Volcano makes by itself."""
    return _Queue(Object(document, "Queue", name, "", {}, spec), made=True)


def _scheduler_key(content: Mapping[str, Any]) -> str | None:
    data = content.get("data")
    keys = [key for key in data if key.startswith("volcano-scheduler")] if isinstance(data, Mapping) else []
    return _CONFIGURATION if _CONFIGURATION in keys else next((key for key in keys if key.endswith(".conf")), None)


def _read_scheduler(document: Document, notes: Notes) -> _Scheduler:
    key = _scheduler_key(document.content)
    assert key is not None
    text = inside(document, document.content["data"], key)
    content = text.content if isinstance(text.content, CommentedMap) else CommentedMap()
    actions = [part.strip() for part in str(content.get("actions", "")).split(",")]
    plugins: dict[str, str] = {}
    for tier in content.get("tiers") or ():
        for plugin in (tier.get("plugins") if isinstance(tier, Mapping) else None) or ():
            if isinstance(plugin, Mapping):
                plugins[str(plugin.get("name"))] = text.at(plugin)
    for name, place in plugins.items():
        if name in _PLUGINS:
            kind, why, instead = _PLUGINS[name]
            (notes.near if kind == "similar" else notes.none)(place, f"plugin {name}", why, instead)
    if "preempt" in actions:
        notes.none(
            text.at(content, "actions"), "action preempt", "a queue preempts nothing of its own",
            "Give what is urgent a queue of its own, with a guarantee.",
        )  # fmt: skip
    return _Scheduler("reclaim" in actions, "binpack" in plugins, "capacity" in plugins)


class _Translation:
    def __init__(self, queues: dict[str, _Queue], scheduler: _Scheduler, notes: Notes, capacity: Amounts) -> None:
        self._queues = queues
        self._scheduler = scheduler
        self._notes = notes
        self._capacity = capacity
        self._by_weight = not scheduler.by_capacity and not any(one.spec.get("deserved") for one in queues.values())

    def draft(self) -> CommentedMap:
        tops = self._connect()
        for one in self._queues.values():
            one.guaranteed = self._guaranteed(one)
        if self._by_weight:
            self._divide(tops, self._capacity)
        rules = [{"name": "provided"}]
        if any(one.name == _DEFAULT and not one.below for one in tops):
            rules.append({"name": "fixed", "value": f"{tree.ROOT}.{_DEFAULT}"})
        queues = self._below(tops, tree.ROOT)
        return tree.document(
            queues, rules=rules, preemption=self._scheduler.reclaims, packs_nodes=self._scheduler.packs
        )

    # The tree.

    def _connect(self) -> list[_Queue]:
        """The queues below root, among them the one that Volcano makes by itself."""
        parents = {one.name: self._parent(one) for one in list(self._queues.values())}
        root = self._queues.pop(tree.ROOT, None)
        if root is not None:
            self._note_keys(root)
        if root is not None and root.spec.get("capability"):
            self._notes.none(
                root.at("spec", "capability"), "capability of root", "the resources of root are those of the nodes",
                "Limit the queues below it.",
            )  # fmt: skip
        tops = []
        for one in self._queues.values():
            parent = self._queues.get(parents.get(one.name) or str(one.spec.get("parent") or ""))
            if parent is None or tree.is_below(parent, one):
                tops.append(one)
            else:
                parent.below.append(one)
        return tops

    def _parent(self, one: _Queue) -> str:
        """By `spec.parent`, or by the annotation that came before it."""
        name = str(one.spec.get("parent") or "")
        if not name and _HIERARCHY in one.annotations:
            return self._parent_by_annotation(one)
        if name not in ("", tree.ROOT) and name not in self._queues:
            self._notes.none(
                one.at("spec", "parent"), f"parent {name} of Queue {one.name}", "there is no such Queue in the files",
                "It is below root.",
            )  # fmt: skip
        return name

    def _parent_by_annotation(self, one: _Queue) -> str:
        """`root/science/lab` hangs the queue below science, which may have no object of its own."""
        path = str(one.annotations[_HIERARCHY]).strip("/").split("/")
        weights = str(one.annotations.get(_HIERARCHY_WEIGHTS, "")).split("/")
        above = tree.ROOT
        for level, name in enumerate(path[:-1]):
            if name != tree.ROOT and name not in self._queues:
                weight = int(weights[level]) if level < len(weights) and weights[level].isdecimal() else 1
                self._queues[name] = _made(name, one.source.document, {"weight": weight, "parent": above})
                if not self._capacity and weight != 1:
                    self._note_missing_weight(one.at("metadata", "annotations", _HIERARCHY_WEIGHTS), name, weight)
            above = name
        return above

    # Resources.

    def _guaranteed(self, one: _Queue) -> Amounts:
        deserved = self._amounts(one, "deserved")
        guarantee = self._amounts(one, "guarantee", "resource")
        if guarantee:
            self._notes.near(
                one.at("spec", "guarantee"), f"guarantee of Queue {one.name}", "idle resources are free for all",
                "It is guaranteed: the queue takes it back by preemption.",
            )  # fmt: skip
        return {name: max(deserved.get(name, 0), guarantee.get(name, 0)) for name in (*deserved, *guarantee)}

    def _divide(self, queues: list[_Queue], total: Amounts) -> None:
        """Weights as guaranteed resources: shares of what there is above, at most the capability."""
        if not total:
            for one in queues:
                self._note_weight(one)
        for name, amount in total.items():
            parts = shares(name, amount, {one.name: one.weight for one in queues})
            for one in queues:
                capability = self._amounts(one, "capability")
                share = min(parts[one.name], capability.get(name, parts[one.name]))
                one.guaranteed[name] = max(share, one.guaranteed.get(name, 0))
        for one in queues:
            self._divide(one.below, one.guaranteed if total else {})

    def _note_weight(self, one: _Queue) -> None:
        if one.weight == 1 or one.made:
            return
        by_annotation = _HIERARCHY_WEIGHTS in one.annotations and not one.spec.get("parent")
        place = one.at("metadata", "annotations", _HIERARCHY_WEIGHTS) if by_annotation else one.at("spec", "weight")
        self._note_missing_weight(place, one.name, one.weight)

    def _note_missing_weight(self, place: str, name: str, weight: int) -> None:
        self._notes.none(
            place, f"weight {weight} of Queue {name}",
            "shares are those of guaranteed resources, and what there is to share is not known",
            "Import again with `--capacity vcore=...,memory=...`, what all nodes have together.",
        )  # fmt: skip

    def _amounts(self, one: _Queue, *path: str) -> Amounts:
        node = one.spec
        for part in path:
            node = mapping(node.get(part))
        found: Amounts = {}
        for key, value in node.items():
            name = resource_name(str(key))
            try:
                found[name] = kubernetes_amount(name, str(value))
            except ValueError as error:
                raise NotReadable(f"{one.source.document.at(node, key)}: {key}: {error}") from None
        return found

    # The draft.

    def _below(self, queues: list[_Queue], path: str) -> list[tree.Queue]:
        return [self._queue(one, name, f"{path}.{name}") for one, name in with_names(queues, path, self._notes)]

    def _queue(self, one: _Queue, name: str, path: str) -> tree.Queue:
        self._note(one, path)
        comment = f"{one.name}, which Volcano makes by itself" if one.made else f"Queue {one.name}"
        if self._by_weight and not (one.made and one.weight == 1):
            comment += f", weight {one.weight}"
        return tree.Queue(
            name, comment, one.guaranteed, self._amounts(one, "capability"), properties=self._properties(one),
            queues=self._below(one.below, path),
        )  # fmt: skip

    def _properties(self, one: _Queue) -> dict[str, str]:
        found = {}
        if one.spec.get("priority"):
            found.update({"priority.policy": "fence", "priority.offset": str(one.spec["priority"])})
        if one.spec.get("reclaimable") is False:
            found["preemption.policy"] = "disabled"
        return found

    def _note(self, one: _Queue, path: str) -> None:
        if one.made:
            return
        self._note_keys(one)
        state = mapping(one.source.document.content.get("status")).get("state")
        if state in ("Closed", "Closing"):
            self._notes.elsewhere(
                one.at("status", "state"), f"state {state} of Queue {one.name}", "operators hold a queue",
                f"Run `remuda hold RM {path}`.",
            )  # fmt: skip
        if one.name != _DEFAULT and not one.below:
            self._notes.elsewhere(
                one.source.place_of_name, f"queue {one.name} of jobs and pods",
                "pods name the queue by its whole path",
                f"Label pods `yunikorn.apache.org/queue: {path}`.",
            )  # fmt: skip

    def _note_keys(self, one: _Queue) -> None:
        strategy = one.annotations.get(_DEQUEUE)
        if strategy == "fifo":
            place = one.at("metadata", "annotations", _DEQUEUE)
            self._notes.none(place, f"{_DEQUEUE} fifo of Queue {one.name}", *_DEQUEUED)
        for key, why, instead in _WITHOUT_COUNTERPART:
            if one.spec.get(key) and one.spec[key] != "traverse":
                self._notes.none(one.at("spec", key), f"{key} of Queue {one.name}", why, instead)


_DEQUEUED = ("an ask that does not fit holds back no other one", "An ask that has waited reserves a node.")
_WITHOUT_COUNTERPART = (
    ("affinity", "queues have no nodes of their own", "Let pods name the nodes they may run on."),
    ("extendClusters", "one queue is in one scheduler", "Run a front end for each cluster."),
    ("dequeueStrategy", *_DEQUEUED),
)
