"""A simulated API server, a shim and a core, without anything between them, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from integrations.kubernetes.tests import manifests
from remuda_bus.bus import Message
from remuda_core.commands import AnswerPredicates, Command, Register, Schedule, Tick, Verdict
from remuda_core.core import Core
from remuda_core.facts import Fact, PredicatesAsked
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings, TopologyLevel
from remuda_core.wire.codec import CommitCodec
from remuda_kubernetes.api.client import ApiError
from remuda_kubernetes.api.objects import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from remuda_kubernetes.shell.claims import give, give_back
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import (
    Ask,
    Bind,
    Effect,
    GiveBack,
    RecordEvent,
    Release,
    ReportAllocation,
    ReportNode,
    SetCondition,
    Submit,
)
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2
from remuda_rmproxy.inbound.translate import commands_of
from remuda_rmproxy.outbound.callback_mapping import RESPONSES
from remuda_rmproxy.outbound.callbacks import callbacks_of
from remuda_sdk.resource_manager.requests import RequestEncoder
from tests.sim.kubernetes.api_server import ApiServer, Json
from tests.sim.story import Story

GPU = "example.com/gpu"
DRIVER = "gpu.example.com"
RM, PARTITION = "k8s", "[k8s]default"
MESSAGE_BYTES = 1024 * 1024
EVERYTHING = 100  # asks
# Of each kind of object: its type, and where the shim is told that one has changed or is gone.
KINDS: dict[str, tuple[type[Any], attrgetter[Any]]] = {
    "nodes": (Node, attrgetter("node_changed", "node_gone")),
    "deviceclasses": (DeviceClass, attrgetter("device_class_changed", "device_class_gone")),
    "resourceslices": (ResourceSlice, attrgetter("device_claims.slice_changed", "device_claims.slice_gone")),
    "resourceclaims": (ResourceClaim, attrgetter("device_claims.claim_changed", "device_claims.claim_gone")),
    "pods": (Pod, attrgetter("pod_changed", "pod_gone")),
}
POLICY = ShimPolicy(frozenset({"remuda"}), device_classes=(("gpu", GPU),))


class Client:
    """Calls of the simulated API server. `before`: called with each path before the call."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.before: Callable[[str], None] = lambda path: None

    async def patch(self, path: str, body: Any, form: str = "") -> bytes:
        self.before(path)
        return self._server.call("PATCH", path, body, None)

    async def get(self, path: str, kind: type[Any]) -> Any:
        return msgspec.json.decode(self._server.call("GET", path, None, None), type=kind)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        self.before(path)
        self._server.call("POST", path, {"metadata": {"uid": uid}, "target": {"name": node}}, None)


class Plane:
    """`gpus`: devices of each node. `levels`: of the topology."""

    def __init__(
        self, gpus: dict[str, int], policy: ShimPolicy = POLICY, levels: tuple[TopologyLevel, ...] = ()
    ) -> None:
        self.now_ms = 1_000
        self.server = ApiServer(Story(time.monotonic), 36)
        self.client = Client(self.server)
        self.seen: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
        self.conditions: dict[str, str] = {}
        self.events: list[str] = []
        self.said: list[str] = []  # what the core has decided since it was asked last
        self.is_carried_out = True  # bindings and what is given back
        root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("default"),))
        self.core = Core(RM)
        self._encoder = RequestEncoder(RM)
        self._codec = CommitCodec()
        configuration = Configuration("x", (PartitionSettings("default", root, topology=levels, devices={GPU: 1}),))
        self.core.handle(Register(RM, configuration, extra_config={"predicates": "batch"}), self.now_ms)
        self.shim = Shim(policy)
        self.add_class()
        for name, count in gpus.items():
            self.server.add("nodes", manifests.node(name))
            self.add_slice(name, [{"name": f"gpu-{number}"} for number in range(count)])
        self.look()
        self.shim.report()

    def add_class(self, name: str = "gpu", driver: str = DRIVER) -> None:
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        config = [{"opaque": {"driver": driver, "parameters": {"of": "class"}}}]
        spec = {"selectors": [selector], "config": config}
        self.server.add("deviceclasses", {"metadata": {"name": name}, "spec": spec})

    def add_slice(self, node: str, of: list[Json], generation: int = 1, parts: int = 1, name: str = "") -> None:
        pool = {"name": node, "generation": generation, "resourceSliceCount": parts}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": of}
        self.server.add("resourceslices", {"metadata": {"name": name or f"{node}-slice"}, "spec": spec})

    def add_claim(self, name: str = "c", count: int = 1, owner: str = "", of: str = "gpu") -> Json:
        exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
        metadata: Json = {"name": name}
        if owner:
            metadata["ownerReferences"] = [{"kind": "Pod", "name": name, "uid": owner, "controller": True}]
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}],
                            "config": [{"opaque": {"driver": DRIVER, "parameters": {"of": "claim"}}}]}}  # fmt: skip
        return self.server.add("resourceclaims", {"metadata": metadata, "spec": spec, "status": {}}, "default")

    def add_pod(self, name: str, *claims: str) -> Json:
        wants = [{"name": f"of-{claim}", "resourceClaimName": claim} for claim in claims]
        made = manifests.pod(name, app="app", cpu="1", resourceClaims=wants)
        return self.server.add("pods", made, "default")

    def claim(self, name: str = "c") -> Json:
        found = self.server.find("resourceclaims", name)
        assert found is not None
        return found

    def devices_of(self, name: str = "c") -> list[tuple[str, str]]:
        results = self.claim(name)["status"].get("allocation", {}).get("devices", {}).get("results", [])
        return [(one["pool"], one["device"]) for one in results]

    def node_of(self, pod: str) -> str:
        found = self.server.find("pods", pod)
        return found["spec"].get("nodeName", "") if found is not None else ""

    # The reflectors, the bus and the calls

    def restart(self) -> None:
        """Another shim has seen everything, and has told nothing yet."""
        self.shim, self.seen = Shim(self.shim.cache.policy), {kind: {} for kind in KINDS}
        self.look()

    def look(self) -> None:
        """The shim gets what has changed."""
        for kind, (of, handlers) in KINDS.items():
            now = {one["metadata"]["uid"]: one for one in self.server.all(kind)}
            before, self.seen[kind] = self.seen[kind], now
            changed, gone = handlers(self.shim)
            for uid in before.keys() - now.keys():
                gone(msgspec.convert(before[uid], of))
            for uid, one in now.items():
                if before.get(uid) != one:
                    changed(msgspec.convert(one, of))

    async def settle(self) -> None:
        """Until nothing is left to do."""
        for _ in range(30):
            self.look()
            effects = self.shim.take()
            for effect in effects:
                await self._carry_out(effect)
            self.now_ms += 1_000
            facts = self._decide([Tick(), Schedule(EVERYTHING)])
            asked = [one for one in facts if isinstance(one, PredicatesAsked)]
            for one in asked:
                facts += self._decide([self._answer(one), Schedule(EVERYTHING)])
            self.said += map(str, facts)
            self.shim.sweep()
            if not (effects or asked or facts):
                return

    def _answer(self, asked: PredicatesAsked) -> AnswerPredicates:
        found = self.shim.questions.verdicts(asked.allocation_key, asked.predicate_class, asked.node_ids)
        verdicts = tuple(Verdict(one.node_id, one.reason, one.holds_ms) for one in found)
        return AnswerPredicates(PARTITION, asked.question, verdicts)

    def _decide(self, commands: Iterable[Command]) -> list[Fact]:
        """The shim gets the callbacks."""
        facts = self.core.handle_all(commands, self.now_ms)
        commit = log_pb2.Commit(now_ms=self.now_ms)
        self._codec.write(facts, commit.decisions.add())
        for callback in callbacks_of(commit, RM, MESSAGE_BYTES):
            if callback.kind in RESPONSES:
                getattr(self.shim, callback.kind)(RESPONSES[callback.kind].FromString(callback.payload))
        return facts

    async def _carry_out(self, effect: Effect) -> None:
        encoder = self._encoder
        match effect:
            case Submit(application):
                self._send("application", encoder.submissions([application], MESSAGE_BYTES))
            case Ask(ask):
                self._send("allocation", encoder.asks([ask], MESSAGE_BYTES))
            case Release(release):
                self._send("allocation", encoder.releases([release], MESSAGE_BYTES))
            case ReportAllocation(allocation):
                self._send("allocation", encoder.allocations([allocation], MESSAGE_BYTES))
            case ReportNode(node):
                self._send("node", encoder.nodes([node], MESSAGE_BYTES))
            case SetCondition(pod, _, message):
                self.conditions[pod.name] = message
            case RecordEvent(_, pod, reason, _, note):
                self.events.append(f"{pod.name} {reason} {note}")
            case Bind() | GiveBack() if self.is_carried_out:
                await self._call(effect)

    def _send(self, kind: str, payloads: Iterable[bytes]) -> None:
        """A request as rmproxy translates it, and the core reads it."""
        for payload in payloads:
            for command in commands_of(Message(f"si.v1.rm.{RM}.{kind}", payload, seq=1), RM, MESSAGE_BYTES):
                _, commands = self._codec.read(inbox_pb2.Command.FromString(command))
                self._decide(commands)

    async def _call(self, effect: Bind | GiveBack) -> None:
        try:
            if isinstance(effect, GiveBack):
                await give_back(self.client, effect)  # type: ignore[arg-type]
                self.shim.device_claims.given_back(effect)
                return
            for write in effect.claims:
                await give(self.client, write, effect.pod)  # type: ignore[arg-type]
            await self.client.bind(effect.pod.namespace, effect.pod.name, effect.pod.uid, effect.node)
        except ApiError as error:
            self.shim.binding_failed(effect.pod.uid, effect.node, error.reason)  # type: ignore[union-attr]
        else:
            self.shim.bound(effect.pod.uid, effect.node)

    def free_claims(self) -> None:
        """Do as the controller of claims: free those of pods that are gone."""
        there = {one["metadata"]["uid"] for one in self.server.all("pods")}
        for claim in self.server.all("resourceclaims"):
            consumers = claim["status"].get("reservedFor", [])
            left = [one for one in consumers if one["uid"] in there]
            if len(left) < len(consumers):
                status = {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
                path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim['metadata']['name']}/status"
                self.server.call("PATCH", path, {"metadata": {}, "status": status}, None)

    def capacity(self, node: str) -> int:
        return self.core.state.partitions[PARTITION].nodes[node].capacity.get(GPU, 0)

    def known(self, node: str) -> tuple[int, int, dict[str, int]]:
        """Of the core: devices of the node, how many are occupied, and what is free on each."""
        of = self.core.state.partitions[PARTITION].nodes[node]
        free = dict(zip(of.devices[GPU].room, of.devices[GPU].free(), strict=True))
        return of.capacity.get(GPU, 0), of.occupied.get(GPU, 0), free
