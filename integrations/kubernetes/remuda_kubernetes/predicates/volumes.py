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
from remuda_kubernetes.predicates.places import Placed, place_of_labels, places_of_terms
from remuda_kubernetes.shim.quantities import quantity

Key = tuple[str, str]  # namespace, name
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
    API server has objects that say how much storage is left.

    Volumes and capacities change by `put_…` and `remove_…` only: so a decision finds them without looking at all."""

    claims: dict[Key, Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CsiNode] = field(default_factory=dict)
    csi_drivers: dict[str, CsiDriver] = field(default_factory=dict)
    capacities: dict[Key, StorageCapacity] = field(default_factory=dict)
    attached: dict[str, dict[str, VolumeAttachment]] = field(default_factory=dict)
    reserved: dict[str, ClaimReference] = field(default_factory=dict)
    selected: dict[str, str] = field(default_factory=dict)
    has_capacities: bool = True
    # Volumes without a claim by class and mode, with their sizes; volumes by the claim that they name, and that they
    # get; capacities by class.
    _free: dict[tuple[str, str], Placed[tuple[Decimal, str]]] = field(default_factory=dict)
    _named: dict[Key, dict[str, None]] = field(default_factory=dict)
    _reserved_for: dict[Key, dict[str, None]] = field(default_factory=dict)
    _rooms: dict[str, Placed[Key]] = field(default_factory=dict)
    # The room for volumes that are being made: in all by capacity, and of each claim (UID) with its capacities.
    _promised: dict[Key, Decimal] = field(default_factory=dict)
    _promises: dict[str, tuple[Decimal, list[Key]]] = field(default_factory=dict)

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
        """Whether the API server says that claims of the pod are being bound for the node: a volume is made, or
        reserved."""
        return any(claim.selected_node == node or self._has_volume(claim) for claim in self.late_claims(pod))

    def _has_volume(self, claim: Claim) -> bool:
        """Although the claim does not name it yet."""
        references = (self.volumes[name].spec.claim_ref for name in self._named.get(claim.key, ()))
        return any(one is not None and one.names(claim) for one in references)

    # Predicates

    def refusal(self, pod: Pod, node: Node, *, jointly: bool = True) -> str:
        """Why the volumes of the pod keep it off the node; empty: they do not. `jointly`: as for `plan()`."""
        problem = self.waits_for(pod) or self._bound_refusal(pod, node)
        return problem or self._plan_refusal(self.plan(pod, node, jointly=jointly), node)

    def _plan_refusal(self, plan: Plan, node: Node) -> str:
        refusals = (self._made_refusal(claim, node) for claim in plan.made)
        return next((one for one in refusals if one), "") or self._room_refusal(plan, node)

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
        if not size or not self._says_room(of):
            return True
        rooms = self._rooms_at(of.metadata.name, node)
        return any(_size({"storage": one.maximum_volume_size or one.capacity or "0"}) >= size for _, one in rooms)

    def _says_room(self, of: StorageClass) -> bool:
        driver = self.csi_drivers.get(of.provisioner)
        return self.has_capacities and driver is not None and driver.spec.storage_capacity

    def _rooms_at(self, class_name: str, node: Node) -> Iterator[tuple[Key, StorageCapacity]]:
        labels, rooms = node.metadata.labels or NOTHING, self._rooms.get(class_name)
        found = ((key, self.capacities[key]) for key in (rooms.near(labels) if rooms is not None else ()))
        return ((key, one) for key, one in found if selects(one.node_topology, labels))

    def _room_refusal(self, plan: Plan, node: Node) -> str:
        """The volumes that a plan has made must fit together, beside those that are being made for other pods. The
        default scheduler looks at each alone, and leaves it to the provisioner to say no."""
        wanted: dict[str, Decimal] = defaultdict(Decimal)
        for claim in plan.made:
            if claim.metadata.uid not in self._promises:
                wanted[claim.storage_class] += _requested(claim)
        for name, size in wanted.items():
            rooms = list(self._rooms_at(name, node)) if size and self._says_room(self.classes[name]) else []
            if not rooms or any(one.capacity is None for _, one in rooms):
                continue
            left = sum(max(_size({"storage": one.capacity or "0"}) - self._promised.get(key, 0), Decimal(0))
                       for key, one in rooms)  # fmt: skip
            if size > left:
                return f"too little storage is left there for new volumes of class {name}"
        return ""

    def lost(self, pod: Pod, node: Node) -> str:
        """Why the claims of a pod, which are being bound for the node, will not suit it; empty: they may."""
        for name, claim in self.claims_of(pod):
            if claim is None:
                return f"claim {name} does not exist"
            if not claim.is_bound and self.node_of(claim) not in ("", node.metadata.name):
                return f"the volume of claim {name} is made for node {self.node_of(claim)}"
        return self._bound_refusal(pod, node) if self.are_bound(pod) else ""

    # Claims that bind late

    def plan(self, pod: Pod, node: Node, *, jointly: bool = True) -> Plan:
        """Chooses volumes as the default scheduler does: one claim after the other, the smallest first. `jointly`:
        where that leaves a claim without a volume, the claims are looked at together, which the default scheduler does
        not do."""
        claims = self.late_claims(pod)
        plan = self._one_by_one(claims, node)
        if jointly and len(claims) > 1 and self._plan_refusal(plan, node):
            return self._together(claims, node)
        return plan

    def _one_by_one(self, claims: Iterable[Claim], node: Node) -> Plan:
        plan = Plan([], [])
        taken: set[str] = set()
        for claim in claims:
            free = (one for one in self._volumes_for(claim, node) if one.metadata.name not in taken)
            volume = next(free, None)
            if volume is None:
                plan.made.append(claim)
            else:
                taken.add(volume.metadata.name)
                plan.given.append((volume, claim))
        return plan

    def _together(self, claims: Iterable[Claim], node: Node) -> Plan:
        """A matching of claims and volumes: all claims have a volume whose volumes cannot be made, if any matching
        does that, and what is left to be made is as small as it can be. For that, a claim keeps a volume once it has
        one, and those come first that need it most."""
        given: dict[str, tuple[Volume, Claim]] = {}

        def give(claim: Claim, seen: set[str]) -> bool:
            for volume in self._volumes_for(claim, node):
                name = volume.metadata.name
                if name in seen:
                    continue
                seen.add(name)
                if name not in given or give(given[name][1], seen):
                    given[name] = volume, claim
                    return True
            return False

        def need(claim: Claim) -> tuple[bool, Decimal]:
            return bool(self._made_refusal(claim, node)), _requested(claim)

        made = [claim for claim in sorted(claims, key=need, reverse=True) if not give(claim, set())]
        return Plan(list(given.values()), made)

    def _volumes_for(self, claim: Claim, node: Node) -> Iterator[Volume]:
        """The volume that is reserved for the claim, else those that are free, the smallest first. None if the reserved
        one is not for the node, or a volume is made for the claim."""
        if self.node_of(claim):
            return
        for name in (*self._named.get(claim.key, ()), *self._reserved_for.get(claim.key, ())):
            volume = self.volumes[name]
            reference = self.claim_of(volume)
            if reference is not None and reference.names(claim) and _may_be_of(volume, claim):
                if _is_near(volume, node):
                    yield volume
                return
        free = self._free.get((claim.storage_class, _mode(claim)))
        for _, name in free.near(node.metadata.labels or NOTHING, (_requested(claim), "")) if free is not None else ():
            volume = self.volumes[name]
            if name not in self.reserved and _is_free_for(volume, claim) and _is_near(volume, node):
                yield volume

    def claim_of(self, volume: Volume) -> ClaimReference | None:
        return volume.spec.claim_ref or self.reserved.get(volume.metadata.name)

    def node_of(self, claim: Claim) -> str:
        return self.selected.get(claim.metadata.uid) or claim.selected_node

    def assume(self, plan: Plan, node: Node) -> None:
        """Count a plan as done until it is observed, or dropped."""
        for volume, claim in plan.given:
            namespace, name = claim.key
            self._unreserve(volume.metadata.name)
            self.reserved[volume.metadata.name] = ClaimReference(namespace=namespace, name=name, uid=claim.metadata.uid)
            self._reserved_for.setdefault(claim.key, {})[volume.metadata.name] = None
        for claim in plan.made:
            self.selected[claim.metadata.uid] = node.metadata.name
            self._promise(claim, node)

    def _promise(self, claim: Claim, node: Node) -> None:
        of = self.classes.get(claim.storage_class)
        if of is not None and claim.metadata.uid not in self._promises and self._says_room(of):
            keys, size = [key for key, _ in self._rooms_at(of.metadata.name, node)], _requested(claim)
            self._promises[claim.metadata.uid] = size, keys
            for key in keys:
                self._promised[key] = self._promised.get(key, Decimal(0)) + size

    def _break_promise(self, claim: Claim) -> None:
        size, keys = self._promises.pop(claim.metadata.uid, (Decimal(0), []))
        for key in keys:
            self._promised[key] -= size
            if not self._promised[key]:
                del self._promised[key]

    def is_assumed(self, claim: Claim) -> bool:
        return claim.metadata.uid in self.selected or any(True for _ in self._reserved_volumes(claim))

    def drop(self, claims: Iterable[Claim]) -> None:
        """Forget what was assumed of these claims."""
        for claim in claims:
            self.selected.pop(claim.metadata.uid, None)
            self._break_promise(claim)
            for name in list(self._reserved_volumes(claim)):
                self._unreserve(name)

    def _reserved_volumes(self, claim: Claim) -> Iterator[str]:
        return (name for name in self._reserved_for.get(claim.key, ()) if self.reserved[name].names(claim))

    def _unreserve(self, volume: str) -> None:
        one = self.reserved.pop(volume, None)
        if one is not None:
            _remove(self._reserved_for, (one.namespace, one.name), volume)

    # Observations

    def put_claim(self, claim: Claim) -> None:
        self.claims[claim.key] = claim
        if claim.is_bound:
            self.drop([claim])
        elif claim.selected_node:
            self.selected.pop(claim.metadata.uid, None)

    def put_volume(self, volume: Volume) -> None:
        name, of = volume.metadata.name, volume.spec.claim_ref
        self._remove_volume(name)
        self.volumes[name] = volume
        if of is not None:
            self._unreserve(name)
            self._named.setdefault((of.namespace, of.name), {})[name] = None
        elif volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None:
            affinity = volume.spec.node_affinity
            places = places_of_terms(affinity.required if affinity is not None else None)
            free = self._free.setdefault((volume.storage_class, _mode(volume)), Placed())
            free.put((_size(volume.spec.capacity), name), places)

    def _remove_volume(self, name: str) -> None:
        before = self.volumes.pop(name, None)
        if before is None:
            return
        if (of := before.spec.claim_ref) is not None:
            _remove(self._named, (of.namespace, of.name), name)
        elif (free := self._free.get(kind := (before.storage_class, _mode(before)))) is not None:
            free.remove((_size(before.spec.capacity), name))
            if not free:
                del self._free[kind]

    def remove_volume(self, name: str) -> None:
        self._remove_volume(name)
        self._unreserve(name)

    def put_capacity(self, capacity: StorageCapacity) -> None:
        self.remove_capacity(capacity)
        key = capacity.metadata.namespace, capacity.metadata.name
        self.capacities[key] = capacity
        rooms = self._rooms.setdefault(capacity.storage_class_name, Placed())
        rooms.put(key, [place_of_labels(capacity.node_topology)])

    def remove_capacity(self, capacity: StorageCapacity) -> None:
        key = capacity.metadata.namespace, capacity.metadata.name
        before = self.capacities.pop(key, None)
        if before is not None:
            rooms = self._rooms[before.storage_class_name]
            rooms.remove(key)
            if not rooms:
                del self._rooms[before.storage_class_name]


def _remove(names: dict[Key, dict[str, None]], key: Key, name: str) -> None:
    of = names[key]
    del of[name]
    if not of:
        del names[key]


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
    """Whether the volume fits the claim, by the rules that hold for a volume that is reserved for the claim, too."""
    return (
        volume.metadata.deletion_timestamp is None
        and volume.storage_class == claim.storage_class
        and _mode(volume) == _mode(claim)
        and _size(volume.spec.capacity) >= _requested(claim)
    )


def _is_free_for(volume: Volume, claim: Claim) -> bool:
    return (claim.spec.selector is None or selects(claim.spec.selector, volume.metadata.labels or NOTHING)) and set(
        claim.spec.access_modes
    ) <= set(volume.spec.access_modes)


def _mode(of: Volume | Claim) -> str:
    return of.spec.volume_mode or "Filesystem"


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
