"""The Kubernetes objects about storage, with only the fields that count.

Each says that it is frozen: mypy does not see that of a base in another module.
"""

from __future__ import annotations

from remuda_kubernetes.api.objects import (
    Api,
    Disks,
    LabelSelector,
    NodeSelector,
    Object,
    Quantities,
    Requirement,
    Resources,
)


class ClaimSpec(Api, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = []
    volume_mode: str | None = None
    resources: Resources | None = None


class Claim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()


class ClaimReference(Api, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


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
