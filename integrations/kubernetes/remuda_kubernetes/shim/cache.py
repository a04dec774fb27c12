"""The cache of the shim: pods, applications and nodes, as the API server and the scheduler have reported them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Namespace, Node, Pod, PriorityClass, ResourceClaim
from remuda_kubernetes.predicates.among_pods import PodGroups
from remuda_kubernetes.predicates.volumes import Storage, claim_names
from remuda_kubernetes.shim import names, pod_reading
from remuda_kubernetes.shim.devices import Booked, Devices
from remuda_kubernetes.shim.effects import Effect, PodName, RecordEvent, name_of
from remuda_kubernetes.shim.other_gangs import GroupObjects
from remuda_kubernetes.shim.pod_reading import GroupKey
from remuda_kubernetes.shim.quantities import Amounts, excess, total
from remuda_kubernetes.shim.task_groups import USUAL_USER, GangPolicy, PlaceholderUser, TaskGroup
from remuda_proto.si.v1 import si_pb2 as si


@dataclass(frozen=True, slots=True)
class ShimPolicy:
    """Settings that decisions depend on. `scheduler_names`: pods that name one of these are ours. `generate_unique`: a
    pod without an application gets one of its own. `gangs`: task groups have an effect. `predicates`: pods are placed
    only where they suit. `volume_bind_timeout_s`: of a pod that was placed, until its claims count as not bound.
    `topology`: annotations about the topology have an effect. `topology_labels`: labels of nodes that are
    attributes. `device_classes`: a class of devices and its resource, for the claims that are allocated here."""

    scheduler_names: frozenset[str]
    placeholder_image: str = "registry.k8s.io/pause:3.7"
    generate_unique: bool = False
    gangs: bool = True
    predicates: bool = True
    placeholder_user: PlaceholderUser = USUAL_USER
    volume_bind_timeout_s: float | None = None  # None: limits.VOLUME_BIND_TIMEOUT_S
    topology: bool = True
    topology_labels: tuple[str, ...] = ()
    device_classes: tuple[tuple[str, str], ...] = ()

    @property
    def volume_sweeps(self) -> float:
        """The sweeps of that time."""
        within_s = self.volume_bind_timeout_s
        return (limits.VOLUME_BIND_TIMEOUT_S if within_s is None else within_s) / limits.SWEEP_EVERY_S

    def manages(self, pod: Pod) -> bool:
        """Whether the pod is an ask; the amounts of all others are occupied."""
        return pod_reading.is_managed(pod, self.scheduler_names)

    def problem_of(self, pod: Pod) -> str:
        """Why this front end cannot have the pod run at all; empty: it can."""
        if pod.spec.resource_claims and not self.device_classes:
            return "its resourceClaims (dynamic resource allocation) are allocated by the default scheduler only"
        return ""

    def allocates_claims(self, pod: Pod) -> bool:
        """Whether the pod has claims of devices, and they are allocated here."""
        return bool(pod.spec.resource_claims and self.device_classes)

    def leaves_devices(self, pod: Pod) -> bool:
        """Whether another scheduler allocates the devices of the pod."""
        return False

    def leaves_volumes(self, pod: Pod) -> bool:
        """Whether another scheduler chooses the volumes of the pod."""
        return False

    def gates_of(self, pod: Pod) -> list[str]:
        """The scheduling gates that a pod waits for before it is asked for."""
        return [gate.name for gate in pod.spec.scheduling_gates]


@dataclass(slots=True)
class PodEntry:
    """A pod that has not ended. `application`: empty for pods of other schedulers. `node`: where it is, or where the
    scheduler has put it. `uuid`: of its allocation; empty: none. `booked`: the amounts of that. `is_bound`: the API
    server has said so. `release`: the scheduler has requested it; it is confirmed when the pod is gone. `attempts`: to
    find a node that suits it, those of earlier processes too. `asks`: how often it was asked for.
    `volumes_since`: its claims are being bound, in sweeps. `not_before`: until then it is not asked for again,
    in sweeps. `pause_s`: before it is asked for again when its next binding fails.
    `told_start`: the start that an event has told last, in ms, how far ahead that was, and when, in sweeps.
    `problem`: why its amounts cannot be read; empty: they can.
    `devices`: those of its allocation, by resource. `is_kept`: a claim of devices is allocated, which keeps it where
    they are. `written`: claims that are written before its binding. `bindings`: of these, those on their way.
    `unfit`: nodes that another scheduler or a provisioner has refused for it: until when, in sweeps, and why."""

    pod: Pod
    size: Amounts
    application: str = ""
    node: str = ""
    uuid: str = ""
    booked: Amounts = field(default_factory=dict)
    is_asked: bool = False
    asks: int = 0
    is_bound: bool = False
    release: si.AllocationRelease | None = None
    resubmissions: int = 0
    attempts: int = 0
    volumes_since: int | None = None
    not_before: float = 0.0
    pause_s: float = 0.0
    unfit: dict[str, tuple[int, str]] = field(default_factory=dict)
    condition: tuple[str, str] = ("", "")
    told_start: tuple[int, int, int] | None = None
    problem: str = ""
    devices: Booked = field(default_factory=dict)
    is_kept: bool = False
    written: tuple[ResourceClaim, ...] = ()
    bindings: int = 0

    @property
    def is_alone(self) -> bool:
        """Whether predicates are asked for this pod alone, whatever it is like."""
        return self.is_kept or bool(self.unfit)

    @property
    def is_waiting(self) -> bool:
        return not self.is_bound and not self.uuid

    @property
    def is_placeholder(self) -> bool:
        return pod_reading.is_placeholder(self.pod)

    @property
    def name(self) -> PodName:
        return name_of(self.pod.metadata)

    def book(self, uuid: str, amounts: Amounts, devices: Booked | None = None) -> None:
        """Note its allocation. Without amounts, it is as large as the pod."""
        self.uuid, self.booked, self.devices = uuid, amounts or self.size, devices or {}
        self.condition = ("", "")  # if it has to wait again, it is said again
        self.told_start = None

    @property
    def occupied(self) -> Amounts:
        """The amounts that the pod uses on its node beside an allocation: all its amounts, or the growth since the
        allocation was booked."""
        if not self.application:
            return self.size
        return excess(self.size, self.booked) if self.uuid else {}


@dataclass(slots=True)
class ApplicationEntry:
    """An application that has pods, or that the scheduler has not completed yet. `name`: as its pods give it.
    `is_submitted`: the scheduler has it. `is_started`: the scheduler has allocated all its placeholders.
    `is_reserving`: its placeholders are not all bound yet, and its real pods wait. `created`: names of the placeholders
    whose creation was requested. `unseen`: those of them that were never observed. `problem`: of the definition of its
    gang. `awaits`: the object that says how large its gang is; None: it is known, or there is no gang."""

    id: str
    name: str
    queue: str
    namespace: str
    originator: str  # UID of a pod
    owner: str = ""  # UID of the pod that owns its placeholders
    groups: tuple[TaskGroup, ...] = ()
    policy: GangPolicy | None = None
    pods: dict[str, None] = field(default_factory=dict)  # UIDs, an ordered set
    is_submitted: bool = False
    is_accepted: bool = False
    is_started: bool = False
    is_reserving: bool = False
    is_forced: bool = False
    problem: str = ""
    awaits: GroupKey | None = None
    created: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)


@dataclass(slots=True)
class NodeEntry:
    """A node of the API server. `is_reported`: the scheduler knows the node. `failed_bindings`: bindings that have
    failed in a row. `version`: changes with all that predicates depend on. `refusals`: allocations on the node that
    predicates have refused. The other fields are as they were reported last."""

    node: Node
    is_reported: bool = False
    version: int = 0
    failed_bindings: int = 0
    refusals: int = 0
    capacity: Amounts = field(default_factory=dict)
    occupied: Amounts = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    is_drained: bool = False
    is_ready: bool = True
    selected_by: str = ""
    selected_at: tuple[int, int] = (-1, 0)


class Cache:
    """The pods, applications and nodes that the shim has observed. `is_live`: the scheduler has the report, and gets
    the changes. `effects`: effects that the shim has not given away yet, in order."""

    def __init__(self, policy: ShimPolicy) -> None:
        self.policy = policy
        self.pods: dict[str, PodEntry] = {}
        self.applications: dict[str, ApplicationEntry] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.quota_tags: dict[str, dict[str, str]] = {}  # namespace -> tags of its applications
        self.priority_classes: dict[str, PriorityClass] = {}
        self.effects: list[Effect] = []
        self.dirty_nodes: dict[str, None] = {}  # an ordered set
        self.is_live = False
        self.groups = PodGroups()
        self.storage = Storage()
        self.devices = Devices(dict(policy.device_classes))
        self.device_classes: dict[str, str] = {}  # name -> the extended resource that it serves
        self.group_objects = GroupObjects()
        self.nodes_version = 0  # changes with what predicates depend on, of any node
        self.refused: dict[str, None] = {}  # asks that predicates have refused on some node; an ordered set
        self.is_room_changed = False  # pods have come or gone, or nodes have changed, since those were refused
        self.granted: dict[str, int] = {}  # UID -> when a question was answered with yes, in sweeps
        self.sweeps = 0
        self.leaving: dict[str, None] = {}  # UIDs of pods whose release the scheduler has requested; an ordered set
        self._on_node: dict[str, dict[str, None]] = {}
        self._claim_users: dict[tuple[str, str], dict[str, None]] = {}  # UIDs of pods on nodes

    def emit(self, effect: Effect) -> None:
        if self.is_live:
            self.effects.append(effect)

    def record(
        self, entry: PodEntry, reason: str, note: str, *, action: str = "Scheduling", warn: bool = False
    ) -> None:
        """An event on a pod."""
        self.emit(RecordEvent("Pod", entry.name, reason, action, note, warn))

    def put_on(self, entry: PodEntry, node: str) -> None:
        """Note where a pod is, or will be. Empty: nowhere."""
        uid = entry.pod.uid
        self.groups.put(entry.pod, node)
        if entry.node == node:
            return
        if entry.node:
            on = self._on_node[entry.node]
            on.pop(uid, None)
            if not on:
                del self._on_node[entry.node]
        self.is_room_changed = True
        if bool(entry.node) != bool(node):
            self._use_claims(entry.pod, bool(node))
        if node:
            self._on_node.setdefault(node, {})[uid] = None
        if entry.occupied or entry.devices:
            self.dirty_nodes.update({one: None for one in (entry.node, node) if one})
        entry.node = node

    def _use_claims(self, pod: Pod, used: bool) -> None:
        for name in claim_names(pod):
            key = pod.metadata.namespace, name
            users = self._claim_users.setdefault(key, {})
            if used:
                users[pod.uid] = None
            else:
                users.pop(pod.uid, None)
            if not users:
                del self._claim_users[key]

    def served_by_devices(self, size: Amounts) -> list[str]:
        """The resources among these amounts that no node has, because dynamic resource allocation serves them."""
        served = set(self.device_classes.values()) - set(self.devices.resources.values())
        return [
            name
            for name in size
            if (name in served or name.startswith(names.DEVICE_CLASS_RESOURCE))
            and not any(
                node.node.status.allocatable and name in node.node.status.allocatable for node in self.nodes.values()
            )
        ]

    def users_of(self, claim: tuple[str, str]) -> Collection[str]:
        """UIDs of the pods on nodes, also of those about to be bound, that have this claim (namespace, name)."""
        return self._claim_users.get(claim, ())

    def on_node(self, node: str) -> Iterator[PodEntry]:
        """The pods on a node, also those that are about to be bound there."""
        return (self.pods[uid] for uid in self._on_node.get(node, ()))

    def occupied(self, node: str) -> Amounts:
        """The requests of pods of other schedulers there, and what other pods have grown by."""
        return total(entry.occupied for entry in self.on_node(node))

    def devices_occupied(self, node: str) -> dict[str, list[str]]:
        """The devices there that claims have and no allocation, by resource."""
        in_use = self.devices.in_use(node)
        if not in_use:
            return {}
        booked = {(resource, name) for one in self.on_node(node) if one.uuid and one.application
                  for resource, names in one.devices.items() for name in names}  # fmt: skip
        return {
            resource: left
            for resource, found in in_use.items()
            if (left := [name for name in found if (resource, name) not in booked])
        }

    def book_running(self, entry: PodEntry) -> None:
        """A pod that runs without an allocation is reported as large as it is, with the devices of its claims that no
        other pod has booked."""
        entry.uuid = ""
        if self.policy.allocates_claims(entry.pod):
            free = self.devices_occupied(entry.node)
            devices = {
                resource: found
                for resource, names in self.devices.of_running(entry.pod, entry.node).items()
                if (found := tuple(name for name in names if name in free.get(resource, ())))
            }
            resources = self.devices.resources.values()
            others = {name: amount for name, amount in entry.size.items() if name not in resources}
            entry.size = others | {resource: len(names) for resource, names in devices.items()}
            entry.book(entry.pod.uid, entry.size, devices)
        else:
            entry.book(entry.pod.uid, entry.size)

    def pods_of(self, application: ApplicationEntry) -> Iterator[PodEntry]:
        return (self.pods[uid] for uid in list(application.pods))
