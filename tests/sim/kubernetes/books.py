"""The books of a cluster: what its API server has, compared with what the scheduler knows."""

from __future__ import annotations

from collections.abc import Mapping

from remuda_core.core import Core
from remuda_core.index.limits import held_queue
from remuda_core.state import Allocation, Application, Partition
from remuda_core.state.timers import NEVER_MS
from remuda_kubernetes.plugin.plugin import Approve, OpenGate, PluginCall
from remuda_kubernetes.shim.effects import Bind, Effect, Release
from remuda_kubernetes.shim.pod_reading import application_of, applications_given, is_placeholder, required_node_of
from remuda_kubernetes.shim.quantities import Amounts, amounts, total
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

from ..story import Violation
from .api_server import ApiServer, Json
from .devices import RESOURCE, DevicePlane
from .storage import Storage, has_ended
from .volume_books import VolumeBooks
from .world import OTHER, QUEUES, Mode, free, on_node, read, size, suits


class Books:
    """Stands where another RM has its cluster. `core`: follows the log."""

    def __init__(self, rm_id: str, server: ApiServer, mode: Mode, storage: Storage, devices: DevicePlane) -> None:
        self.rm_id = rm_id
        self.core: Core
        self.shims: dict[str, Shim] = {}  # of each front end, in its last life
        self._server = server
        self._devices = devices
        self._mode = mode
        self._decided: dict[str, dict[str, str]] = {}  # UID -> node that a front end wanted -> UUID of the allocation
        self._bindings: dict[str, str] = {}  # UID -> node
        # UIDs of pods that are bound elsewhere than approved, or after their approval was taken back.
        self._moved: set[str] = set()
        server.on_bound = self._bound
        self._volumes = VolumeBooks(server, storage, self._moved, mode.pin not in ("soft", "free"))

    @property
    def registered(self) -> bool:
        """A front end has compared the cluster with what the scheduler knows."""
        return any(shim.cache.is_live for shim in self.shims.values())

    # On the way

    def _bound(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if (required := required_node_of(read(pod))) not in ("", node):
            raise Violation(f"{uid} is bound to {node}, and is for {required}")
        if uid in self._bindings:
            raise Violation(f"{uid} is bound to {node}, and was to {self._bindings[uid]}")
        decided = self._decided.get(uid, {})
        if decided and node not in decided and self._mode.pin in ("soft", "free"):
            self._moved.add(uid)
        elif node not in decided:
            raise Violation(f"{uid} is bound to {node}, and nobody decided that")
        elif self._mode.is_plugin and not decided[node]:
            self._moved.add(uid)
        self._bindings[uid] = node
        self._volumes.bound(pod)
        self._devices.bound(pod)

    def decided(self, effect: Effect | PluginCall, shim: Shim) -> None:
        """A front end has decided this. It may be told about other changes before it has it done."""
        self._volumes.decided(effect, shim)

    def wanted(self, effect: Effect | PluginCall, shim: Shim) -> None:
        """A front end is about to have this done."""
        self._volumes.wanted(effect, shim)
        if isinstance(effect, Bind | OpenGate | Approve) and effect.node:
            entry = shim.cache.pods.get(effect.pod.uid)  # None: it has ended since
            self._decided.setdefault(effect.pod.uid, {})[effect.node] = entry.uuid if entry is not None else ""
        elif isinstance(effect, Release) and effect.release.terminationType != si.STOPPED_BY_RM:
            self._confirmed(effect.release)

        elif isinstance(effect, Release) and isinstance(effect.release, si.AllocationRelease) and self._mode.is_plugin:
            self._taken_back(effect.release)

    def _taken_back(self, release: si.AllocationRelease) -> None:
        """The default scheduler may bind the pod all the same, or has without being seen: it is reported with another
        allocation."""
        decided = self._decided.get(release.allocationKey, {})
        for node, uuid in decided.items():
            if uuid == release.UUID:
                decided[node] = ""
                if self._bindings.get(release.allocationKey) == node:
                    self._moved.add(release.allocationKey)

    def _confirmed(self, release: si.AllocationRelease | si.AllocationAskRelease) -> None:
        uid = release.allocationKey
        for node, uuid in self._decided.get(uid, {}).items():
            is_its = isinstance(release, si.AllocationRelease) and uuid == release.UUID
            is_there = self._server.find("nodes", node, "") is not None
            if is_its and is_there and any(one["metadata"]["uid"] == uid for one in on_node(self._server, node)):
                raise Violation(f"the release of {uid} is confirmed, and it runs on {node}")

    # At the end

    def waits(self) -> str:
        """What ends by a timer, and changes more then. Empty: nothing."""
        live = {application_of(read(pod)).id for pod in self._server.all("pods") if not has_ended(pod)}
        for partition in self.core.state.partitions.values():
            for one in partition.applications.values():
                if one.state == "Completing" and one.id in live:
                    return f"{one.id} completes, and begins again with its pods"
            for name, of in partition.predicate_classes.items():
                if of.asks and "not answered" in of.refusal and min(of.refused.values(), default=NEVER_MS) < NEVER_MS:
                    return f"class {name} waits: {of.refusal}"
        for shim in self.shims.values():
            for entry in shim.cache.pods.values():
                if shim.cache.is_live and entry.is_waiting and entry.unfit:
                    return f"{entry.pod.key} is kept off nodes for a while"
        return self._waits_for_the_default_scheduler()

    def _waits_for_the_default_scheduler(self) -> str:
        for pod in self._server.all("pods"):
            uid = pod["metadata"]["uid"]
            if pod["spec"]["schedulerName"] != OTHER or pod["spec"].get("nodeName") or has_ended(pod):
                continue
            for shim in self.shims.values():
                entry = shim.cache.pods.get(uid)
                if shim.cache.is_live and entry is not None and (entry.uuid or entry.unfit):
                    return f"{uid} is approved, or kept off nodes for a while"
        return ""

    def compare(self, core: Core, _: list[str]) -> None:
        (partition,) = core.state.partitions.values()
        self._same_nodes(partition)
        live = [one for one in self._server.all("pods") if not has_ended(one)]
        ours = {one["metadata"]["uid"]: one for one in live if _is_ours(one)}
        self._same_allocations(partition, ours)
        self._same_asks(partition, ours)
        self._within_quotas(partition, list(ours.values()))
        self._none_waits_that_fits(partition, list(ours.values()))
        self._volumes.compare()

    def _same_nodes(self, partition: Partition) -> None:
        there = {node["metadata"]["name"]: node for node in self._server.all("nodes")}
        if there.keys() != partition.nodes.keys():
            raise Violation(f"the cluster has nodes {sorted(there)}, the scheduler {sorted(partition.nodes)}")
        for name, node in there.items():
            known = partition.nodes[name]
            here = on_node(self._server, name)
            others = total(size(one) for one in here if not _is_ours(one))
            ours = total(size(one) for one in here if _is_ours(one))
            _same(f"capacity of {name}", amounts(node["status"]["allocatable"]), _but_devices(known.capacity))
            _same(f"occupied on {name}", others, _but_devices(known.occupied))
            _same(f"allocated on {name}", ours, _but_devices(known.allocated))
            if self._devices.is_on:
                booked = known.allocated.get(RESOURCE, 0) + known.occupied.get(RESOURCE, 0)
                self._devices.compare(name, known.capacity.get(RESOURCE, 0), booked)
            if known.drained_by_rm != (unschedulable := node["spec"].get("unschedulable", False)):
                raise Violation(f"{name} is unschedulable: {unschedulable}, drained: {known.drained_by_rm}")

    def _same_allocations(self, partition: Partition, pods: dict[str, Json]) -> None:
        bound = {uid: one["spec"]["nodeName"] for uid, one in pods.items() if one["spec"].get("nodeName")}
        known: dict[str, Allocation] = {}
        for allocation in partition.allocations.values():
            key = allocation.fact.allocation_key
            if key in known:
                raise Violation(f"{key} has two allocations")
            known[key] = allocation
        if bound.keys() != known.keys():
            raise Violation(f"pods {sorted(bound.keys() - known.keys())} are bound without an allocation, "
                            f"{sorted(known.keys() - bound.keys())} have one and are not bound")  # fmt: skip
        for uid, allocation in known.items():
            if allocation.node.id != bound[uid]:
                raise Violation(f"{uid} is bound to {bound[uid]}, its allocation is on {allocation.node.id}")
            if allocation.releasing and not pods[uid]["metadata"].get("deletionTimestamp"):
                raise Violation(f"{uid} is to be released, and nobody deletes it")

    def _same_asks(self, partition: Partition, pods: dict[str, Json]) -> None:
        """A pod that waits is asked for, and nothing else is. Pods of a gang may wait for placeholders that wait."""
        waiting = {uid: read(one) for uid, one in pods.items() if not one["spec"].get("nodeName")}
        asked = {key for one in partition.applications.values() for key, ask in one.asks.items() if ask.pending > 0}
        reserving = {application_of(one).id for one in waiting.values() if is_placeholder(one)}
        self._held = {
            uid for uid, one in waiting.items() if application_of(one).id in reserving and not is_placeholder(one)
        }
        for uid, pod in pods.items():
            if uid in waiting and (why := self._volumes.waits_for(pod) or self._devices.waits_for(pod)):
                self._held.add(uid)
                if uid not in asked and not self._has_reason(uid):
                    raise Violation(f"{uid} waits, as {why}, and nobody says so")
        if waiting.keys() - asked - self._held or asked - waiting.keys():
            raise Violation(f"pods {sorted(waiting.keys() - asked - self._held)} wait without an ask, "
                            f"asks {sorted(asked - waiting.keys())} have no pod that waits")  # fmt: skip

    def _has_reason(self, uid: str) -> bool:
        entries = (shim.cache.pods.get(uid) for shim in self.shims.values() if shim.cache.is_live)
        return any(entry is not None and entry.condition[1] for entry in entries)

    def _within_quotas(self, partition: Partition, pods: list[Json]) -> None:
        """Of the queues where the applications are. An operator may have moved some there by force. While the booking
        of a pod that was bound elsewhere moves, another may take its place under the quota; so may one when the
        approval of a pod was taken back, and its binding was on the way (docs/adr/kubernetes-plugin-and-webhook.md)."""
        self._used: dict[str, int] = {}
        excused: dict[str, int] = {}
        for pod in pods:
            if pod["spec"].get("nodeName"):
                queue, amount = _queue(partition, pod), size(pod)["vcore"]
                self._used[queue] = self._used.get(queue, 0) + amount
                if queue != pod["metadata"]["labels"].get("queue", queue) or pod["metadata"]["uid"] in self._moved:
                    excused[queue] = excused.get(queue, 0) + amount
        for queue, limit in QUEUES.items():
            if limit and self._used.get(queue, 0) > limit + excused.get(queue, 0):
                raise Violation(f"pods of {queue} have {self._used[queue]}, its maximum is {limit}")

    def _none_waits_that_fits(self, partition: Partition, pods: list[Json]) -> None:
        """By a check of its own, without what depends on other pods, without nodes that wait for a larger pod, and
        without those that an operator drains."""
        shut = {name for name, node in partition.nodes.items() if node.reservation is not None or node.drained}
        for pod in pods:
            spec, amount = pod["spec"], size(pod)["vcore"]
            is_among_pods = "podAntiAffinity" in spec.get("affinity", {})
            if spec.get("nodeName") or is_among_pods or pod["metadata"]["uid"] in self._held:
                continue
            queue = _queue(partition, pod)
            if held_queue(_application(partition, pod).queue) is not None:
                continue  # an operator holds it
            if QUEUES[queue] and self._used.get(queue, 0) + amount > QUEUES[queue]:
                continue
            for node in self._server.all("nodes"):
                is_open = node["metadata"]["name"] not in shut and suits(pod, node)
                suit = self._volumes.suit(pod, node) and self._devices.suit(pod, node)
                if is_open and suit and free(self._server, node) >= amount:
                    name = pod["metadata"]["name"]
                    raise Violation(f"{name} waits in {queue}, and fits on {node['metadata']['name']}")


def _but_devices(of: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in of.items() if name != RESOURCE}


def _is_ours(pod: Json) -> bool:
    """Users give an application to all pods that are ours."""
    return bool(applications_given(read(pod).metadata))


def _application(partition: Partition, pod: Json) -> Application:
    return partition.applications[application_of(read(pod)).id]


def _queue(partition: Partition, pod: Json) -> str:
    return _application(partition, pod).queue.path


def _same(what: str, there: Amounts, known: object) -> None:
    mine, theirs = ({name: one for name, one in dict(of).items() if one} for of in (there, known))  # type: ignore[call-overload]
    if mine != theirs:
        raise Violation(f"{what}: {mine}, the scheduler has {theirs}")
