"""Topology of pods and nodes: annotations as tags of asks, labels of nodes as attributes. Pure.

Annotations of Kueue and of KAI are read beside those of this front end, so that manifests need no edit. They name a
level by a label of nodes. The scheduler knows a level by its name and by its attribute, which is the label, or what
`ATTRIBUTES` makes of it. The scheduler's configuration says which levels there are: it refuses others, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Metadata, Node, Pod
from remuda_proto import constants

# Labels of nodes that are attributes by other names.
ATTRIBUTES: Final = {
    "kubernetes.io/arch": constants.ARCH,
    "kubernetes.io/os": constants.OS,
    "node.kubernetes.io/instance-type": constants.INSTANCE_TYPE,
    "topology.kubernetes.io/region": constants.FAILURE_DOMAIN_REGION,
    "topology.kubernetes.io/zone": constants.FAILURE_DOMAIN_ZONE,
}
_HOST_LABEL: Final = "kubernetes.io/hostname"

REQUIRED: Final = "remuda.io/topology-required"
PREFERRED: Final = "remuda.io/topology-preferred"
SPREAD: Final = "remuda.io/topology-spread"
SLICE: Final = "remuda.io/topology-slice"  # LEVEL/MEMBERS
GROUP: Final = "remuda.io/topology-group"
SIZE: Final = "remuda.io/topology-size"
_KUEUE: Final = "kueue.x-k8s.io/"
KUEUE_REQUIRED: Final = f"{_KUEUE}podset-required-topology"
KUEUE_PREFERRED: Final = f"{_KUEUE}podset-preferred-topology"
KUEUE_SLICE: Final = f"{_KUEUE}podset-slice-required-topology"
KUEUE_SLICE_SIZE: Final = f"{_KUEUE}podset-slice-size"
KUEUE_PODSET_GROUP: Final = f"{_KUEUE}podset-group-name"
KUEUE_POD_GROUP: Final = f"{_KUEUE}pod-group-name"  # a label
KUEUE_POD_GROUP_SIZE: Final = f"{_KUEUE}pod-group-total-count"
KAI_REQUIRED: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
# By tag: annotations that name its level, the first counts.
_LEVELS: Final = {
    constants.TOPOLOGY_REQUIRED: (REQUIRED, KUEUE_REQUIRED, KAI_REQUIRED),
    constants.TOPOLOGY_PREFERRED: (PREFERRED, KUEUE_PREFERRED, KAI_PREFERRED),
    constants.TOPOLOGY_SPREAD: (SPREAD,),
}
# What a placeholder has of the pod that it stands for.
_KEPT: Final = (
    *(name for kinds in _LEVELS.values() for name in kinds), SLICE, GROUP, SIZE, KUEUE_SLICE, KUEUE_SLICE_SIZE,
    KUEUE_PODSET_GROUP,
)  # fmt: skip


def tags_of(pod: Pod, task_group: str) -> dict[str, str]:
    """The tags of the pod's ask; empty: the pod wants nothing of the topology. `task_group`: of its gang, which is its
    group unless it names one, as Kueue's leader and workers do; else the pods of one owner are a group."""
    if not pod.metadata.annotations:
        return {}
    annotation = pod.metadata.annotation
    tags = {
        tag: _attribute(level)
        for tag, kinds in _LEVELS.items()
        if (level := next(filter(None, map(annotation, kinds)), ""))
    }
    if own := annotation(SLICE):
        level, _, size = own.rpartition("/")
        tags[constants.TOPOLOGY_SLICE] = f"{_attribute(level)}/{size}"
    elif level := annotation(KUEUE_SLICE):
        tags[constants.TOPOLOGY_SLICE] = f"{_attribute(level)}/{annotation(KUEUE_SLICE_SIZE)}"
    if not tags:
        return {}
    group = annotation(GROUP) or annotation(KUEUE_PODSET_GROUP)
    if not group and not task_group:
        group = pod.metadata.label(KUEUE_POD_GROUP) or _owner_of(pod.metadata)
    if group:
        tags[constants.TOPOLOGY_GROUP] = group
    size = annotation(SIZE)
    if not size and pod.metadata.label(KUEUE_POD_GROUP):
        size = annotation(KUEUE_POD_GROUP_SIZE)
    if size:
        tags[constants.TOPOLOGY_SIZE] = size
    return {tag: value[: limits.TOPOLOGY_CHARACTERS] for tag, value in tags.items()}


def _attribute(level: str) -> str:
    """A level that is named by a label of nodes, by its attribute; others as they are."""
    level = level.strip()
    return constants.TOPOLOGY_HOST if level == _HOST_LABEL else ATTRIBUTES.get(level, level)


def _owner_of(metadata: Metadata) -> str:
    """The controller of the pod, such as its Job."""
    owners = [owner for owner in metadata.owner_references if owner.controller] or metadata.owner_references
    return f"{owners[0].kind}/{owners[0].name or owners[0].uid}" if owners else ""


def annotations_of(pod: Pod) -> dict[str, str]:
    """The annotations about the topology, for the placeholders of its gang."""
    return {name: value for name in _KEPT if (value := pod.metadata.annotation(name))}


def attributes_of(node: Node, labels: Iterable[str]) -> dict[str, str]:
    """The attributes of a node from its labels: those with names of their own, and `labels`."""
    known: Mapping[str, str] = {**ATTRIBUTES, **{label: label for label in labels if label not in ATTRIBUTES}}
    return {attribute: value for label, attribute in known.items() if (value := node.metadata.label(label))}
