"""What goes on in the cluster: users create and delete pods, machines come and go, kubelets and controllers do their
work, and another scheduler places its own pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import msgspec

from integrations.kubernetes.tests import manifests
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim import names
from remuda_kubernetes.shim.pod_reading import is_placeholder, required_node_of
from remuda_kubernetes.shim.quantities import Amounts, amounts, request_of, total

from ..story import Story
from .api_client import NAMESPACE
from .api_server import ApiServer, Json
from .devices import DevicePlane
from .storage import ZONE, ZONES, Storage, has_ended

MAPS = ("yunikorn-configs",)
NODES_AT_MOST = 7
PODS_AT_MOST = 60
MORE_CLAIMS = 8  # weight of several pods with claims at once, where volumes are scarce
OTHER = "default-scheduler"

QUEUES = {"root.a": 8_000, "root.b": 0, "root.c": 6_000}  # name -> thousandths of a core at most; 0: no limit
WITH_GUARANTEES = """
partitions:
- name: default
  queues:
  - {name: a, submitacl: "*", adminacl: ops, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
  - {name: b, submitacl: "*", adminacl: ops}
  - {name: c, submitacl: "*", adminacl: ops, resources: {guaranteed: {vcore: 3}, max: {vcore: 6}}}
"""
WITHOUT_GUARANTEES = """
partitions:
- name: default
  queues:
  - {name: a, submitacl: "*", adminacl: ops, resources: {max: {vcore: 8}}}
  - {name: b, submitacl: "*", adminacl: ops}
  - {name: c, submitacl: "*", adminacl: ops, resources: {max: {vcore: 6}}}
"""


@dataclass(frozen=True, slots=True)
class Mode:
    """Settings of the front end. `hold`: auto in shim mode, where it has no effect."""

    hold: Literal["auto", "gates", "extender"] = "auto"
    pin: Literal["auto", "hard", "soft", "free"] = "auto"

    @property
    def is_plugin(self) -> bool:
        return self.hold != "auto"

    @property
    def gates(self) -> Json:
        """What the admission webhook adds to the spec of a pod."""
        return {"schedulingGates": [{"name": names.GATE}]} if self.hold == "gates" else {}


SHIM = Mode()
MODES = (
    SHIM,
    SHIM,
    SHIM,
    SHIM,
    Mode("gates", "hard"),
    Mode("gates", "soft"),
    Mode("gates", "free"),
    Mode("extender", "hard"),
)


class World:
    """`resting`: nobody wants anything new. `mode`: of the front end."""

    def __init__(
        self, random: Random, story: Story, server: ApiServer, mode: Mode, devices: DevicePlane | None = None
    ) -> None:
        self.resting = False
        self.devices = devices if devices is not None else DevicePlane(Random(0), server, is_on=False)
        self._mode = mode
        self._manifests: dict[str, Json] = {}  # by name, as users have created them
        self.server = server
        self.storage = Storage(random, server)
        self._random = random
        self._story = story
        self._pace_s = random.choice((0.1, 0.3, 0.8))
        self._kubelet_s = random.choice((0.2, 2.0))
        self._made = 0
        self._again: dict[str, Json] = {}  # by name: pods that are created when those of their names are gone
        self._applications: list[tuple[str, str]] = []  # with queue
        self._gangs: list[tuple[str, str, int, Json]] = []  # application, queue, size, annotations
        server.add("namespaces", {"metadata": {"name": "default"}})
        timing = {"timing.completing": random.choice(("1s", "1s", "30s"))}
        configuration = {
            "metadata": {"name": MAPS[0]},
            "data": {"queues.yaml": self.devices.configured(WITH_GUARANTEES), **timing},
        }
        server.add("configmaps", configuration, NAMESPACE)
        for _ in range(3):
            self._add_node()

    # Users

    async def run(self) -> None:
        more: list[tuple[Callable[[World], None], float]] = []
        more += [(World._create_some_with_claims, MORE_CLAIMS)] * self.storage.is_scarce
        more += [(World._create_with_devices, 14), (World._change_devices, 2)] * self.devices.is_on
        acts, weights = zip(*self.ACTS, *more, strict=True)
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._pace_s))
            if self.server.is_up and not self.resting:
                self._random.choices(acts, weights)[0](self)

    def rest(self) -> None:
        """Guarantees end too: while a queue is below its own, the scheduler tries to preempt for it. All
        placeholders are deleted: no gang may wait for them for ever."""
        self.resting = self.storage.resting = True
        self._again.clear()
        if there := self.server.find("configmaps", MAPS[0], NAMESPACE):
            self.server.put("configmaps", there, data={"queues.yaml": self.devices.configured(WITHOUT_GUARANTEES)})
        for pod in self._pods():
            if is_placeholder(read(pod)):
                self.server.delete(pod)

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    def _create_pod(self) -> None:
        if len(self.server.all("pods")) >= PODS_AT_MOST:
            return
        if not self._applications or self._random.random() < 0.2:
            self._applications.append((self._name("app"), self._random.choice(list(QUEUES))))
        app, queue = self._random.choice(self._applications[-6:])
        selector = {"zone": self._random.choice(ZONES)} if self._random.random() < 0.3 else {}
        self._create_ours(
            manifests.pod(
                self._name("pod"),
                app=app,
                queue=queue,
                cpu=self._random.choice(("500m", "1", "1", "2")),
                nodeSelector=selector,
                priority=self._random.choice((0, 0, 5)),
                **(APART if self._random.random() < 0.1 else {}),
            )
        )

    def _create_of_daemon_set(self) -> None:
        """One pod of a DaemonSet, as its controller makes it: its affinity names its node."""
        node = self._a_node()
        if node is None or len(self.server.all("pods")) >= PODS_AT_MOST:
            return
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}]}]
        affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
        made = manifests.pod(self._name("daemon"), app="daemons", queue="root.b", cpu="500m", affinity=affinity)
        owner = {"kind": "DaemonSet", "name": "daemons", "uid": "uid-of-daemons"}
        self._create_ours({**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}})

    def _create_with_claims(self) -> None:
        if len(self.server.all("pods")) >= PODS_AT_MOST:
            return
        names = {self.storage.claim() for _ in range(self._random.choice((1, 1, 1, 2)))}
        volumes: list[Json] = [
            {"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in sorted(names)
        ]
        if self._random.random() < 0.3:
            template = {"metadata": {}, "spec": self.storage.claim_spec()}
            volumes[-1] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
        app, queue = self._name("app"), self._random.choice(list(QUEUES))
        self._create_ours(manifests.pod(self._name("stateful"), app=app, queue=queue, cpu="500m", volumes=volumes))

    def _create_some_with_claims(self) -> None:
        for _ in range(self._random.randint(2, 5)):
            self._create_with_claims()

    def _create_with_devices(self) -> None:
        if len(self.server.all("pods")) < PODS_AT_MOST:
            app, queue = self._name("app"), self._random.choice(list(QUEUES))
            claims = self.devices.wanted()
            self._create_ours(
                manifests.pod(self._name("trainer"), app=app, queue=queue, cpu="500m", resourceClaims=claims)
            )

    def _change_devices(self) -> None:
        self.devices.change()

    def _create_gang(self) -> None:
        if len(self.server.all("pods")) >= PODS_AT_MOST or self._mode.pin == "free":
            return  # free pins make no gangs
        app, queue, size, annotations = gang = self._a_gang()
        if gang not in self._gangs:
            self._gangs.append(gang)
        for _ in range(self._random.choice((1, size, size, size + 1))):
            self._create_ours(
                manifests.pod(self._name("member"), app=app, queue=queue, cpu="1", annotations=annotations)
            )

    def _a_gang(self) -> tuple[str, str, int, Json]:
        """A new one, or one whose pods are all gone: the application begins again."""
        there = {pod["metadata"]["labels"].get("applicationId") for pod in self.server.all("pods")}
        over = [gang for gang in self._gangs if gang[0] not in there]
        if over and self._random.random() < 0.6:
            return self._random.choice(over)
        app, size = self._name("gang"), self._random.choice((2, 3, 4))
        group = {"name": "workers", "minMember": size, "minResource": {"cpu": "1"}}
        style, timeout_s = self._random.choice(("Soft", "Hard")), self._random.choice((6, 15))
        annotations = {
            names.TASK_GROUPS: json.dumps([group]),
            names.TASK_GROUP: "workers",
            names.POLICY_PARAMETERS: f"placeholderTimeoutInSeconds={timeout_s} gangSchedulingStyle={style}",
        }
        return app, self._random.choice(list(QUEUES)), size, annotations

    def _end_gang(self) -> None:
        """All its pods are deleted, or only its placeholders."""
        there = {pod["metadata"]["labels"].get("applicationId") for pod in self._pods(bound=True)}
        if ends := [app for app, *_ in self._gangs if app in there]:
            app, all_of_it = self._random.choice(ends), self._random.random() < 0.3
            for pod in self._pods():
                is_its = pod["metadata"]["labels"].get("applicationId") == app
                if is_its and (all_of_it or is_placeholder(read(pod))):
                    self.server.delete(pod)

    def _create(self, manifest: Json) -> None:
        self._manifests[manifest["metadata"]["name"]] = manifest
        self.server.add("pods", manifest, "default")

    def _create_ours(self, manifest: Json) -> None:
        """In plugin mode the default scheduler places most of them. The admission webhook adds the gate."""
        if self._mode.is_plugin and self._random.random() < 0.8:
            spec = {**manifest["spec"], "schedulerName": OTHER, **self._mode.gates}
            manifest = {**manifest, "spec": spec}
        self._create(manifest)

    def _pods(self, *, bound: bool | None = None) -> list[Json]:
        return [
            pod
            for pod in self.server.all("pods")
            if bound is None or bool(pod["spec"].get("nodeName")) == bound
            if not pod["metadata"].get("deletionTimestamp") and not has_ended(pod)
        ]

    def _delete_pod(self) -> None:
        """As for a StatefulSet, another one of its name may follow."""
        if pods := self._pods():
            self._delete(self._random.choice(pods), again=self._random.random() < 0.4)

    def replace(self, name: str, uid: str) -> None:
        """This very pod, unless it is gone."""
        pod = self.server.find("pods", name)
        if self.server.is_up and pod is not None and pod["metadata"]["uid"] == uid:
            self._delete(pod, again=True)

    def _delete(self, pod: Json, *, again: bool) -> None:
        self.server.delete(pod)
        name = pod["metadata"]["name"]
        if again:
            self._again[name] = self._manifests.get(name) or self._as_created(pod)
            self._create_again()

    def _create_again(self) -> None:
        for name in [one for one in self._again if self.server.find("pods", one) is None]:
            self._create(self._again.pop(name))

    def _as_created(self, pod: Json) -> Json:
        """A placeholder, as a user would copy it."""
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "affinity")}
        metadata = {key: pod["metadata"][key] for key in ("name", "labels", "annotations")}
        return {"metadata": metadata, "spec": spec | (self._mode.gates if spec["schedulerName"] == OTHER else {})}

    def _end_pod(self) -> None:
        if pods := self._pods(bound=True):
            self.server.put("pods", self._random.choice(pods), status={"phase": "Succeeded"})

    # Machines, and those who run them

    def _add_node(self) -> None:
        if len(self.server.all("nodes")) < NODES_AT_MOST:
            cpu, zone = self._random.choice(("2", "4", "8")), self._random.choice(ZONES)
            name = self._name("node")
            labels = {"zone": zone, ZONE: self._random.choice(ZONES)}
            self.server.add("nodes", {**manifests.node(name, cpu=cpu, **labels)})
            self.storage.add_node(name)
            self.devices.add_node(name)

    def _a_node(self) -> Json | None:
        nodes = self.server.all("nodes")
        return self._random.choice(nodes) if nodes else None

    def _remove_node(self) -> None:
        node = self._a_node()
        if node is not None and len(self.server.all("nodes")) > 2:
            self.server.remove("nodes", node)

    def _cordon(self) -> None:
        if node := self._a_node():
            self.server.put("nodes", node, spec={"unschedulable": self._random.random() < 0.4})

    def _grow_node(self) -> None:
        if node := self._a_node():
            status = {"allocatable": {**node["status"]["allocatable"], "cpu": "8"}}
            self.server.put("nodes", node, status=status)

    def _relabel(self) -> None:
        if node := self._a_node():
            labels = {**node["metadata"]["labels"], "zone": self._random.choice(ZONES)}
            self.server.put("nodes", node, metadata={"labels": labels})

    def _place_another(self) -> None:
        """A pod of the other scheduler, where it sees room."""
        cpu = self._random.choice(("500m", "1"))
        for node in self._random.sample(nodes := self.server.all("nodes"), len(nodes)):
            if free(self.server, node) >= amounts({"cpu": cpu})["vcore"]:
                name = node["metadata"]["name"]
                self._create(manifests.pod(self._name("other"), cpu=cpu, scheduler=OTHER, nodeName=name))
                return

    def _delete_claim(self) -> None:
        self.storage.delete_claim()

    def _take_volume(self) -> None:
        self.storage.take_volume()

    ACTS: tuple[tuple[Callable[[World], None], float], ...] = (
        (_create_pod, 22), (_create_with_claims, 12), (_delete_claim, 1), (_take_volume, 1), (_create_gang, 6),
        (_create_of_daemon_set, 3), (_end_gang, 4), (_delete_pod, 7), (_end_pod, 9), (_add_node, 2), (_remove_node, 1),
        (_cordon, 2), (_grow_node, 1), (_relabel, 1), (_place_another, 3),
    )  # fmt: skip

    # Kubelets and controllers, which never rest

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(self._kubelet_s * self._random.uniform(0.5, 1.5))
            if self.server.is_up:
                for pod in self.server.all("pods"):
                    self._keep(pod)
                self._create_again()
                self.storage.keep()
                self.devices.keep()

    def _keep(self, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        if node and self.server.find("nodes", node, "") is None:
            self.server.remove("pods", pod)  # the collector of pods without a node
        elif pod["metadata"].get("deletionTimestamp"):
            if self._random.random() < 0.5:
                self.server.remove("pods", pod)
        elif any(not self._exists(owner) for owner in pod["metadata"].get("ownerReferences", ())):
            self.server.delete(pod)
        elif not node and (required := required_node_of(read(pod))) and self.server.find("nodes", required, "") is None:
            self.server.delete(pod)  # by the controller of DaemonSets
        elif node and pod["status"]["phase"] == "Pending":
            self.server.put("pods", pod, status={"phase": "Running"})
        elif has_ended(pod) and self._random.random() < 0.2:
            self.server.remove("pods", pod)

    def _exists(self, owner: Json) -> bool:
        is_pod = owner["kind"] == "Pod"
        return not is_pod or any(pod["metadata"]["uid"] == owner["uid"] for pod in self.server.all("pods"))


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_APART_TERM = {"labelSelector": {"matchLabels": {"apart": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
APART: Json = {
    "labels": {"apart": "yes"},
    "affinity": {"podAntiAffinity": {REQUIRED: [_APART_TERM]}},
}


def suits(pod: Json, node: Json) -> bool:
    """Whether the node is open to the pod, by its selector and the node that it requires."""
    spec = pod["spec"]
    if (
        node["spec"].get("unschedulable")
        or not spec.get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
    ):
        return False
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    terms = required.get("nodeSelectorTerms", ())
    return not terms or any(
        all(node["metadata"]["name"] in field["values"] for field in term["matchFields"]) for term in terms
    )


def preferences(pod: Json) -> set[str]:
    """The names of the nodes that the pod prefers."""
    terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, ())
    return {name for term in terms for field in term["preference"]["matchFields"] for name in field["values"]}


def size(pod: Json) -> Amounts:
    return request_of(read(pod))


def read(pod: Json) -> Pod:
    return msgspec.convert(pod, Pod, strict=False)


def on_node(server: ApiServer, name: str) -> list[Json]:
    return [pod for pod in server.all("pods") if pod["spec"].get("nodeName") == name and not has_ended(pod)]


def free(server: ApiServer, node: Json) -> int:
    """Thousandths of a core."""
    taken: dict[str, Any] = total(size(pod) for pod in on_node(server, node["metadata"]["name"]))
    return int(amounts(node["status"]["allocatable"])["vcore"] - taken.get("vcore", 0))
