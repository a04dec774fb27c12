"""The Kubernetes objects about storage, with only the fields that count.

Each says that it is frozen: mypy does not see that of a base in another module.
"""

from __future__ import annotations

from typing import Final

from remuda_kubernetes.api.objects import (
    Api,
    Disks,
    LabelSelector,
    Metadata,
    NodeSelector,
    Object,
    Pod,
    Quantities,
    Requirement,
    Resources,
)

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
