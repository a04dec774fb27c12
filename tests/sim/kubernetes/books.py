"""The books of a cluster: what its API server has, compared with what the scheduler knows."""

from __future__ import annotations

from remuda_core.core import Core
from remuda_core.index.admission import held_queue
from remuda_core.state import Allocation, Application, Partition
from remuda_core.state.timers import NEVER_MS
from remuda_kubernetes.shim.effects import Bind, Effect, Release
from remuda_kubernetes.shim.pod_reading import application_of, is_placeholder
from remuda_kubernetes.shim.quantities import Amounts, amounts, total
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

from ..story import Violation
from .api_server import ApiServer, Json
from .world import OTHER, QUEUES, free, has_ended, on_node, read, size

SCHEDULER = "remuda"


class Books:
    """Stands where another RM has its cluster. `core`: follows the log."""

    def __init__(self, rm_id: str, server: ApiServer) -> None:
        self.rm_id = rm_id
        self.core: Core
        self.shims: dict[str, Shim] = {}  # of each front end, in its last life
        self._server = server
        self._decided: dict[str, dict[str, str]] = {}  # UID -> node that a front end wanted -> UUID of the allocation
        self._bindings: dict[str, str] = {}  # UID -> node
        server.on_bound = self._bound

    @property
    def registered(self) -> bool:
        """A front end has compared the cluster with what the scheduler knows."""
        return any(shim.books.is_live for shim in self.shims.values())

    # On the way

    def _bound(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if uid in self._bindings:
            raise Violation(f"{uid} is bound to {node}, and was to {self._bindings[uid]}")
        if node not in self._decided.get(uid, {}):
            raise Violation(f"{uid} is bound to {node}, and nobody decided that")
        self._bindings[uid] = node

    def wanted(self, effect: Effect, shim: Shim) -> None:
        """A front end is about to have this done."""
        if isinstance(effect, Bind):
            entry = shim.books.pods.get(effect.pod.uid)  # None: it has ended since
            self._decided.setdefault(effect.pod.uid, {})[effect.node] = entry.uuid if entry is not None else ""
        elif isinstance(effect, Release) and effect.release.terminationType != si.STOPPED_BY_RM:
            self._confirmed(effect.release)

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
        return ""

    def compare(self, core: Core, _: list[str]) -> None:
        (partition,) = core.state.partitions.values()
        self._same_nodes(partition)
        live = [one for one in self._server.all("pods") if not has_ended(one)]
        ours = {one["metadata"]["uid"]: one for one in live if one["spec"]["schedulerName"] == SCHEDULER}
        self._same_allocations(partition, ours)
        self._same_asks(partition, ours)
        self._within_quotas(partition, list(ours.values()))
        self._none_waits_that_fits(partition, list(ours.values()))

    def _same_nodes(self, partition: Partition) -> None:
        there = {node["metadata"]["name"]: node for node in self._server.all("nodes")}
        if there.keys() != partition.nodes.keys():
            raise Violation(f"the cluster has nodes {sorted(there)}, the scheduler {sorted(partition.nodes)}")
        for name, node in there.items():
            known = partition.nodes[name]
            here = on_node(self._server, name)
            others = total(size(one) for one in here if one["spec"]["schedulerName"] == OTHER)
            ours = total(size(one) for one in here if one["spec"]["schedulerName"] == SCHEDULER)
            _same(f"capacity of {name}", amounts(node["status"]["allocatable"]), known.capacity)
            _same(f"occupied on {name}", others, known.occupied)
            _same(f"allocated on {name}", ours, known.allocated)
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
        if waiting.keys() - asked - self._held or asked - waiting.keys():
            raise Violation(f"pods {sorted(waiting.keys() - asked - self._held)} wait without an ask, "
                            f"asks {sorted(asked - waiting.keys())} have no pod that waits")  # fmt: skip

    def _within_quotas(self, partition: Partition, pods: list[Json]) -> None:
        """Of the queues where the applications are: an operator may have moved some."""
        self._used: dict[str, int] = {}
        for pod in pods:
            if pod["spec"].get("nodeName"):
                queue = _queue(partition, pod)
                self._used[queue] = self._used.get(queue, 0) + size(pod)["vcore"]
        for queue, limit in QUEUES.items():
            if limit and self._used.get(queue, 0) > limit:
                raise Violation(f"pods of {queue} have {self._used[queue]}, its maximum is {limit}")

    def _none_waits_that_fits(self, partition: Partition, pods: list[Json]) -> None:
        """By a check of its own, without what depends on other pods, and without nodes that wait for a larger pod."""
        reserved = {name for name, node in partition.nodes.items() if node.reservation is not None}
        for pod in pods:
            spec, amount = pod["spec"], size(pod)["vcore"]
            if spec.get("nodeName") or spec.get("affinity") or pod["metadata"]["uid"] in self._held:
                continue
            queue = _queue(partition, pod)
            if held_queue(_application(partition, pod).queue) is not None:
                continue  # an operator holds it
            if QUEUES[queue] and self._used.get(queue, 0) + amount > QUEUES[queue]:
                continue
            for node in self._server.all("nodes"):
                labels = node["metadata"]["labels"].items()
                is_open = not node["spec"].get("unschedulable") and node["metadata"]["name"] not in reserved
                suits = is_open and spec.get("nodeSelector", {}).items() <= labels
                if suits and free(self._server, node) >= amount:
                    name = pod["metadata"]["name"]
                    raise Violation(f"{name} waits in {queue}, and fits on {node['metadata']['name']}")


def _application(partition: Partition, pod: Json) -> Application:
    return partition.applications[application_of(read(pod)).id]


def _queue(partition: Partition, pod: Json) -> str:
    return _application(partition, pod).queue.path


def _same(what: str, there: Amounts, known: object) -> None:
    mine, theirs = ({name: one for name, one in dict(of).items() if one} for of in (there, known))  # type: ignore[call-overload]
    if mine != theirs:
        raise Violation(f"{what}: {mine}, the scheduler has {theirs}")
