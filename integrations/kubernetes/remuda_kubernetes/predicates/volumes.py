"""Predicates of volumes: where the claims of a pod are, or could be, and which volumes exclude each other. Pure.

A claim that is bound keeps the pod where its volume can be attached. A claim that waits for its first consumer is bound
after the pod was placed: to a volume that is there, or to one that a provisioner makes. A node can attach so many
volumes; some disks are for one pod alone on a node, and some claims for one pod alone anywhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from remuda_kubernetes.api.objects import (
    Claim,
    ClaimReference,
    CsiDriver,
    CsiNode,
    Disks,
    Node,
    Pod,
    PodVolume,
    Quantities,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from remuda_kubernetes.predicates.on_node import NOTHING, Labels, node_selected, selects, topology_selected
from remuda_kubernetes.shim.quantities import quantity

WAITS: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_BETA: Final = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
_BETWEEN_ZONES: Final = "__"


class Plan(NamedTuple):
    """How late claims are bound. `given`: to volumes that are there. `made`: a provisioner makes their volumes."""

    given: list[tuple[Volume, Claim]]
    made: list[Claim]


@dataclass(slots=True)
class Storage:
    """Claims and capacities by namespace and name, attachments by node and name, all others by name.

    `reserved`: volume -> the claim that gets it. `selected`: UID of a claim -> the node for which its volume is made.
    Both hold what was decided and has not been observed yet, so that the next decision counts it. `has_capacities`: the
    API server has objects that say how much storage is left."""

    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CsiNode] = field(default_factory=dict)
    csi_drivers: dict[str, CsiDriver] = field(default_factory=dict)
    capacities: dict[tuple[str, str], StorageCapacity] = field(default_factory=dict)
    attached: dict[str, dict[str, VolumeAttachment]] = field(default_factory=dict)
    reserved: dict[str, ClaimReference] = field(default_factory=dict)
    selected: dict[str, str] = field(default_factory=dict)
    has_capacities: bool = True

    def claims_of(self, pod: Pod) -> Iterator[tuple[str, Claim | None]]:
        """The names of the claims, and the claims that there are."""
        for name in claim_names(pod):
            yield name, self.claims.get((pod.metadata.namespace, name))

    def waits_for(self, pod: Pod) -> str:
        """Why the pod can run nowhere yet; empty: it can be placed."""
        for volume in pod.spec.volumes:
            name = _claim_name(pod, volume)
            claim = self.claims.get((pod.metadata.namespace, name)) if name else None
            if name and (problem := self._problem_of(claim, name)):
                return problem
            if claim is not None and volume.ephemeral is not None and not claim.is_controlled_by(pod):
                return f"claim {name} was not created for the pod"
        return ""

    def _problem_of(self, claim: Claim | None, name: str) -> str:
        if claim is None:
            return f"claim {name} does not exist"
        if claim.metadata.deletion_timestamp is not None:
            return f"claim {name} is being deleted"
        if not claim.is_bound and (claim.spec.volume_name or not self._is_late(claim)):
            return f"claim {name} is not bound to a volume yet"
        return ""

    def _is_late(self, claim: Claim) -> bool:
        of = self.classes.get(claim.storage_class)
        return of is not None and of.volume_binding_mode == WAITS

    def late_claims(self, pod: Pod) -> list[Claim]:
        """The claims of the pod that are bound after the pod was placed, the smallest first."""
        found = {claim.key: claim for _, claim in self.claims_of(pod) if claim is not None}
        return sorted((one for one in found.values() if not one.spec.volume_name), key=_requested)

    def are_bound(self, pod: Pod) -> bool:
        """Whether all claims of the pod are bound, and their volumes known."""
        return all(
            claim is not None and claim.is_bound and claim.spec.volume_name in self.volumes
            for _, claim in self.claims_of(pod)
        )

    def has_begun(self, pod: Pod, node: str) -> bool:
        """Whether the API server says that its claims are being bound for the node: a volume is made, or reserved."""
        return any(claim.selected_node == node or self._has_volume(claim) for claim in self.late_claims(pod))

    def _has_volume(self, claim: Claim) -> bool:
        """Although the claim does not name it yet."""
        references = (volume.spec.claim_ref for volume in self.volumes.values())
        return any(one is not None and one.names(claim) for one in references)

    # Predicates

    def refusal(self, pod: Pod, node: Node) -> str:
        """Why the volumes of the pod keep it off the node; empty: they do not."""
        problem = self.waits_for(pod) or self._bound_refusal(pod, node)
        if problem:
            return problem
        refusals = (self._made_refusal(claim, node) for claim in self.plan(pod, node).made)
        return next((one for one in refusals if one), "")

    def _bound_refusal(self, pod: Pod, node: Node) -> str:
        for name, claim in self.claims_of(pod):
            if claim is None or not claim.is_bound:
                continue
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                return f"volume {claim.spec.volume_name} of claim {name} does not exist"
            if not (_is_near(volume, node) and _is_in_zone(volume, node)):
                return f"the volume of claim {name} is not for this node"
        return ""

    def _made_refusal(self, claim: Claim, node: Node) -> str:
        """A node that was selected for a claim stays selected until its provisioner says no."""
        name, selected = claim.metadata.name, self.node_of(claim)
        if selected not in ("", node.metadata.name):
            return f"the volume of claim {name} is made for node {selected}"
        of = self.classes[claim.storage_class]
        if of.provisioner in ("", NO_PROVISIONER):
            return f"no volume for claim {name} is there"
        if of.allowed_topologies and not topology_selected(of.allowed_topologies, node.metadata.labels or NOTHING):
            return f"no volume for claim {name} can be made there"
        return "" if self._has_room(of, claim, node) else f"too little storage is left there for claim {name}"

    def _has_room(self, of: StorageClass, claim: Claim, node: Node) -> bool:
        """By what the driver reports of its storage, if it does."""
        size = _requested(claim)
        driver = self.csi_drivers.get(of.provisioner)
        if not size or not self.has_capacities or driver is None or not driver.spec.storage_capacity:
            return True
        labels = node.metadata.labels or NOTHING
        return any(
            one.storage_class_name == of.metadata.name
            and _size({"storage": one.maximum_volume_size or one.capacity or "0"}) >= size
            and selects(one.node_topology, labels)
            for one in self.capacities.values()
        )

    def lost(self, pod: Pod, node: Node) -> str:
        """Why the claims of a pod, which are being bound for the node, will not suit it; empty: they may."""
        for name, claim in self.claims_of(pod):
            if claim is None:
                return f"claim {name} does not exist"
            if not claim.is_bound and self.node_of(claim) not in ("", node.metadata.name):
                return f"the volume of claim {name} is made for node {self.node_of(claim)}"
        return self._bound_refusal(pod, node) if self.are_bound(pod) else ""

    # Claims that bind late

    def plan(self, pod: Pod, node: Node) -> Plan:
        plan = Plan([], [])
        taken: set[str] = set()
        for claim in self.late_claims(pod):
            volume = None if self.node_of(claim) else self._volume_for(claim, node, taken)
            if volume is None:
                plan.made.append(claim)
            else:
                taken.add(volume.metadata.name)
                plan.given.append((volume, claim))
        return plan

    def _volume_for(self, claim: Claim, node: Node, taken: Collection[str]) -> Volume | None:
        """The volume that is reserved for the claim, else the smallest one that is free. None also if the reserved one
        is not for the node."""
        candidates = [one for one in self.volumes.values() if one.metadata.name not in taken and _may_be_of(one, claim)]
        for volume in candidates:
            reference = self.claim_of(volume)
            if reference is not None and reference.names(claim):
                return volume if _is_near(volume, node) else None
        free = (one for one in candidates if self.claim_of(one) is None and _is_free_for(one, claim))
        near = (one for one in free if _is_near(one, node))
        return min(near, key=lambda one: (_size(one.spec.capacity), one.metadata.name), default=None)

    def claim_of(self, volume: Volume) -> ClaimReference | None:
        return volume.spec.claim_ref or self.reserved.get(volume.metadata.name)

    def node_of(self, claim: Claim) -> str:
        return self.selected.get(claim.metadata.uid) or claim.selected_node

    def assume(self, plan: Plan, node: Node) -> None:
        """Count a plan as done until it is observed, or dropped."""
        for volume, claim in plan.given:
            namespace, name = claim.key
            self.reserved[volume.metadata.name] = ClaimReference(namespace=namespace, name=name, uid=claim.metadata.uid)
        for claim in plan.made:
            self.selected[claim.metadata.uid] = node.metadata.name

    def is_assumed(self, claim: Claim) -> bool:
        return claim.metadata.uid in self.selected or any(one.names(claim) for one in self.reserved.values())

    def drop(self, claims: Collection[Claim]) -> None:
        """Forget what was assumed of these claims."""
        for claim in claims:
            self.selected.pop(claim.metadata.uid, None)
        for name in [name for name, one in self.reserved.items() if any(one.names(claim) for claim in claims)]:
            del self.reserved[name]

    # Observations

    def put_claim(self, claim: Claim) -> None:
        self.claims[claim.key] = claim
        if claim.is_bound:
            self.drop([claim])
        elif claim.selected_node:
            self.selected.pop(claim.metadata.uid, None)

    def put_volume(self, volume: Volume) -> None:
        self.volumes[volume.metadata.name] = volume
        if volume.spec.claim_ref is not None:
            self.reserved.pop(volume.metadata.name, None)

    def remove_volume(self, name: str) -> None:
        self.volumes.pop(name, None)
        self.reserved.pop(name, None)


def claim_names(pod: Pod) -> Iterator[str]:
    return (name for volume in pod.spec.volumes if (name := _claim_name(pod, volume)))


def _claim_name(pod: Pod, volume: PodVolume) -> str:
    """Empty: the volume is no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _is_near(volume: Volume, node: Node) -> bool:
    """By the node affinity of the volume."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    return required is None or node_selected(required, node.metadata.name, node.metadata.labels or NOTHING)


def _is_in_zone(volume: Volume, node: Node) -> bool:
    """By the zones in the labels of the volume. They count for bound volumes only, as for the default scheduler."""
    labels = node.metadata.labels or NOTHING
    return all(_has_zone(volume, labels, key) for key in _ZONES)


def _has_zone(volume: Volume, labels: Labels, key: str) -> bool:
    """A node without labels of any zone is in all of them."""
    zones = volume.metadata.label(key)
    if not zones or not any(one in labels for one in _ZONES):
        return True
    own = labels.get(key) or labels.get(_BETA.get(key, key)) or ""
    return own in zones.split(_BETWEEN_ZONES)


def _may_be_of(volume: Volume, claim: Claim) -> bool:
    """What holds for a volume that is reserved for the claim, too."""
    return (
        volume.metadata.deletion_timestamp is None
        and volume.storage_class == claim.storage_class
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and _size(volume.spec.capacity) >= _requested(claim)
    )


def _is_free_for(volume: Volume, claim: Claim) -> bool:
    return (
        volume.status.phase == "Available"
        and (claim.spec.selector is None or selects(claim.spec.selector, volume.metadata.labels or NOTHING))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _requested(claim: Claim) -> Decimal:
    return _size(claim.spec.resources.requests if claim.spec.resources is not None else None)


def _size(of: Quantities | None) -> Decimal:
    try:
        return quantity((of or {}).get("storage", "0"))
    except ValueError:
        return Decimal(0)


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
    """The volumes that CSI drivers have attached to the node and not detached yet, with or without a pod there."""
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
