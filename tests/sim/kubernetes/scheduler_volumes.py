"""Volumes as the default scheduler handles them: it looks for nodes where the claims of a pod are or can be, chooses
volumes for claims that bind late, has the others made, and waits for all of them before it binds the pod."""

from __future__ import annotations

from collections.abc import Iterable

from remuda_kubernetes.api.objects import BOUND_BY_CONTROLLER, SELECTED_NODE

from .api_server import ApiServer, Json
from .storage import (
    ATTACHMENTS,
    CLAIMS,
    EXCLUSIVE,
    LATE,
    VOLUMES,
    Storage,
    attached_by,
    claims_of,
    is_bound,
    is_free,
    limit_of,
    owned_by_another,
    reaches,
    reference,
    runs,
    selected_node,
    storage_size,
    volume_of,
)

Assumed = Iterable[tuple[str, Json]]  # nodes, and pods that are about to be bound there


class SchedulerVolumes:
    """Reads what the API server has, and remembers which volumes it has chosen."""

    def __init__(self, server: ApiServer, storage: Storage) -> None:
        self._server = server
        self._storage = storage
        self._chosen: dict[str, dict[str, str]] = {}  # UID of a pod -> volume -> UID of the claim that gets it
        self._selected: dict[str, dict[str, str]] = {}  # UID of a pod -> UID of a claim -> node

    def forget_all(self) -> None:
        self._chosen.clear()
        self._selected.clear()

    def forget(self, uid: str) -> None:
        self._chosen.pop(uid, None)
        self._selected.pop(uid, None)

    # Filters

    def suit(self, pod: Json, node: Json, assumed: Assumed) -> bool:
        claims = self._claims(pod)
        if claims is None:
            return False
        there = list(assumed)
        late = [claim for claim in claims if not is_bound(claim)]
        return (
            all(self._is_near(claim, node) for claim in claims)
            and not any(self._is_taken(claim, pod, there) for claim in claims)
            and self._plan(late, node) is not None
            and self._within_limit(pod, late, node, there)
        )

    def _claims(self, pod: Json) -> list[Json] | None:
        """None: some are not there, or wait for a volume that does not depend on the pod."""
        found = []
        for name in claims_of(pod):
            claim = self._server.find(CLAIMS, name)
            if claim is None or claim["metadata"].get("deletionTimestamp") or owned_by_another(claim, pod):
                return None
            if not is_bound(claim) and (claim["spec"].get("volumeName") or not self._is_late(claim)):
                return None
            found.append(claim)
        return found

    def _is_late(self, claim: Json) -> bool:
        of = self._server.find("storageclasses", claim["spec"]["storageClassName"], "")
        return of is not None and of["volumeBindingMode"] == LATE

    def _is_near(self, claim: Json, node: Json) -> bool:
        if not is_bound(claim):
            return True
        volume = volume_of(self._server, claim)
        return volume is not None and reaches(volume, node)

    def _is_taken(self, claim: Json, pod: Json, assumed: list[tuple[str, Json]]) -> bool:
        users = [one for one in self._server.all("pods") if runs(one)] + [one for _, one in assumed]
        name, uid = claim["metadata"]["name"], pod["metadata"]["uid"]
        is_used = any(name in claims_of(one) and one["metadata"]["uid"] != uid for one in users)
        return EXCLUSIVE in claim["spec"]["accessModes"] and is_used

    def _plan(self, late: list[Json], node: Json) -> dict[str, Json] | None:
        """Volume -> the late claim that gets it; claims whose volume is to be made are left out. None: the node cannot
        have all of them."""
        plan: dict[str, Json] = {}
        for claim in sorted(late, key=lambda one: storage_size(one["spec"]["resources"]["requests"])):
            selected = self._node_of(claim)
            if selected not in ("", node["metadata"]["name"]):
                return None
            volume = None if selected else self._volume_for(claim, node, plan)
            if volume is not None:
                plan[volume["metadata"]["name"]] = claim
            elif not self._storage.can_make(claim["spec"]["storageClassName"], node):
                return None
        return plan

    def _node_of(self, claim: Json) -> str:
        uid = claim["metadata"]["uid"]
        chosen = (of[uid] for of in self._selected.values() if uid in of)
        return next(chosen, "") or selected_node(claim)

    def _volume_for(self, claim: Json, node: Json, plan: dict[str, Json]) -> Json | None:
        uid, size = claim["metadata"]["uid"], storage_size(claim["spec"]["resources"]["requests"])
        for volume in self._server.all(VOLUMES):
            if self._claim_of(volume) == uid:
                return volume if reaches(volume, node) else None
        fitting = [
            volume
            for volume in self._server.all(VOLUMES)
            if is_free(volume) and not self._claim_of(volume) and volume["metadata"]["name"] not in plan
            if volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
            if storage_size(volume["spec"]["capacity"]) >= size and reaches(volume, node)
        ]
        by_size = sorted(fitting, key=lambda one: (storage_size(one["spec"]["capacity"]), one["metadata"]["name"]))
        return by_size[0] if by_size else None

    def _claim_of(self, volume: Json) -> str:
        name = volume["metadata"]["name"]
        said = (volume["spec"].get("claimRef") or {}).get("uid", "")
        return said or next((of[name] for of in self._chosen.values() if name in of), "")

    def _within_limit(self, pod: Json, late: list[Json], node: Json, assumed: list[tuple[str, Json]]) -> bool:
        name = node["metadata"]["name"]
        new = {volume["metadata"]["name"] for volume in attached_by(self._server, pod)} | self._to_be_made(late)
        there = [one for one in self._server.all("pods") if runs(one) and one["spec"]["nodeName"] == name]
        attached: set[str] = {
            one["spec"]["source"]["persistentVolumeName"]
            for one in self._server.all(ATTACHMENTS)
            if one["spec"]["nodeName"] == name
        }
        for other in [*there, *(one for on, one in assumed if on == name)]:
            attached |= {volume["metadata"]["name"] for volume in attached_by(self._server, other)}
            others = (self._server.find(CLAIMS, one) for one in claims_of(other))
            attached |= self._to_be_made([one for one in others if one is not None and not is_bound(one)])
        limit = limit_of(self._server, node)
        return not new - attached or limit is None or len(new | attached) <= limit

    def _to_be_made(self, late: list[Json]) -> set[str]:
        """Stand-ins for volumes of the driver that are not there yet."""
        return {one["metadata"]["uid"] for one in late if one["spec"]["storageClassName"] != "local"}

    # Binding

    def reserve(self, pod: Json, node: Json) -> None:
        """Called when the node suits the pod."""
        late = [claim for claim in self._claims(pod) or () if not is_bound(claim)]
        plan, uid = self._plan(late, node), pod["metadata"]["uid"]
        assert plan is not None, "it was found to suit"
        given = {claim["metadata"]["uid"] for claim in plan.values()}
        self._chosen[uid] = {volume: claim["metadata"]["uid"] for volume, claim in plan.items()}
        made = (claim["metadata"]["uid"] for claim in late)
        self._selected[uid] = {one: node["metadata"]["name"] for one in made if one not in given}

    def write(self, pod: Json) -> str:
        """Reserve the volumes, and select the node for claims whose volumes are made. Returns why not; empty: done."""
        uid = pod["metadata"]["uid"]
        by_uid = {claim["metadata"]["uid"]: claim for claim in self._server.all(CLAIMS)}
        for volume_name, claim_uid in self._chosen.get(uid, {}).items():
            volume, claim = self._server.find(VOLUMES, volume_name, ""), by_uid.get(claim_uid)
            if volume is None or claim is None:
                return f"{volume_name} or its claim is gone"
            taken = (volume["spec"].get("claimRef") or {}).get("uid", claim_uid)
            if taken != claim_uid:
                return f"{volume_name} has been modified"
            marks = {**volume["metadata"].get("annotations", {}), BOUND_BY_CONTROLLER: "yes"}
            self._server.put(VOLUMES, volume, spec={"claimRef": reference(claim)}, metadata={"annotations": marks})
        for claim_uid, node in self._selected.get(uid, {}).items():
            claim = by_uid.get(claim_uid)
            if claim is None:
                return "a claim is gone"
            marks = {**claim["metadata"].get("annotations", {}), SELECTED_NODE: node}
            self._server.put(CLAIMS, claim, metadata={"annotations": marks})
        return ""

    def outcome(self, pod: Json, node: Json) -> str | None:
        """Why the claims of the pod will not be bound for the node; empty: all are. None: it is not known yet."""
        selected = self._selected.get(pod["metadata"]["uid"], {})
        are_bound = True
        for name in claims_of(pod):
            claim = self._server.find(CLAIMS, name)
            if claim is None or claim["metadata"].get("deletionTimestamp"):
                return f"{name} is gone"
            if is_bound(claim):
                if not self._is_near(claim, node):
                    return f"the volume of {name} is elsewhere"
            else:
                are_bound = False
                if claim["metadata"]["uid"] in selected and not selected_node(claim):
                    return f"provisioning failed for {name}"
        return "" if are_bound else None
