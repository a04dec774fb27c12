"""Volumes of pods. A pod waits for its claims before it is asked for, or before it is bound if they bind late. Pure."""

from __future__ import annotations

from collections.abc import Callable

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.storage import Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume
from remuda_kubernetes.predicates.volumes import claim_names
from remuda_kubernetes.shim.books import Books, PodEntry
from remuda_kubernetes.shim.effects import BindVolumes

OnEntry = Callable[[PodEntry], None]


class Volumes:
    """`ready`: called for a pod whose claims have changed. `failed`: when its claims were not bound in time."""

    def __init__(self, books: Books, ready: OnEntry, failed: Callable[[PodEntry, str], None]) -> None:
        self._books = books
        self._ready = ready
        self._failed = failed
        self._awaited: dict[tuple[str, str], dict[str, None]] = {}  # claim -> UIDs of pods that wait for it
        self._binding: dict[str, None] = {}  # UIDs, an ordered set

    def hold(self, entry: PodEntry) -> str:
        """Why the pod cannot be asked for yet; empty: it can. It is looked at again when its claims change."""
        reason = self._books.storage.waits_for(entry.pod)
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
        """Have late claims bound for the node. False: there are none, and the pod can be bound."""
        storage, on = self._books.storage, self._books.nodes.get(node)
        late = storage.late_claims(entry.pod)
        if not late or on is None:
            entry.volumes_since = None
            self._binding.pop(entry.pod.uid, None)
            return False
        self._await(entry)
        if entry.volumes_since is None:
            entry.volumes_since = self._books.sweeps
            self._binding[entry.pod.uid] = None
            reserved: list[tuple[Volume, Claim]] = []
            for claim in late:
                volume = storage.volume_for(claim, on.node, [one.metadata.name for one, _ in reserved])
                if volume is not None:
                    reserved.append((volume, claim))
            given = {claim.metadata.uid for _, claim in reserved}
            selected = tuple(claim for claim in late if claim.metadata.uid not in given)
            self._books.emit(BindVolumes(entry.name, node, tuple(reserved), selected))
        return True

    # Reports of the API server

    def claim_changed(self, claim: Claim) -> None:
        key = claim.metadata.namespace, claim.metadata.name
        self._books.storage.claims[key] = claim
        self._look_again(key)

    def claim_gone(self, claim: Claim) -> None:
        self._books.storage.claims.pop((claim.metadata.namespace, claim.metadata.name), None)

    def volume_changed(self, volume: Volume) -> None:
        self._books.storage.volumes[volume.metadata.name] = volume
        self._books.is_room_changed = True

    def volume_gone(self, volume: Volume) -> None:
        self._books.storage.volumes.pop(volume.metadata.name, None)

    def class_changed(self, of: StorageClass) -> None:
        self._books.storage.classes[of.metadata.name] = of
        for key in list(self._awaited):
            self._look_again(key)

    def class_gone(self, of: StorageClass) -> None:
        self._books.storage.classes.pop(of.metadata.name, None)

    def driver_changed(self, driver: CsiDriver) -> None:
        self._books.storage.csi_drivers[driver.metadata.name] = driver
        self._books.is_room_changed = True

    def driver_gone(self, driver: CsiDriver) -> None:
        self._books.storage.csi_drivers.pop(driver.metadata.name, None)
        self._books.is_room_changed = True

    def csi_node_changed(self, csi_node: CsiNode) -> None:
        self._books.storage.csi_nodes[csi_node.metadata.name] = csi_node
        self._books.is_room_changed = True

    def csi_node_gone(self, csi_node: CsiNode) -> None:
        self._books.storage.csi_nodes.pop(csi_node.metadata.name, None)
        self._books.is_room_changed = True

    def capacity_changed(self, capacity: StorageCapacity) -> None:
        self._books.storage.capacities[capacity.metadata.namespace, capacity.metadata.name] = capacity
        self._books.is_room_changed = True

    def capacity_gone(self, capacity: StorageCapacity) -> None:
        self._books.storage.capacities.pop((capacity.metadata.namespace, capacity.metadata.name), None)

    def _look_again(self, key: tuple[str, str]) -> None:
        self._books.is_room_changed = True
        for uid in self._awaited.pop(key, ()):
            entry = self._books.pods.get(uid)
            if entry is not None:
                self._ready(entry)

    def sweep(self) -> None:
        """Claims that are not bound in time."""
        for uid in list(self._binding):
            entry = self._books.pods.get(uid)
            if entry is None or entry.volumes_since is None or not entry.uuid or entry.is_bound:
                del self._binding[uid]
            elif self._books.sweeps - entry.volumes_since > limits.VOLUME_SWEEPS:
                del self._binding[uid]
                self._failed(entry, "its claims were not bound in time")
