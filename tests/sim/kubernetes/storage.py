"""Volumes of the cluster: claims of users, the controllers that bind them, a provisioner, and the drivers that attach
volumes to nodes.

Classes: `local` has volumes that are there, each on one node. `made` and `east` have a provisioner that makes a volume
for the node that was selected, `east` in one zone only. The volumes of `now` are made at once, in any zone."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from integrations.kubernetes.tests import manifests
from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE

from .api_server import ApiServer, Json

ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("east", "west")
DRIVER: Final = "csi.sim"
LATE: Final = "WaitForFirstConsumer"
CLASSES: Final = ("local", "made", "east", "now")
CLAIMS, VOLUMES, ATTACHMENTS = "persistentvolumeclaims", "persistentvolumes", "volumeattachments"
CLAIMS_AT_MOST: Final = 30
REFUSES: Final = 0.5  # how often the provisioner cannot make a volume where it should
STEPS: Final = 0.5  # how often a controller gets to an object
EXCLUSIVE: Final = "ReadWriteOncePod"


class Storage:
    """`resting`: the provisioner makes all volumes that it can. `is_scarce`: users mostly want local volumes, of which
    there are few. `deleted`: names of claims that users have deleted.
    `renewed`: those of which there may be another one. `taken`: names of volumes that another user took."""

    def __init__(self, random: Random, server: ApiServer) -> None:
        self.resting = False
        self.deleted: set[str] = set()
        self.renewed: set[str] = set()
        self.taken: set[str] = set()
        self._random = random
        self._server = server
        self._made = 0
        self._wanted: dict[str, Json] = {}  # claims that will be created
        self.is_scarce = random.random() < 0.5
        self._collects = random.choice((0.05, 0.5))  # how often the collector gets to a claim without its pod
        self.reports_capacity = random.random() < 0.5
        # Where nobody can know that a zone is full, its volumes are tried there for ever.
        is_known = self.reports_capacity and server.minor >= limits.STORAGE_CAPACITIES_BETA_SINCE
        self.full_zones = tuple(zone for zone in ZONES if is_known and random.random() < 0.3)
        for name in CLASSES:
            self._add_class(name)
        server.add("csidrivers", {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": self.reports_capacity}})
        for zone in ZONES:
            for name in CLASSES[1:]:
                capacity = {"metadata": {"name": f"{name}-{zone}"}, "storageClassName": name,
                            "nodeTopology": {"matchLabels": {ZONE: zone}},
                            "capacity": "0" if zone in self.full_zones else "100Gi"}  # fmt: skip
                server.add("csistoragecapacities", capacity, "remuda")

    def _add_class(self, name: str) -> None:
        provisioner = "kubernetes.io/no-provisioner" if name == "local" else DRIVER
        mode = "Immediate" if name == "now" else LATE
        made: Json = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
        if name == "east":
            made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": ["east"]}]}]
        self._server.add("storageclasses", made)

    def add_node(self, name: str) -> None:
        """Its driver, and the volumes on its disks."""
        of_driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": self._random.choice((1, 1, 2))}}
        self._server.add("csinodes", {"metadata": {"name": name}, "spec": {"drivers": [of_driver]}})
        for _ in range(self._random.choice((1, 2))):
            self._add_volume("local", {"kubernetes.io/hostname": name})

    def _add_volume(self, of: str, near: dict[str, str], claim: Json | None = None) -> None:
        self._made += 1
        name = f"volume-{self._made}"
        made = manifests.local_volume(name, of, "", self._random.choice(("1Gi", "2Gi")))
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in near.items()]
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
        spec = {**made["spec"], "accessModes": ["ReadWriteOnce", EXCLUSIVE], "nodeAffinity": affinity}
        if of != "local":
            del spec["local"]
            spec["csi"] = {"driver": DRIVER, "volumeHandle": name}
        if claim is not None:
            spec["claimRef"] = reference(claim)
        self._server.add(VOLUMES, {**made, "spec": spec, "status": {"phase": "Available"}})

    # Users

    def claim(self) -> str:
        """The name of a claim for a new pod: of one that others use, too, or of a new one."""
        there = [one for one in self._server.all(CLAIMS) if not owner_of(one)]
        names = [*self._wanted, *(one["metadata"]["name"] for one in there)]
        if names and (len(names) >= CLAIMS_AT_MOST or self._random.random() < 0.25):
            alone = [one["metadata"]["name"] for one in there if EXCLUSIVE in one["spec"]["accessModes"]]
            return self._random.choice(alone if alone and self._random.random() < 0.6 else names)
        self._made += 1
        name = f"claim-{self._made}"
        self._wanted[name] = {"metadata": {"name": name}, "spec": self.claim_spec()}
        if self._random.random() < 0.8:
            self._create(name)
        return name

    def claim_spec(self) -> Json:
        spec: Json = manifests.claim_spec(
            self._random.choice((*CLASSES, "local", "made", *["local"] * 10 * self.is_scarce)),
            self._random.choice(("1Gi", "1Gi", "2Gi")),
        )
        if self._random.random() < 0.3:
            spec["accessModes"] = [EXCLUSIVE]
        return spec

    def _create(self, name: str) -> None:
        if self._server.find(CLAIMS, name) is None:
            self._server.add(CLAIMS, self._wanted.pop(name), "default")

    def delete_claim(self) -> None:
        """One that no pod has, or any one, which comes again."""
        claims = self._server.all(CLAIMS)
        unused = [one for one in claims if not self._users(one)]
        if not claims or (not unused and self._random.random() < 0.7):
            return
        claim = self._random.choice(unused or claims)
        name = claim["metadata"]["name"]
        self.deleted.add(name)
        if not unused:
            self.renewed.add(name)
        if not unused and not owner_of(claim):  # else its controller makes another one
            spec = {key: value for key, value in claim["spec"].items() if key != "volumeName"}
            self._wanted[name] = {"metadata": {"name": name}, "spec": spec}
        self._server.put(CLAIMS, claim, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})

    def take_volume(self) -> None:
        """Another user has a free volume: a front end that has chosen it comes too late."""
        if free := [one for one in self._server.all(VOLUMES) if is_free(one)]:
            self._made += 1
            name, volume = f"claim-{self._made}", self._random.choice(free)
            self.taken.add(volume["metadata"]["name"])
            spec = manifests.claim_spec(volume["spec"]["storageClassName"]) | {"volumeName": volume["metadata"]["name"]}
            claim = self._server.add(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")
            self._server.put(VOLUMES, volume, spec={"claimRef": reference(claim)})

    # Controllers, provisioner and drivers

    def keep(self) -> None:
        for name in list(self._wanted):
            if self._steps():
                self._create(name)
        for pod in self._server.all("pods"):
            if self._steps():
                self._make_ephemeral_claims(pod)
        for claim in self._server.all(CLAIMS):
            if self._steps():
                self._keep_claim(claim)
        for volume in self._server.all(VOLUMES):
            if self._steps():
                self._keep_volume(volume)
        self._attach()
        for of in self._server.all("csinodes"):
            if self._server.find("nodes", of["metadata"]["name"], "") is None:
                self._server.remove("csinodes", of)

    def _steps(self) -> bool:
        return self._random.random() < STEPS

    def _make_ephemeral_claims(self, pod: Json) -> None:
        """A claim of that name that is there, of the pod before it or of a user, is left as it is."""
        if has_ended(pod) or pod["metadata"].get("deletionTimestamp"):
            return
        for volume in pod["spec"].get("volumes", ()):
            name = _claim_name(pod, volume)
            if "ephemeral" in volume and self._server.find(CLAIMS, name) is None:
                owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
                spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
                self._server.add(CLAIMS, {"metadata": metadata, "spec": {**spec}}, "default")

    def _is_orphan(self, claim: Json) -> bool:
        owner = owner_of(claim)
        return bool(owner) and not any(pod["metadata"]["uid"] == owner for pod in self._server.all("pods"))

    def _keep_claim(self, claim: Json) -> None:
        if claim["metadata"].get("deletionTimestamp"):
            if not any(one["spec"].get("nodeName") for one in self._users(claim)):
                self._server.remove(CLAIMS, claim)
            return
        if self._is_orphan(claim):
            if self.resting or self._random.random() < self._collects:
                self._server.put(CLAIMS, claim, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
            return
        if is_bound(claim):
            return
        uid = claim["metadata"]["uid"]
        of_claim = [one for one in self._server.all(VOLUMES) if (one["spec"].get("claimRef") or {}).get("uid") == uid]
        if of_claim:
            self._bind(claim, of_claim[0])
        elif not claim["spec"].get("volumeName"):
            self._make(claim)

    def _bind(self, claim: Json, volume: Json) -> None:
        """In two steps, between which others act."""
        if volume["status"]["phase"] != "Bound":
            self._server.put(VOLUMES, volume, status={"phase": "Bound"})
            return
        annotations = {**claim["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"}
        spec = {"volumeName": volume["metadata"]["name"]}
        self._server.put(CLAIMS, claim, spec=spec, metadata={"annotations": annotations}, status={"phase": "Bound"})

    def _make(self, claim: Json) -> None:
        of, selected = claim["spec"]["storageClassName"], selected_node(claim)
        if of == "now":
            self._add_volume(of, {ZONE: self._random.choice(ZONES)}, claim)
        elif of != "local" and selected:
            node = self._server.find("nodes", selected, "")
            is_unlucky = not self.resting and self._random.random() < REFUSES
            if node is None or is_unlucky or not self.can_make(of, node):
                annotations = {**claim["metadata"]["annotations"]}
                del annotations[SELECTED_NODE]
                self._server.put(CLAIMS, claim, metadata={"annotations": annotations})
            else:
                key = self._random.choice((ZONE, "kubernetes.io/hostname"))
                self._add_volume(of, {key: node["metadata"]["labels"][key]}, claim)

    def can_make(self, of: str, node: Json) -> bool:
        zone = node["metadata"]["labels"][ZONE]
        return of != "local" and zone not in self.full_zones and (of != "east" or zone == "east")

    def _keep_volume(self, volume: Json) -> None:
        reference = volume["spec"].get("claimRef")
        if not reference:
            return
        claim = self._server.find(CLAIMS, reference["name"], reference["namespace"])
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            if volume["spec"]["storageClassName"] == "local":
                self._free(volume)
            else:
                self._server.remove(VOLUMES, volume)
        elif is_bound(claim) and claim["spec"]["volumeName"] != volume["metadata"]["name"]:
            self._free(volume)

    def _free(self, volume: Json) -> None:
        annotations = {**volume["metadata"].get("annotations", {})}
        annotations.pop(BOUND_BY_CONTROLLER, None)
        metadata: Json = {"annotations": annotations}
        self._server.put(VOLUMES, volume, spec={"claimRef": None}, metadata=metadata, status={"phase": "Available"})

    def _attach(self) -> None:
        """A volume stays attached for a while after its last pod has ended."""
        wanted = {
            (volume["metadata"]["name"], pod["spec"]["nodeName"])
            for pod in self._server.all("pods")
            if runs(pod)
            for volume in attached_by(self._server, pod)
        }
        there = set()
        for one in self._server.all(ATTACHMENTS):
            at = (one["spec"]["source"]["persistentVolumeName"], one["spec"]["nodeName"])
            there.add(at)
            if at not in wanted and self._steps():
                self._server.remove(ATTACHMENTS, one)
        for volume, node in sorted(wanted - there):
            spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
            self._server.add(ATTACHMENTS, {"metadata": {"name": f"{volume}-{node}"}, "spec": spec})

    def _users(self, claim: Json) -> list[Json]:
        name = claim["metadata"]["name"]
        return [pod for pod in self._server.all("pods") if name in claims_of(pod) and not has_ended(pod)]


def has_ended(pod: Json) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def runs(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and not has_ended(pod)


def claims_of(pod: Json) -> list[str]:
    return [_claim_name(pod, volume) for volume in pod["spec"].get("volumes", ())]


def _claim_name(pod: Json, volume: Json) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return str(volume["persistentVolumeClaim"]["claimName"])


def owner_of(claim: Json) -> str:
    """The UID of the pod that it was made for; empty: a user has created it."""
    return str(next((one["uid"] for one in claim["metadata"].get("ownerReferences", ())), ""))


def owned_by_another(claim: Json, pod: Json) -> bool:
    """Whether it has the name of an ephemeral volume of the pod, and was not made for it."""
    names = [_claim_name(pod, volume) for volume in pod["spec"].get("volumes", ()) if "ephemeral" in volume]
    return claim["metadata"]["name"] in names and owner_of(claim) != pod["metadata"]["uid"]


def limit_of(server: ApiServer, node: Json) -> int | None:
    """How many volumes the driver attaches to the node; None: nobody knows."""
    of = server.find("csinodes", node["metadata"]["name"], "")
    return None if of is None else int(of["spec"]["drivers"][0]["allocatable"]["count"])


def is_bound(claim: Json) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in claim["metadata"].get("annotations", {})


def selected_node(claim: Json) -> str:
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def volume_of(server: ApiServer, claim: Json) -> Json | None:
    return server.find(VOLUMES, claim["spec"].get("volumeName", ""), "")


def attached_by(server: ApiServer, pod: Json) -> list[Json]:
    """The volumes of a driver that its claims are bound to."""
    claims = [claim for name in claims_of(pod) if (claim := server.find(CLAIMS, name)) is not None and is_bound(claim)]
    volumes = [volume for claim in claims if (volume := volume_of(server, claim)) is not None]
    return [volume for volume in volumes if "csi" in volume["spec"]]


def reaches(volume: Json, node: Json) -> bool:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    labels = node["metadata"]["labels"]
    return all(labels.get(one["key"]) in one["values"] for one in term["matchExpressions"])


def storage_size(of: Json) -> int:
    """GiB."""
    return int(str(of["storage"]).removesuffix("Gi"))


def is_free(volume: Json) -> bool:
    return not volume["spec"].get("claimRef") and volume["status"]["phase"] == "Available"


def reference(claim: Json) -> dict[str, Any]:
    metadata = claim["metadata"]
    return {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
