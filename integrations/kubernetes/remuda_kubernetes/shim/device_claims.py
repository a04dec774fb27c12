"""Claims of devices, as pods have them: who gets the devices of a claim, when it is written, and when it is given back.
Pure.

The scheduler allocates devices to the pod for which a claim is allocated. As long as that pod has its allocation, they
are booked there; after it, and where others have allocated the claim, they are occupied on their node. A pod whose
claim is allocated already asks for no devices, and is placed where they are.
"""

from __future__ import annotations

from collections.abc import Callable

from remuda_kubernetes.api.objects import DeviceClass, ResourceClaim, ResourceSlice
from remuda_kubernetes.shim.cache import Cache, PodEntry
from remuda_kubernetes.shim.devices import ClaimKey, Write, claim_keys
from remuda_kubernetes.shim.effects import GiveBack


class DeviceClaims:
    """`changed`: called for a pod whose claims have changed."""

    def __init__(self, cache: Cache, changed: Callable[[PodEntry], None]) -> None:
        self._cache = cache
        self._changed = changed
        self._users: dict[ClaimKey, dict[str, None]] = {}  # UIDs of managed pods
        self._owner: dict[ClaimKey, str] = {}  # UID of the pod that asks for the devices of a claim
        self._returning: dict[ClaimKey, None] = {}  # claims that are being given back

    # Pods

    def seen(self, entry: PodEntry) -> None:
        """A managed pod has come, or has changed."""
        for key in claim_keys(entry.pod):
            self._users.setdefault(key, {})[entry.pod.uid] = None

    def forget(self, entry: PodEntry) -> None:
        """The pod has ended, or is gone. Pods that wait for a claim of its get their turn."""
        uid = entry.pod.uid
        for key in claim_keys(entry.pod):
            users = self._users.get(key, {})
            users.pop(uid, None)
            if not users:
                self._users.pop(key, None)
            if self._owner.get(key) == uid:
                del self._owner[key]
                self._look_again(key)

    def hold(self, entry: PodEntry) -> str:
        """Why the pod cannot be asked for yet; empty: it can, and the devices of its claims are for it."""
        if not self._cache.policy.allocates_claims(entry.pod):
            return ""
        if not self._cache.policy.predicates:
            return "its resourceClaims need kubernetes.predicates"
        if reason := self._cache.devices.waits_for(entry.pod):
            return reason
        keys = claim_keys(entry.pod)
        self._give_back(entry, [key for key in keys if self._is_left(key, entry)])
        for key in keys:
            if key in self._returning:
                return f"ResourceClaim {key[1]} is being given back"
            owner = self._cache.pods.get(self._owner.get(key, ""))
            is_wanted = owner is not None and owner is not entry and (owner.is_asked or owner.uuid)
            if owner is not None and is_wanted and self._is_free(key):
                return f"ResourceClaim {key[1]} is allocated for {owner.pod.key} first"
        for key in keys:
            if self._is_free(key):
                self._owner[key] = entry.pod.uid
        return ""

    def _is_left(self, key: ClaimKey, entry: PodEntry) -> bool:
        """Whether the claim was allocated for a placement of this pod that is over."""
        claim = self._cache.devices.claims.get(key)
        if claim is None or claim.status.allocation is None or entry.bindings:
            return False
        return [one.uid for one in claim.status.reserved_for] == [entry.pod.uid]

    def _is_free(self, key: ClaimKey) -> bool:
        claim = self._cache.devices.claims.get(key)
        return claim is not None and claim.status.allocation is None

    # Placed pods

    def stale(self, entry: PodEntry) -> str:
        """Why the devices of the pod's allocation cannot be given to its claims; empty: they can."""
        if not self._cache.policy.allocates_claims(entry.pod):
            return ""
        devices, node = self._cache.devices, entry.node
        returning = next((key[1] for key in claim_keys(entry.pod) if key in self._returning), "")
        problem = f"ResourceClaim {returning} is being given back" if returning else ""
        problem = problem or devices.waits_for(entry.pod) or devices.conflict(entry.pod, node, entry.devices)
        if problem:
            self._cache.dirty_nodes[node] = None
        return problem

    def writes(self, entry: PodEntry) -> tuple[Write, ...]:
        """The writes into the claims of the pod before its binding, which is sent now."""
        if not self._cache.policy.allocates_claims(entry.pod):
            return ()
        found = self._cache.devices.writes(entry.pod, entry.node, entry.devices)
        if found:
            entry.written = tuple(one.claim for one in found)
            entry.bindings += 1
        return found

    def binding_ended(self, entry: PodEntry) -> None:
        entry.bindings = max(entry.bindings - 1, 0)

    def give_up(self, entry: PodEntry) -> None:
        """The pod waits again: what was written into its claims is taken back, when no binding is on its way."""
        if entry.written and not entry.bindings:
            written, entry.written = entry.written, ()
            self._give_back(entry, [one.key for one in written])

    def _give_back(self, entry: PodEntry, keys: list[ClaimKey]) -> None:
        claims = [self._cache.devices.claims[key] for key in keys
                  if key in self._cache.devices.claims and key not in self._returning]  # fmt: skip
        if claims:
            self._returning.update(dict.fromkeys(one.key for one in claims))
            self._cache.emit(GiveBack(entry.name, tuple(claims)))

    def given_back(self, change: GiveBack) -> None:
        """Others may have the claims. One that could not be given back is tried again when it changes."""
        for one in change.claims:
            if self._returning.pop(one.key, self) is None:
                self._look_again(one.key)

    # Reports of the API server

    def claim_changed(self, claim: ResourceClaim) -> None:
        self._mark(claim.key)
        self._cache.devices.put_claim(claim)
        self._returning.pop(claim.key, None)
        self._mark(claim.key)
        self._look_again(claim.key)

    def claim_gone(self, claim: ResourceClaim) -> None:
        self._mark(claim.key)
        self._cache.devices.remove_claim(claim)
        self._returning.pop(claim.key, None)
        self._look_again(claim.key)

    def _mark(self, key: ClaimKey) -> None:
        """The devices in use change on the nodes of the claim."""
        claim = self._cache.devices.claims.get(key)
        of = claim.status.allocation if claim is not None else None
        pools = {(one.driver, one.pool) for one in of.devices.results} if of is not None else ()
        for pool in pools:
            self._cache.dirty_nodes.update(dict.fromkeys(self._cache.devices.nodes_of(pool)))

    def slice_changed(self, of: ResourceSlice) -> None:
        self._mark_nodes(self._cache.devices.put_slice(of))

    def slice_gone(self, of: ResourceSlice) -> None:
        self._mark_nodes(self._cache.devices.remove_slice(of))

    def class_changed(self, of: DeviceClass) -> None:
        self._mark_nodes(self._cache.devices.put_class(of))
        self._look_at_all()

    def class_gone(self, of: DeviceClass) -> None:
        self._mark_nodes(self._cache.devices.remove_class(of.metadata.name))
        self._look_at_all()

    def served(self, *, are_served: bool) -> None:
        """Whether the API server has claims and slices."""
        if self._cache.devices.is_served != are_served:
            self._cache.devices.is_served = are_served
            self._look_at_all()

    def _mark_nodes(self, nodes: list[str]) -> None:
        self._cache.dirty_nodes.update(dict.fromkeys(nodes))
        self._cache.is_room_changed = self._cache.is_room_changed or bool(nodes)

    def _look_at_all(self) -> None:
        for key in list(self._users):
            self._look_again(key)

    def _look_again(self, key: ClaimKey) -> None:
        self._cache.is_room_changed = True
        for uid in list(self._users.get(key, ())):
            entry = self._cache.pods.get(uid)
            if entry is not None:
                self._changed(entry)
