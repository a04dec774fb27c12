"""Volumes that are attached to a node, and what they exclude: how many a node can attach, disks that one pod alone may
use there, and claims that one pod alone may use anywhere. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from remuda_kubernetes.api.objects import Disks, Node, Pod
from remuda_kubernetes.api.storage import CsiNode, Volume
from remuda_kubernetes.predicates.selectors import NOTHING
from remuda_kubernetes.predicates.volumes import NO_PROVISIONER, Storage
from remuda_kubernetes.shim.quantities import quantity

EXCLUSIVE: Final = "ReadWriteOncePod"
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"  # of a CSINode: plugins that its drivers replace
_INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_FEW_DISKS: Final = re.compile(r"^[cmr]5.*|t3|z1d")  # instance types that attach 25


class _InTree(NamedTuple):
    """A plugin of Kubernetes itself. `resource`: of the node, its limit. `most`: the limit without it. `driver`: that
    replaces it."""

    resource: str
    most: int
    driver: str


EBS: Final = "kubernetes.io/aws-ebs"
GCE: Final = "kubernetes.io/gce-pd"
AZURE: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
_IN_TREE: Final = {
    EBS: _InTree("attachable-volumes-aws-ebs", 39, "ebs.csi.aws.com"),
    GCE: _InTree("attachable-volumes-gce-pd", 16, "pd.csi.storage.gke.io"),
    AZURE: _InTree("attachable-volumes-azure-disk", 16, "disk.csi.azure.com"),
    CINDER: _InTree("attachable-volumes-cinder", 256, "cinder.csi.openstack.org"),
}

Attachment = tuple[str, str]  # driver or plugin, volume


def attachments(pod: Pod, storage: Storage) -> set[Attachment]:
    """The volumes that are attached to the node of the pod. A claim that binds late, or whose volume was not observed
    yet, counts as a volume of its own."""
    found = {one for volume in pod.spec.volumes if (one := _of_disks(volume)) is not None}
    for name, claim in storage.claims_of(pod):
        if claim is None:
            continue
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is not None:
            if (one := _of_volume(volume)) is not None:
                found.add(one)
        else:
            of = storage.classes.get(claim.storage_class)
            if of is not None and of.provisioner != NO_PROVISIONER:
                found.add((of.provisioner, f"{pod.metadata.namespace}/{name}"))
    return found


def attached_to(node: str, storage: Storage) -> Iterator[Attachment]:
    """What CSI drivers have attached to the node, and have not detached yet, whether a pod is there for it or not."""
    for one in storage.attached.get(node, {}).values():
        name = one.spec.source.persistent_volume_name
        volume = storage.volumes.get(name) if name is not None else None
        of_volume = _of_volume(volume) if volume is not None else None
        yield of_volume or (one.spec.attacher, one.metadata.name)


def _of_volume(volume: Volume) -> Attachment | None:
    csi = volume.spec.csi
    return (csi.driver, csi.volume_handle) if csi is not None else _of_disks(volume.spec)


def _of_disks(of: Disks) -> Attachment | None:
    if of.aws_elastic_block_store is not None:
        return EBS, of.aws_elastic_block_store.volume_id
    if of.gce_persistent_disk is not None:
        return GCE, of.gce_persistent_disk.pd_name
    if of.azure_disk is not None:
        return AZURE, of.azure_disk.disk_name
    if of.cinder is not None:
        return CINDER, of.cinder.volume_id
    return None


def limits_refusal(pod: Pod, storage: Storage, node: Node, there: Iterable[Pod], gone: Iterable[Pod] = ()) -> str:
    """Why the node cannot attach the volumes of the pod beside those of the pods there, and those that are not detached
    yet. `gone`: pods there that count as gone, with their volumes."""
    csi_node = storage.csi_nodes.get(node.metadata.name)
    wanted = _by_driver(attachments(pod, storage), csi_node)
    limits = {driver: limit for driver in wanted if (limit := _limit(driver, node, csi_node)) is not None}
    if not limits:
        return ""
    left = set(attached_to(node.metadata.name, storage)) - _of_pods(gone, storage)
    attached: Mapping[str, Collection[str]] = _by_driver(_of_pods(there, storage) | left, csi_node)
    for driver, limit in limits.items():
        before = frozenset(attached.get(driver, ()))
        new = wanted[driver] - before
        if new and len(before) + len(new) > limit:
            return f"node attaches at most {limit} volumes of {driver}"
    return ""


def _of_pods(pods: Iterable[Pod], storage: Storage) -> set[Attachment]:
    return {attachment for pod in pods for attachment in attachments(pod, storage)}


def _by_driver(some: Iterable[Attachment], csi_node: CsiNode | None) -> dict[str, set[str]]:
    said = csi_node.metadata.annotation(MIGRATED) if csi_node is not None else ""
    migrated = {plugin: _IN_TREE[plugin].driver for plugin in said.split(",") if plugin in _IN_TREE}
    found: dict[str, set[str]] = defaultdict(set)
    for plugin, volume in some:
        found[migrated.get(plugin, plugin)].add(volume)
    return found


def _limit(driver: str, node: Node, csi_node: CsiNode | None) -> int | None:
    """None: there is none."""
    in_tree = _IN_TREE.get(driver)
    if in_tree is not None:
        said = (node.status.allocatable or {}).get(in_tree.resource)
        if said is not None:
            try:
                return int(quantity(said))
            except ValueError:
                return None
        return 25 if driver == EBS and _attaches_few(node) else in_tree.most
    for one in csi_node.spec.drivers if csi_node is not None else ():
        if one.name == driver and one.allocatable is not None:
            return one.allocatable.count
    return None


def _attaches_few(node: Node) -> bool:
    labels = node.metadata.labels or NOTHING
    return bool(_FEW_DISKS.search(next((labels[key] for key in _INSTANCE_TYPES if key in labels), "")))


# Disks without a claim


def disks_refusal(pod: Pod, there: Iterable[Pod]) -> str:
    """Some disks cannot be in two pods of a node, or only if both do not write."""
    own = [volume for volume in pod.spec.volumes if _is_disk(volume)]
    for other in (volume for one in there for volume in one.spec.volumes) if own else ():
        if any(_conflict(volume, other) for volume in own):
            return "a pod there uses the same disk"
    return ""


def has_disks(pod: Pod) -> bool:
    return any(_is_disk(volume) or _of_disks(volume) is not None for volume in pod.spec.volumes)


def _is_disk(of: Disks) -> bool:
    return bool(of.gce_persistent_disk or of.aws_elastic_block_store or of.iscsi or of.rbd)


def _conflict(one: Disks, other: Disks) -> bool:
    if one.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
        a, b = one.gce_persistent_disk, other.gce_persistent_disk
        return a.pd_name == b.pd_name and not (a.read_only and b.read_only)
    if one.aws_elastic_block_store is not None and other.aws_elastic_block_store is not None:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi is not None and other.iscsi is not None:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd is not None and other.rbd is not None:
        c, d = one.rbd, other.rbd
        is_same = (c.pool, c.image) == (d.pool, d.image) and not set(c.monitors).isdisjoint(d.monitors)
        return is_same and not (c.read_only and d.read_only)
    return False


# Claims of one pod


def exclusive_claims(pod: Pod, storage: Storage) -> list[tuple[str, str]]:
    """Namespace and name of the claims that no other pod may use at the same time."""
    return [
        (pod.metadata.namespace, name)
        for name, claim in storage.claims_of(pod)
        if claim is not None and EXCLUSIVE in claim.spec.access_modes
    ]
