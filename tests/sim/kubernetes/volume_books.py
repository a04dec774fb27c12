"""The volumes of a cluster: no two claims have one, pods are bound where theirs are, and no claim waits for a node for
ever."""

from __future__ import annotations

from collections import Counter

from remuda_kubernetes.plugin.plugin import Approve, OpenGate, PluginCall
from remuda_kubernetes.shim.effects import Bind, BindVolumes, Effect
from remuda_kubernetes.shim.shim import Shim

from ..story import Violation
from .api_server import ApiServer, Json
from .storage import (
    ATTACHMENTS,
    CLAIMS,
    EXCLUSIVE,
    VOLUMES,
    Storage,
    attached_by,
    claims_of,
    is_bound,
    limit_of,
    owned_by_another,
    reaches,
    runs,
    selected_node,
    storage_size,
    volume_of,
)
from .world import OTHER


def on(pod: Json, node: Json) -> bool:
    return bool(pod["spec"].get("nodeName") == node["metadata"]["name"])


class VolumeBooks:
    """A check of its own. A claim that its user has deleted may have gone while the binding of its pod was on the way:
    it is excused, and so are others of its name. So is what meets a pod of `moved` (UIDs): the default scheduler has
    bound it where the front end does not expect it. `is_pinned`: it binds pods where they are approved."""

    def __init__(self, server: ApiServer, storage: Storage, moved: set[str], is_pinned: bool) -> None:
        self._server = server
        self._storage = storage
        self._moved = moved
        self._is_pinned = is_pinned
        self._approvals: set[str] = set()  # UUIDs of the allocations
        self._unlimited: set[str] = set()  # UIDs of pods that were placed on a node whose drivers were not known yet
        server.on_reserved = self._reserved

    # On the way

    def decided(self, effect: Effect | PluginCall, shim: Shim) -> None:
        """Like the default scheduler, a front end that has not seen the drivers of a node takes it for unlimited."""
        if isinstance(effect, Bind | BindVolumes) and effect.node not in shim.cache.storage.csi_nodes:
            self._unlimited.add(effect.pod.uid)

    def wanted(self, effect: Effect | PluginCall, shim: Shim) -> None:
        if not isinstance(effect, OpenGate | Approve | BindVolumes):
            return
        pod = self._server.find("pods", effect.pod.name)
        if pod is None or pod["metadata"]["uid"] != effect.pod.uid:
            return
        if isinstance(effect, OpenGate | Approve) and effect.node:
            entry = shim.cache.pods.get(effect.pod.uid)
            if entry is not None and entry.uuid and entry.uuid not in self._approvals:  # it may be written again
                self._approvals.add(entry.uuid)
                self._approved(pod, effect.node, shim)
                node = self._server.find("nodes", effect.node, "")
                if claims_of(pod) and node is not None and self._is_pinned and not self._moved:
                    self._enough_volumes(node, shim)
        elif isinstance(effect, BindVolumes) and pod["spec"]["schedulerName"] == OTHER:
            raise Violation(f"{effect.pod.name} is the default scheduler's, and so are its volumes")

    def _approved(self, pod: Json, node_name: str, shim: Shim) -> None:
        """For a node where its claims can be, as far as the front end has seen them."""
        node, name = self._server.find("nodes", node_name, ""), pod["metadata"]["name"]
        for claim_name in claims_of(pod):
            known, claim = shim.cache.storage.claims.get(("default", claim_name)), self._server.find(CLAIMS, claim_name)
            if known is None or claim is None or known.metadata.uid != claim["metadata"]["uid"]:
                continue  # it has gone since
            if known.is_bound:
                volume = volume_of(self._server, claim)
                if volume is not None and node is not None and not reaches(volume, node):
                    raise Violation(f"{name} may run on {node_name}, where its {claim_name} is not")
            elif known.selected_node not in ("", node_name):
                raise Violation(f"{name} may run on {node_name}, its {claim_name} is made for {known.selected_node}")
            if EXCLUSIVE in known.spec.access_modes and (user := self._seen_using(claim_name, pod, shim)):
                raise Violation(f"{name} may run, and {user} has its {claim_name}")

    def _enough_volumes(self, node: Json, shim: Shim) -> None:
        """For all pods that are approved for a node, and neither bound yet nor being deleted for the scheduler. Volumes
        that another user took are counted: they may have been there then."""
        name, known = node["metadata"]["name"], shim.cache.storage.volumes.values()
        here = [one for one in shim.cache.pods.values() if one.node == name and not one.is_bound]
        approved = [one for one in here if one.uuid and one.release is None]
        claims = {claim.key: claim for one in approved for claim in shim.cache.storage.late_claims(one.pod)}
        given = {(one.spec.claim_ref.namespace, one.spec.claim_ref.name) for one in known if one.spec.claim_ref}
        wanted = [key for key, one in claims.items() if one.storage_class == "local" and key not in given]
        there = [
            one.metadata.name
            for one in known
            if one.spec.claim_ref is None or one.metadata.name in self._storage.taken
            if (volume := self._server.find(VOLUMES, one.metadata.name, "")) is not None and reaches(volume, node)
        ]
        if len(wanted) > len(there):
            raise Violation(f"{name} has volumes {there}, and pods are approved for claims {wanted}")

    def _seen_using(self, claim: str, but: Json, shim: Shim) -> str:
        """Another pod that runs with the claim, as the front end has seen; empty: none."""
        for other in self._server.all("pods"):
            uid = other["metadata"]["uid"]
            entry = shim.cache.pods.get(uid) if uid != but["metadata"]["uid"] and runs(other) else None
            if entry is not None and entry.is_bound and claim in claims_of(other):
                return str(other["metadata"]["name"])
        return ""

    def _reserved(self, before: Json, after: Json) -> None:
        was, now = before["spec"].get("claimRef"), after["spec"].get("claimRef")
        if was and was != {key: now[key] for key in was}:
            raise Violation(f"{after['metadata']['name']} is reserved for {now}, and was for {was}")

    def bound(self, pod: Json) -> None:
        name, node = pod["metadata"]["name"], self._server.find("nodes", pod["spec"]["nodeName"], "")
        kept = [one for one in claims_of(pod) if one not in self._storage.renewed]
        for claim_name in kept:
            claim = self._server.find(CLAIMS, claim_name)
            if claim is None and claim_name in self._storage.deleted:
                continue
            if claim is None or not is_bound(claim):
                raise Violation(f"{name} is bound to a node, and its {claim_name} to no volume")
            if owned_by_another(claim, pod):
                raise Violation(f"{name} is bound, and its {claim_name} was made for another pod")
            volume = volume_of(self._server, claim)
            if volume is None or (node is not None and not reaches(volume, node)):
                raise Violation(f"{name} is bound to {pod['spec']['nodeName']}, where its {claim_name} is not")
            if EXCLUSIVE in claim["spec"]["accessModes"]:
                self._is_alone(pod, claim_name)
        if node is not None and kept:
            self._within_limit(pod, node)

    def _is_alone(self, pod: Json, claim: str) -> None:
        uid = pod["metadata"]["uid"]
        for other in self._server.all("pods"):
            excused = {uid, other["metadata"]["uid"]} & self._moved
            if runs(other) and claim in claims_of(other) and other["metadata"]["uid"] != uid and not excused:
                raise Violation(f"{pod['metadata']['name']} is bound, and {other['metadata']['name']} has {claim}")

    def _within_limit(self, pod: Json, node: Json) -> None:
        """Volumes that are attached for pods that have ended are not counted: a front end may not know of them yet."""
        here = {one["metadata"]["uid"] for one in self._server.all("pods") if runs(one) and on(one, node)}
        if here & self._moved:
            return
        others, limit = self._attached(node, pod), self._limit(node)
        own = {volume["metadata"]["name"] for volume in attached_by(self._server, pod)}
        is_seen = pod["metadata"]["uid"] not in self._unlimited
        if is_seen and own - others and len(own | others) > limit:
            raise Violation(f"{node['metadata']['name']} has {len(own | others)} volumes, and attaches {limit} at most")

    def _attached(self, node: Json, but: Json) -> set[str]:
        pods = [
            pod for pod in self._server.all("pods") if runs(pod) and pod["metadata"]["uid"] != but["metadata"]["uid"]
        ]
        here = [pod for pod in pods if on(pod, node)]
        return {volume["metadata"]["name"] for pod in here for volume in attached_by(self._server, pod)}

    def _limit(self, node: Json) -> int:
        limit = limit_of(self._server, node)
        assert limit is not None, "a node keeps its drivers"
        return limit

    # At the end

    def waits_for(self, pod: Json) -> str:
        """Why the pod cannot run anywhere yet; empty: it can."""
        for name in claims_of(pod):
            claim = self._server.find(CLAIMS, name)
            if claim is None or claim["metadata"].get("deletionTimestamp"):
                return f"{name} is gone"
            if owned_by_another(claim, pod):
                return f"{name} was made for another pod"
            is_late = claim["spec"]["storageClassName"] != "now"
            if not is_bound(claim) and (claim["spec"].get("volumeName") or not is_late):
                return f"{name} has no volume"
        return ""

    def suit(self, pod: Json, node: Json) -> bool:
        """Whether its claims let the pod run there. The default scheduler may not find volumes for two late claims:
        not, to be sure."""
        claims = [claim for name in claims_of(pod) if (claim := self._server.find(CLAIMS, name)) is not None]
        late = [claim for claim in claims if not is_bound(claim)]
        is_theirs = pod["spec"]["schedulerName"] == OTHER
        if (is_theirs and len(late) > 1) or any(self._is_used(claim, pod) for claim in claims):
            return False
        for claim in claims:
            volume = volume_of(self._server, claim)
            if volume is not None and not reaches(volume, node):
                return False
        attached = self._attached(node, pod)
        new = {volume["metadata"]["name"] for volume in attached_by(self._server, pod)} - attached
        new |= {claim["metadata"]["name"] for claim in late if claim["spec"]["storageClassName"] != "local"}
        if new and len(attached | self._left(node)) + len(new) > self._limit(node):
            return False
        return self._can_have(late, node, frozenset())

    def _left(self, node: Json) -> set[str]:
        name = node["metadata"]["name"]
        there = [one["spec"] for one in self._server.all(ATTACHMENTS) if one["spec"]["nodeName"] == name]
        return {one["source"]["persistentVolumeName"] for one in there}

    def _is_used(self, claim: Json, pod: Json) -> bool:
        """By a pod beside which this one cannot run."""
        name = claim["metadata"]["name"]
        others = [one for one in self._server.all("pods") if runs(one) and name in claims_of(one)]
        return EXCLUSIVE in claim["spec"]["accessModes"] and bool(others)

    def _can_have(self, claims: list[Json], node: Json, taken: frozenset[str]) -> bool:
        """In any way, each its own volume."""
        if not claims:
            return True
        claim, *others = claims
        of, size = claim["spec"]["storageClassName"], storage_size(claim["spec"]["resources"]["requests"])
        if self._storage.can_make(of, node) and self._can_have(others, node, taken):
            return True
        return any(
            self._can_have(others, node, taken | {volume["metadata"]["name"]})
            for volume in self._server.all(VOLUMES)
            if volume["spec"]["storageClassName"] == of
            and volume["metadata"]["name"] not in taken
            and not volume["spec"].get("claimRef")
            and storage_size(volume["spec"]["capacity"]) >= size
            and reaches(volume, node)
        )

    def compare(self) -> None:
        claims = self._server.all(CLAIMS)
        count = Counter(claim["spec"]["volumeName"] for claim in claims if is_bound(claim))
        if twice := [name for name, number in count.items() if number > 1]:
            raise Violation(f"volumes {twice} are bound twice")
        for claim in claims:
            if selected_node(claim) and not is_bound(claim):
                raise Violation(
                    f"{claim['metadata']['name']} is for {selected_node(claim)}, and nobody makes its volume"
                )
        reserved = Counter((volume["spec"].get("claimRef") or {}).get("uid") for volume in self._server.all(VOLUMES))
        if twice := [uid for uid, number in reserved.items() if uid and number > 1]:
            raise Violation(f"claims {twice} have two volumes")
        for pod in self._server.all("pods"):
            if runs(pod) and claims_of(pod):
                self._is_where_its_volumes_are(pod)

    def _is_where_its_volumes_are(self, pod: Json) -> None:
        node = self._server.find("nodes", pod["spec"]["nodeName"], "")
        for name in claims_of(pod):
            claim = self._server.find(CLAIMS, name)
            volume = volume_of(self._server, claim) if claim is not None else None
            if node is None or name in self._storage.renewed or (claim is None and name in self._storage.deleted):
                continue
            if volume is None or not reaches(volume, node):
                raise Violation(f"{pod['metadata']['name']} runs on {pod['spec']['nodeName']}, where its {name} is not")
