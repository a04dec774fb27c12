"""Devices of the cluster (dynamic resource allocation): a driver that publishes them, the controller of claims, and
what has to hold for claims that a front end allocates."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim.devices import claim_keys

from ..story import Violation
from .api_server import ApiServer, Json

SINCE: Final = 34  # the minor version of the API server
RESOURCE, CLASS, DRIVER = "sim/gpu", "gpu", "gpu.sim"
SETTING: Final = (f"{CLASS}={RESOURCE}",)
CLAIMS, SLICES = "resourceclaims", "resourceslices"
CLAIMS_AT_MOST: Final = 12
STEPS: Final = 0.5  # how often the controller gets to an object

Id = tuple[str, str]  # pool and device


class DevicePlane:
    """`is_on`: the cluster has devices; else it has no objects of them."""

    def __init__(self, random: Random, server: ApiServer, is_on: bool) -> None:
        self.is_on = is_on
        self._random = random
        self._server = server
        self._made = 0
        if is_on:
            selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
            server.add("deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})
            server.on_allocated = self._allocated

    def configured(self, queues: str) -> str:
        """The configuration with devices, if there are any."""
        name = "- name: default\n"
        return queues.replace(name, f"{name}  devices: {{{RESOURCE}: 1}}\n") if self.is_on else queues

    # The driver

    def add_node(self, name: str) -> None:
        if self.is_on and self._random.random() < 0.7:
            devices = [{"name": f"gpu-{number}"} for number in range(self._random.randint(1, 3))]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            self._server.add(SLICES, {"metadata": {"name": f"{name}-{DRIVER}"}, "spec": spec})

    def change(self) -> None:
        """A device falls ill, or is well again; or a node gets one more."""
        slices = self._server.all(SLICES)
        if not slices:
            return
        one = self._random.choice(slices)
        devices, pool = [dict(device) for device in one["spec"]["devices"]], dict(one["spec"]["pool"])
        if self._random.random() < 0.3 and len(devices) < 4:
            devices.append({"name": f"gpu-{len(devices)}"})
        else:
            device = self._random.choice(devices)
            if device.pop("taints", None) is None:
                device["taints"] = [{"key": "ill", "effect": "NoSchedule"}]
        pool["generation"] += 1
        self._server.put(SLICES, one, spec={"devices": devices, "pool": pool})

    # Users

    def wanted(self) -> list[Json]:
        """The claims of a new pod: made from a template, or one that pods share."""
        if self._random.random() < 0.6:
            return [{"name": "gpu", "resourceClaimTemplateName": self._random.choice(("one", "one", "two"))}]
        shared = [one["metadata"]["name"] for one in self._server.all(CLAIMS) if not _owner(one)]
        if not shared or (len(shared) < CLAIMS_AT_MOST and self._random.random() < 0.5):
            self._made += 1
            shared = [f"shared-{self._made}"]
            self._add(shared[0], self._random.choice((1, 1, 2)), [])
        return [{"name": "gpu", "resourceClaimName": self._random.choice(shared)}]

    def _add(self, name: str, count: int, owners: list[Json]) -> None:
        exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        metadata = {"name": name, "ownerReferences": owners}
        self._server.add(CLAIMS, {"metadata": metadata, "spec": spec, "status": {}}, "default")

    # The controller of claims

    def keep(self) -> None:
        if not self.is_on:
            return
        pods = {pod["metadata"]["uid"]: pod for pod in self._server.all("pods")}
        for pod in pods.values():
            is_made = pod["status"].get("resourceClaimStatuses") or pod["metadata"].get("deletionTimestamp")
            wants = [one for one in pod["spec"].get("resourceClaims", ()) if one.get("resourceClaimTemplateName")]
            if wants and not is_made and self._random.random() < STEPS:
                self._make(pod, wants)
        for claim in self._server.all(CLAIMS):
            if self._random.random() < STEPS:
                self._keep(claim, {uid for uid, pod in pods.items() if not _has_ended(pod)})

    def _make(self, pod: Json, wants: list[Json]) -> None:
        statuses = []
        for one in wants:
            self._made += 1
            name = f"{pod['metadata']['name']}-{one['name']}-{self._made}"
            owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
            self._add(name, 2 if one["resourceClaimTemplateName"] == "two" else 1, [owner])
            statuses.append({"name": one["name"], "resourceClaimName": name})
        self._server.put("pods", pod, status={"resourceClaimStatuses": statuses})

    def _keep(self, claim: Json, live: set[str]) -> None:
        consumers = claim["status"].get("reservedFor", [])
        left = [one for one in consumers if one["uid"] in live]
        if len(left) < len(consumers):
            kept = {"allocation": claim["status"]["allocation"], "reservedFor": left} if left else {}
            claim = self._server.put(CLAIMS, {**claim, "status": {}}, status=kept)
        if (owner := _owner(claim)) and owner not in live and not claim["status"].get("allocation"):
            self._server.remove(CLAIMS, claim)

    # Laws

    def _allocated(self, claim: Json) -> None:
        mine = set(_devices(claim))
        for other in self._server.all(CLAIMS):
            if other["metadata"]["uid"] != claim["metadata"]["uid"] and (twice := mine & set(_devices(other))):
                names = sorted(one["metadata"]["name"] for one in (claim, other))
                raise Violation(f"devices {sorted(twice)} are in claims {names}")

    def bound(self, pod: Json) -> None:
        """A pod is bound with its claims allocated, there, and reserved for it."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        for name, claim in self._claims(pod):
            status = claim["status"] if claim is not None else {}
            if uid not in {one["uid"] for one in status.get("reservedFor", ())}:
                raise Violation(f"{uid} is bound, and its claim {name} is not reserved for it")
            if claim is not None and {pool for pool, _ in _devices(claim)} - {node}:
                raise Violation(f"{uid} is bound to {node}, and the devices of {name} are {sorted(_devices(claim))}")

    def _claims(self, pod: Json) -> Iterator[tuple[str, Json | None]]:
        for namespace, name in claim_keys(msgspec.convert(pod, Pod, strict=False)):
            yield name, self._server.find(CLAIMS, name, namespace)

    def waits_for(self, pod: Json) -> str:
        """Why the pod may wait without an ask; empty: it may not, as far as its claims are known."""
        wants = pod["spec"].get("resourceClaims", ())
        known = list(self._claims(pod))
        if len(known) < len(wants):
            return "its claim is not made yet"
        for name, claim in known:
            if claim is None:
                return f"its claim {name} is gone"
            users = [one for one in self._server.all("pods") if claim in (its for _, its in self._claims(one))]
            if not claim["status"].get("allocation") and len(users) > 1:
                return f"its claim {name} is allocated for another pod first"
        return ""

    def suit(self, pod: Json, node: Json) -> bool:
        """Whether the node has the devices that the claims of the pod want, or the claims have devices there."""
        name, wanted = node["metadata"]["name"], 0
        for _, claim in self._claims(pod):
            if claim is None:
                return False
            if claim["status"].get("allocation"):
                if {pool for pool, _ in _devices(claim)} != {name}:
                    return False
            else:
                wanted += claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
        return wanted <= len(self._well(name) - self.in_use())

    def _well(self, node: str) -> set[Id]:
        return {(node, one["name"]) for one in self._published(node) if not one.get("taints")}

    def _published(self, node: str) -> list[Json]:
        slices = [one for one in self._server.all(SLICES) if one["spec"]["nodeName"] == node]
        return [device for one in slices for device in one["spec"]["devices"]]

    def in_use(self) -> set[Id]:
        return {one for claim in self._server.all(CLAIMS) for one in _devices(claim)}

    def compare(self, node: str, capacity: int, booked: int) -> None:
        """`booked`: what the scheduler has allocated there or knows as occupied."""
        there = len(self._published(node))
        used = len({one for one in self.in_use() if one[0] == node})
        if capacity != there or booked != used:
            raise Violation(f"{node} has {there} devices, {used} in use; the scheduler knows {capacity}, {booked}")


def _devices(claim: Json) -> list[Id]:
    results = claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
    return [(one["pool"], one["device"]) for one in results]


def _owner(claim: Json) -> str:
    return next((one["uid"] for one in claim["metadata"].get("ownerReferences", ())), "")


def _has_ended(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
