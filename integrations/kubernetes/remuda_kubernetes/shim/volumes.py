"""Volumes of pods. A pod waits for its claims before it is asked for, or before it is bound if they bind late. Pure."""

from __future__ import annotations

from collections.abc import Callable

from remuda_kubernetes.api.objects import (
    Claim,
    CsiDriver,
    CsiNode,
    Node,
    Pod,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from remuda_kubernetes.predicates.volumes import claim_names
from remuda_kubernetes.shim.cache import Cache, PodEntry
from remuda_kubernetes.shim.effects import BindVolumes
from remuda_kubernetes.shim.questions import Questions

OnEntry = Callable[[PodEntry], None]


class Volumes:
    """`ready`: called for a pod whose claims have changed. `failed`: when its claims were not bound in time."""

    def __init__(
        self, cache: Cache, questions: Questions, ready: OnEntry, failed: Callable[[PodEntry, str], None]
    ) -> None:
        self._cache = cache
        self._questions = questions
        self._ready = ready
        self._failed = failed
        self._awaited: dict[tuple[str, str], dict[str, None]] = {}  # claim -> UIDs of pods that wait for it
        self._binding: dict[str, None] = {}  # UIDs, an ordered set

    def hold(self, entry: PodEntry) -> str:
        """Why the pod cannot be asked for yet; empty: it can. It is looked at again when its claims change."""
        reason = self._cache.storage.waits_for(entry.pod)
        if reason:
            self._await(entry)
        return reason

    def _await(self, entry: PodEntry) -> None:
        for name in claim_names(entry.pod):
            self._awaited.setdefault((entry.pod.metadata.namespace, name), {})[entry.pod.uid] = None

    def forget(self, pod: Pod) -> None:
        """The pod has ended, or is gone."""
        for name in claim_names(pod):
            key = pod.metadata.namespace, name
            waiting = self._awaited.get(key, {})
            waiting.pop(pod.uid, None)
            if not waiting:
                self._awaited.pop(key, None)

    def bind(self, entry: PodEntry, node: str) -> bool:
        """Have late claims bound for the node. False: all claims are bound, and so can the pod be."""
        storage, on = self._cache.storage, self._cache.nodes.get(node)
        if storage.are_bound(entry.pod):
            entry.volumes_since = None
            self._binding.pop(entry.pod.uid, None)
            return False
        self._await(entry)
        if entry.volumes_since is None and on is not None:
            entry.volumes_since = self._cache.sweeps
            self._binding[entry.pod.uid] = None
            self._request(entry, on.node)
        return True

    def _request(self, entry: PodEntry, node: Node) -> None:
        """Request the writes that bind the pod's claims for the node. Writes of an earlier process are not repeated."""
        plan = self._cache.storage.plan(entry.pod, node)
        self._cache.storage.assume(plan, node)
        reserved = tuple((volume, claim) for volume, claim in plan.given if not _is_reserved(volume, claim))
        selected = tuple(claim for claim in plan.made if claim.selected_node != node.metadata.name)
        if reserved or selected:
            self._cache.emit(BindVolumes(entry.name, node.metadata.name, reserved, selected))

    def give_up(self, entry: PodEntry) -> None:
        """The pod has lost its node, or ended: forget the volumes and the node that were assumed for its claims. The
        API server may never report them: an annotation may be written and removed between two lists."""
        if entry.volumes_since is not None:
            entry.volumes_since = None
            self._binding.pop(entry.pod.uid, None)
            self._cache.storage.drop(self._cache.storage.late_claims(entry.pod))
            self._cache.is_room_changed = True

    def lost(self, entry: PodEntry) -> str:
        """Why the claims of a pod that are being bound will not suit its node any more; empty: they may."""
        on = self._cache.nodes.get(entry.node)
        return self._cache.storage.lost(entry.pod, on.node) if on is not None else ""

    def refused(self, change: BindVolumes) -> None:
        """The API server did not take it: what was assumed of it is not so."""
        self._cache.storage.drop([*(claim for _, claim in change.reserved), *change.selected])

    # Reports of the API server

    def claim_changed(self, claim: Claim) -> None:
        before = self._cache.storage.claims.get(claim.key)
        self._cache.storage.put_claim(claim)
        if before is not None and before.selected_node and not claim.selected_node and not claim.is_bound:
            self._not_made(claim, before.selected_node)
        self._look_again(claim.key)

    def _not_made(self, claim: Claim, node: str) -> None:
        """The provisioner of the claim cannot make the volume for this node, and has taken the annotation away. The
        pods that wait for the claim are placed elsewhere."""
        for uid in list(self._awaited.get(claim.key, ())):
            entry = self._cache.pods.get(uid)
            if entry is not None and entry.volumes_since is not None and entry.node == node:
                reason = f"the volume of claim {claim.metadata.name} cannot be made for node {node}"
                self._questions.keep_off(entry, node, reason)
                self._failed(entry, reason)

    def claim_gone(self, claim: Claim) -> None:
        self._cache.storage.claims.pop(claim.key, None)
        self._cache.storage.drop([claim])
        self._look_again(claim.key)

    def volume_changed(self, volume: Volume) -> None:
        self._cache.storage.put_volume(volume)
        self._cache.is_room_changed = True
        of = volume.spec.claim_ref
        if of is not None:
            self._look_again((of.namespace, of.name))

    def volume_gone(self, volume: Volume) -> None:
        self._cache.storage.remove_volume(volume.metadata.name)

    def class_changed(self, of: StorageClass) -> None:
        self._cache.storage.classes[of.metadata.name] = of
        self._cache.is_room_changed = True
        for key in list(self._awaited):
            self._look_again(key)

    def class_gone(self, of: StorageClass) -> None:
        self._cache.storage.classes.pop(of.metadata.name, None)

    def driver_changed(self, driver: CsiDriver) -> None:
        self._cache.storage.csi_drivers[driver.metadata.name] = driver
        self._cache.is_room_changed = True

    def driver_gone(self, driver: CsiDriver) -> None:
        self._cache.storage.csi_drivers.pop(driver.metadata.name, None)
        self._cache.is_room_changed = True

    def csi_node_changed(self, csi_node: CsiNode) -> None:
        self._cache.storage.csi_nodes[csi_node.metadata.name] = csi_node
        self._cache.is_room_changed = True

    def csi_node_gone(self, csi_node: CsiNode) -> None:
        self._cache.storage.csi_nodes.pop(csi_node.metadata.name, None)
        self._cache.is_room_changed = True

    def attachment_changed(self, attachment: VolumeAttachment) -> None:
        on_node = self._cache.storage.attached.setdefault(attachment.spec.node_name, {})
        on_node[attachment.metadata.name] = attachment

    def attachment_gone(self, attachment: VolumeAttachment) -> None:
        attached, node = self._cache.storage.attached, attachment.spec.node_name
        on_node = attached.get(node, {})
        on_node.pop(attachment.metadata.name, None)
        if not on_node:
            attached.pop(node, None)
        self._cache.is_room_changed = True

    def capacity_changed(self, capacity: StorageCapacity) -> None:
        self._cache.storage.put_capacity(capacity)
        self._cache.is_room_changed = True

    def capacity_gone(self, capacity: StorageCapacity) -> None:
        self._cache.storage.remove_capacity(capacity)

    def _look_again(self, key: tuple[str, str]) -> None:
        self._cache.is_room_changed = True
        for uid in self._awaited.pop(key, ()):
            entry = self._cache.pods.get(uid)
            if entry is not None:
                self._ready(entry)

    def sweep(self) -> None:
        """Claims that are not bound in time."""
        for uid in list(self._binding):
            entry = self._cache.pods.get(uid)
            if entry is None or entry.volumes_since is None or not entry.uuid or entry.is_bound:
                del self._binding[uid]
            elif self._cache.sweeps - entry.volumes_since > self._cache.policy.volume_sweeps:
                self.give_up(entry)
                self._failed(entry, "its claims were not bound in time")


def _is_reserved(volume: Volume, claim: Claim) -> bool:
    """Whether the API server says that the volume is reserved for the claim. A user may have reserved it for the
    claim's name alone."""
    return volume.spec.claim_ref is not None and volume.spec.claim_ref.uid == claim.metadata.uid
