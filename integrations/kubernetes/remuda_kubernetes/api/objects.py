"""The Kubernetes objects of this front end, with only the fields that count. The decoder skips all others.

Names follow the API's, in Python's spelling.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Api(Struct, rename="camel", frozen=True, kw_only=True):
    """Names in JSON are in camel case."""


class OwnerReference(Api):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Api):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None

    def label(self, key: str) -> str:
        return self.labels.get(key, "") if self.labels else ""

    def annotation(self, key: str) -> str:
        return self.annotations.get(key, "") if self.annotations else ""


class Object(Api, frozen=True):
    metadata: Metadata


# Selectors


class Requirement(Api):
    """One requirement of a selector. `values`: the values of In, NotIn, Gt and Lt."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Api):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] = []


class NodeSelectorTerm(Api):
    match_expressions: list[Requirement] = []
    match_fields: list[Requirement] = []


class NodeSelector(Api):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(Api):
    """A term that the default scheduler prefers; the sum of the weights decides."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Api):
    """`preferred`: counts for the default scheduler only."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)
    preferred: list[PreferredTerm] = field(default=[], name=_PREFERRED)


class PodAffinityTerm(Api):
    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None


class PodAffinity(Api):
    required: list[PodAffinityTerm] = field(default=[], name=_REQUIRED)


class Affinity(Api):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Api):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(Api):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []


# Pods

Quantities = dict[str, str]


class Resources(Api):
    requests: Quantities | None = None


class Port(Api):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Api):
    action: str = ""


class Container(Api):
    name: str = ""
    restart_policy_rules: list[RestartRule] = []
    resources: Resources | None = None
    ports: list[Port] = []
    restart_policy: str = ""


class ClaimSource(Api):
    claim_name: str = ""


class EphemeralSource(Api):
    pass


class EbsDisk(Api):
    volume_id: str = field(default="", name="volumeID")


class GceDisk(Api):
    pd_name: str = ""
    read_only: bool = False


class AzureDisk(Api):
    disk_name: str = ""


class CinderDisk(Api):
    volume_id: str = field(default="", name="volumeID")


class IscsiDisk(Api):
    iqn: str = ""
    read_only: bool = False


class RbdDisk(Api):
    monitors: list[str] = []
    pool: str = ""
    image: str = ""
    read_only: bool = False


class Disks(Api, frozen=True):
    """Where a volume is, if a plugin of Kubernetes itself attaches it: at most one of the fields is set."""

    aws_elastic_block_store: EbsDisk | None = None
    gce_persistent_disk: GceDisk | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderDisk | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdDisk | None = None


class PodVolume(Disks):
    """A volume of a pod, if it is a claim or a disk. `ephemeral`: the claim has the names of pod and volume."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class Named(Api):
    name: str = ""


class PodClaim(Api):
    """A claim of devices: of this name, or made for the pod from a template."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodClaimStatus(Api):
    """The claim that was made from a template; without a name, none is needed."""

    name: str = ""
    resource_claim_name: str = ""


class SchedulingGroup(Api):
    """The PodGroup of a pod, from 1.36."""

    pod_group_name: str = ""


class WorkloadRef(Api):
    """The Workload of a pod, in 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Api):
    node_name: str = ""
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadRef | None = None
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    active_deadline_seconds: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[SpreadConstraint] = []
    scheduling_gates: list[Named] = []
    volumes: list[PodVolume] = []
    resource_claims: list[PodClaim] = []
    image_pull_secrets: list[Named] = []

    @property
    def required_nodes(self) -> NodeSelector | None:
        """The node affinity that the pod requires."""
        affinity = self.affinity.node_affinity if self.affinity is not None else None
        return affinity.required if affinity is not None else None


class ContainerStatus(Api):
    """The status of a container; used for containers that are or were resized in place."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class Condition(Api):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Api):
    """`allocated_resources`, `resources`: of the pod as a whole, from 1.36. `resize`: up to 1.32."""

    phase: str = ""
    reason: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    allocated_resources: Quantities | None = None
    resources: Resources | None = None
    resize: str = ""
    resource_claim_statuses: list[PodClaimStatus] = []


class Pod(Object):
    spec: PodSpec
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def key(self) -> str:
        """Namespace and name, for people."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def has_ended(self) -> bool:
        """A pod that has ended holds nothing on its node."""
        return self.status.phase in ("Succeeded", "Failed")


# Dynamic resource allocation

# Of claims: the controller of claims takes it away when the claim is not allocated any more.
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class CelSelector(Api):
    expression: str = ""


class DeviceSelector(Api):
    cel: CelSelector | None = None


class DeviceClassSpec(Api):
    """`extended_resource_name`: pods that request this resource get devices of the class. `config`: as it is, for the
    driver."""

    extended_resource_name: str = ""
    selectors: list[DeviceSelector] = []
    config: list[dict[str, Any]] = []


class DeviceClass(Object):
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Api):
    """One of these."""

    string: str | None = None
    bool_: bool | None = field(default=None, name="bool")
    int_: int | None = field(default=None, name="int")


class DeviceTaint(Api):
    key: str = ""
    effect: str = ""


class SliceDevice(Api):
    """`consumes_counters`: a part of a larger device. `allow_multiple_allocations`: claims share the device.
    `binding_conditions`: what has to be so before a pod with the device is bound."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    taints: list[DeviceTaint] = []
    consumes_counters: list[Any] = []
    allow_multiple_allocations: bool | None = None
    binding_conditions: list[str] = []


class DevicePool(Api):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(Api):
    """`node_name`: empty: the devices are not of one node."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    devices: list[SliceDevice] = []


class ResourceSlice(Object):
    """Devices of a driver: one of the parts of a pool."""

    spec: SliceSpec = SliceSpec()


class ExactRequest(Api):
    device_class_name: str = ""
    selectors: list[Any] = []
    allocation_mode: str = ""
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[Any] = []
    capacity: dict[str, Any] | None = None


class DeviceRequest(Api):
    """One of `exactly` and `first_available`."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: list[Any] = []


class DeviceRequests(Api):
    requests: list[DeviceRequest] = []
    constraints: list[Any] = []
    config: list[dict[str, Any]] = []


class ResourceClaimSpec(Api):
    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Api):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(Api):
    results: list[AllocatedDevice] = []


class ClaimAllocation(Api):
    """`node_selector`: where the devices can be used; None: on all nodes."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class ClaimConsumer(Api):
    """A pod that may use a claim; others have an API group."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class ResourceClaimStatus(Api):
    allocation: ClaimAllocation | None = None
    reserved_for: list[ClaimConsumer] = []


class ResourceClaim(Object):
    """A claim of devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    def is_reserved_for(self, uid: str) -> bool:
        return any(one.uid == uid for one in self.status.reserved_for)


# Disruption budgets


class BudgetSpec(Api):
    """`selector`: None selects no pod, an empty one all pods of the namespace (in policy/v1beta1 none)."""

    selector: LabelSelector | None = None


class BudgetStatus(Api):
    disruptions_allowed: int = 0


class DisruptionBudget(Object):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name


# Groups of pods


class GangMinimum(Api):
    min_count: int = 0


class GroupPolicy(Api):
    """`gang`: None: pods are placed one by one."""

    gang: GangMinimum | None = None


class PodGroupSpec(Api):
    """`scheduling_policy`: of Kubernetes itself; `min_member`, `queue`, `schedule_timeout_seconds`: of plugins and of
    Volcano."""

    min_member: int = 0
    queue: str = ""
    schedule_timeout_seconds: int | None = None
    scheduling_policy: GroupPolicy | None = None


class PodGroup(Object):
    spec: PodGroupSpec = PodGroupSpec()


class WorkloadGroup(Api):
    name: str = ""
    policy: GroupPolicy = GroupPolicy()


class WorkloadSpec(Api):
    pod_groups: list[WorkloadGroup] = []


class Workload(Object):
    spec: WorkloadSpec = WorkloadSpec()


class PodTemplate(Api):
    spec: PodSpec = PodSpec()


class JobSpec(Api):
    parallelism: int = 1
    completions: int | None = None
    template: PodTemplate = PodTemplate()


class JobTemplate(Api):
    spec: JobSpec = JobSpec()


class ReplicatedJob(Api):
    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()


class JobSetSpec(Api):
    replicated_jobs: list[ReplicatedJob] = []


class JobSet(Object):
    spec: JobSetSpec = JobSetSpec()


# Nodes


class Taint(Api):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Api):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Api):
    """`declared_features`: what the kubelet can do, from 1.35."""

    declared_features: list[str] = []
    allocatable: Quantities | None = None
    conditions: list[Condition] = []


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """A node without the condition Ready counts as ready: its taints say otherwise where that matters."""
        return not any(one.type == "Ready" and one.status != "True" for one in self.status.conditions)


# Others


class Namespace(Object):
    pass


class PriorityClass(Object):
    value: int = 0


class ConfigMap(Object):
    """A ConfigMap. `binary_data`: values in base64."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class LeaseSpec(Api):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    lease_transitions: int = 0


class Lease(Object):
    spec: LeaseSpec = LeaseSpec()


class ListMetadata(Api):
    resource_version: str = ""
    next: str = field(default="", name="continue")


class Status(Api):
    """The answer of a call that has failed, or of one without an object."""

    code: int = 0
    reason: str = ""
    message: str = ""


# Annotations of claims: the node for which a provisioner makes the volume; bound by the controller of volumes.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
# Of a volume: the controller of volumes may free it again if its claim gets another one.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
# Of claims and volumes; counts before the field.
_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class ClaimSpec(Api, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    volume_mode: str | None = None
    resources: Resources | None = None
    selector: LabelSelector | None = None


class Claim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    @property
    def storage_class(self) -> str:
        return _class_of(self.metadata, self.spec.storage_class_name)

    @property
    def is_bound(self) -> bool:
        """The name of a volume alone is a wish of the user."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in (self.metadata.annotations or ())

    @property
    def selected_node(self) -> str:
        return self.metadata.annotation(SELECTED_NODE)

    def is_controlled_by(self, pod: Pod) -> bool:
        return any(owner.uid == pod.uid and owner.controller for owner in self.metadata.owner_references)


class ClaimReference(Api, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""

    def names(self, claim: Claim) -> bool:
        """A reference without a UID is of the claim of this name, whichever it is."""
        return (self.namespace, self.name) == claim.key and self.uid in ("", claim.metadata.uid)


class VolumeNodeAffinity(Api, frozen=True):
    required: NodeSelector | None = None


class CsiVolume(Api, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Disks, frozen=True):
    capacity: Quantities | None = None
    storage_class_name: str = ""
    access_modes: list[str] = []
    volume_mode: str | None = None
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolume | None = None


class VolumeStatus(Api, frozen=True):
    phase: str = ""


class Volume(Object, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def storage_class(self) -> str:
        return _class_of(self.metadata, self.spec.storage_class_name)


def _class_of(metadata: Metadata, said: str | None) -> str:
    return (metadata.annotations or {}).get(_STORAGE_CLASS, said or "")


class TopologyTerm(Api, frozen=True):
    match_label_expressions: list[Requirement] = []


class StorageClass(Object, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []


class DriverLimit(Api, frozen=True):
    count: int | None = None


class DriverOnNode(Api, frozen=True):
    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(Api, frozen=True):
    drivers: list[DriverOnNode] = []


class CsiNode(Object, frozen=True):
    """The CSI drivers of the node of this name, and how many volumes each can attach."""

    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Api, frozen=True):
    storage_capacity: bool = False


class CsiDriver(Object, frozen=True):
    """`storage_capacity`: it says where how much room is left."""

    spec: CsiDriverSpec = CsiDriverSpec()


class StorageCapacity(Object, frozen=True):
    """A CSIStorageCapacity: the room for volumes of a class on the nodes of a topology."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


class AttachmentSource(Api, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Api, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A volume of a CSI driver that is attached to a node, or is about to be, or is not detached yet."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
