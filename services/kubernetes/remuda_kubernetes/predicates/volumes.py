"""Predicates of volumes: where the claims of a pod are, or could be. Pure.

A claim that is bound keeps the pod where its volume can be attached. A claim that waits for its first consumer is bound
after the pod was placed: to a volume that is there, or to one that a provisioner makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from remuda_kubernetes.api.objects import Node, Pod
from remuda_kubernetes.api.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume
from remuda_kubernetes.predicates.selectors import NOTHING, Labels, node_selected, selects, topology_selected
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


@dataclass(slots=True)
class Storage:
    """Claims and capacities by namespace and name, all others by name."""

    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CsiNode] = field(default_factory=dict)
    csi_drivers: dict[str, CsiDriver] = field(default_factory=dict)
    capacities: dict[tuple[str, str], StorageCapacity] = field(default_factory=dict)

    def claims_of(self, pod: Pod) -> Iterator[tuple[str, Claim | None]]:
        """The names of the claims, and the claims that there are."""
        for name in claim_names(pod):
            yield name, self.claims.get((pod.metadata.namespace, name))

    def waits_for(self, pod: Pod) -> str:
        """Why the pod can run nowhere yet; empty: it can be placed."""
        for name, claim in self.claims_of(pod):
            if claim is None:
                return f"claim {name} does not exist"
            if claim.metadata.deletion_timestamp is not None:
                return f"claim {name} is being deleted"
            if not claim.spec.volume_name and not self._is_late(claim):
                return f"claim {name} is not bound to a volume yet"
        return ""

    def _is_late(self, claim: Claim) -> bool:
        of = self.classes.get(claim.spec.storage_class_name or "")
        return of is not None and of.volume_binding_mode == WAITS

    def late_claims(self, pod: Pod) -> list[Claim]:
        """Those that are bound after the pod was placed."""
        return [claim for _, claim in self.claims_of(pod) if claim is not None and not claim.spec.volume_name]

    def refusal(self, pod: Pod, node: Node) -> str:
        """Why the volumes of the pod keep it off the node; empty: they do not."""
        problem = self.waits_for(pod)
        if problem:
            return problem
        taken: set[str] = set()
        for name, claim in self.claims_of(pod):
            if claim is None:
                continue
            if not claim.spec.volume_name:
                refusal = self._late_refusal(name, claim, node, taken)
            else:
                refusal = self._bound_refusal(name, claim, node)
            if refusal:
                return refusal
        return ""

    def _bound_refusal(self, name: str, claim: Claim, node: Node) -> str:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None:
            return f"volume {claim.spec.volume_name} of claim {name} does not exist"
        return "" if _suits(volume, node) else f"the volume of claim {name} is not for this node"

    def _late_refusal(self, name: str, claim: Claim, node: Node, taken: set[str]) -> str:
        volume = self.volume_for(claim, node, taken)
        if volume is not None:
            taken.add(volume.metadata.name)
            return ""
        of = self.classes[claim.spec.storage_class_name or ""]
        if of.provisioner == NO_PROVISIONER:
            return f"no volume for claim {name} is there"
        if of.allowed_topologies and not topology_selected(of.allowed_topologies, node.metadata.labels or NOTHING):
            return f"no volume for claim {name} can be made there"
        return "" if self._has_room(of, claim, node) else f"too little storage is left there for claim {name}"

    def _has_room(self, of: StorageClass, claim: Claim, node: Node) -> bool:
        """By what the driver reports of its storage, if it does."""
        size = _size(claim.spec.resources.requests if claim.spec.resources is not None else None)
        driver = self.csi_drivers.get(of.provisioner)
        if not size or driver is None or not driver.spec.storage_capacity:
            return True
        labels = node.metadata.labels or NOTHING
        return any(
            one.storage_class_name == of.metadata.name
            and _size({"storage": one.maximum_volume_size or one.capacity or "0"}) >= size
            and selects(one.node_topology, labels)
            for one in self.capacities.values()
        )

    def volume_for(self, claim: Claim, node: Node, taken: Iterable[str] = ()) -> Volume | None:
        """The smallest volume that is free and suits the claim and the node."""
        suitable = [
            volume
            for volume in self.volumes.values()
            if volume.metadata.name not in taken and _is_for(volume, claim) and _suits(volume, node)
        ]
        return min(suitable, key=lambda one: (_size(one.spec.capacity), one.metadata.name), default=None)


def claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _suits(volume: Volume, node: Node) -> bool:
    """By the node affinity of the volume, and by the zones in its labels."""
    labels = node.metadata.labels or NOTHING
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if required is not None and not node_selected(required, node.metadata.name, labels):
        return False
    return all(_in_zone(volume, labels, key) for key in _ZONES)


def _in_zone(volume: Volume, labels: Labels, key: str) -> bool:
    """A node without labels of any zone is in all of them."""
    zones = volume.metadata.label(key)
    if not zones or not any(one in labels for one in _ZONES):
        return True
    own = labels.get(key) or labels.get(_BETA.get(key, key)) or ""
    return own in zones.split(_BETWEEN_ZONES)


def _is_for(volume: Volume, claim: Claim) -> bool:
    reference = volume.spec.claim_ref
    if reference is not None and reference.name:
        key = reference.namespace, reference.name
        return key == (claim.metadata.namespace, claim.metadata.name) and reference.uid in ("", claim.metadata.uid)
    requests = (claim.spec.resources.requests if claim.spec.resources is not None else None) or {}
    return (
        volume.metadata.deletion_timestamp is None
        and volume.status.phase in ("", "Available")
        and (volume.spec.storage_class_name or "") == (claim.spec.storage_class_name or "")
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and _size(volume.spec.capacity) >= _size(requests)
    )


def _size(of: dict[str, str] | None) -> float:
    try:
        return float(quantity((of or {}).get("storage", "0")))
    except ValueError:
        return 0.0
