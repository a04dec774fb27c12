"""The collections of the Kubernetes API that this front end reads."""

from __future__ import annotations

from typing import Final

from remuda_kubernetes.api.client import Resource
from remuda_kubernetes.api.objects import ConfigMap, Namespace, Node, Pod, PriorityClass
from remuda_kubernetes.api.storage import (
    Claim,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
)

PODS: Final = Resource("/api/v1/pods", Pod)
NODES: Final = Resource("/api/v1/nodes", Node)
NAMESPACES: Final = Resource("/api/v1/namespaces", Namespace)
CLAIMS: Final = Resource("/api/v1/persistentvolumeclaims", Claim)
VOLUMES: Final = Resource("/api/v1/persistentvolumes", Volume)
STORAGE_CLASSES: Final = Resource("/apis/storage.k8s.io/v1/storageclasses", StorageClass)
CSI_NODES: Final = Resource("/apis/storage.k8s.io/v1/csinodes", CsiNode)
CSI_DRIVERS: Final = Resource("/apis/storage.k8s.io/v1/csidrivers", CsiDriver)
STORAGE_CAPACITIES: Final = Resource("/apis/storage.k8s.io/v1/csistoragecapacities", StorageCapacity)
VOLUME_ATTACHMENTS: Final = Resource("/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment)
PRIORITY_CLASSES: Final = Resource("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass)


def config_maps(namespace: str) -> Resource[ConfigMap]:
    return Resource(f"/api/v1/namespaces/{namespace}/configmaps", ConfigMap)
