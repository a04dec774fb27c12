"""Nodes of the API server as nodes of the scheduler. Pure."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Node
from remuda_kubernetes.shim import messages, names, topology
from remuda_kubernetes.shim.cache import Cache, NodeEntry
from remuda_kubernetes.shim.effects import RecordEvent, ReportAllocation, ReportNode, name_of
from remuda_kubernetes.shim.quantities import Amounts, amounts
from remuda_proto.bounds import shown
from remuda_proto.constants import DEVICES_OCCUPIED, DEVICES_TAG, DEVICES_UNFIT, LEAVES_AT
from remuda_proto.durations import EXPECTED_TIME, instant
from remuda_proto.si.v1 import si_pb2 as si

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Nodes:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def changed(self, node: Node) -> None:
        name = node.metadata.name
        entry, leaves = self._cache.nodes.get(name), node.metadata.annotation(names.LEAVES_AT)
        is_new = entry is None or entry.node.metadata.annotation(names.LEAVES_AT) != leaves
        if entry is not None and entry.node.metadata.uid != node.metadata.uid:
            self.gone(entry.node)  # a new machine of the same name
            entry = None
        if entry is None:
            entry = self._cache.nodes[name] = NodeEntry(node)
            self._version(entry)
        else:
            before, entry.node = entry.node, node
            entry.failed_bindings = 0
            if _inputs(before) != _inputs(node):
                self._version(entry)
        self._cache.dirty_nodes[name] = None
        if is_new and leaves and not instant(leaves):
            note = f"annotation {names.LEAVES_AT}: {shown(leaves)}, {EXPECTED_TIME}"
            self._record(entry, "AnnotationIgnored", note, warn=True)

    def _version(self, entry: NodeEntry) -> None:
        self._cache.nodes_version += 1
        entry.version = self._cache.nodes_version
        self._cache.is_room_changed = True

    def gone(self, node: Node) -> None:
        """Pods of the node become orphans: they have no allocation until the node is back."""
        name = node.metadata.name
        entry = self._cache.nodes.get(name)
        if entry is None or entry.node.metadata.uid != node.metadata.uid:
            return
        del self._cache.nodes[name]
        self._cache.nodes_version += 1
        for pod in self._cache.on_node(name):
            if pod.is_bound:
                pod.uuid = ""
        if entry.is_reported:
            self._record(entry, "NodeDeleted", f"node {name} is removed from the scheduler")
            self._cache.emit(ReportNode(messages.node(node, si.NodeInfo.DECOMISSION)))

    def flush(self) -> None:
        """Report all nodes that have changed, each once."""
        dirty, self._cache.dirty_nodes = self._cache.dirty_nodes, {}
        for name in dirty:
            entry = self._cache.nodes.get(name)
            if entry is not None:
                if entry.is_reported:
                    self._update(entry)
                else:
                    self._create(entry)

    def _create(self, entry: NodeEntry) -> None:
        name = entry.node.metadata.name
        existing: list[si.Allocation] = []
        others: list[si.Allocation] = []
        room = limits.EXISTING_BYTES
        for pod in self._cache.on_node(name):
            if pod.application and pod.is_bound:
                self._cache.book_running(pod)
                allocation = messages.allocation(self._cache, pod)
                room -= allocation.ByteSize()
                (existing if room >= 0 else others).append(allocation)
        self._note(entry)
        entry.is_reported = True
        action = si.NodeInfo.CREATE_DRAIN if entry.is_drained else si.NodeInfo.CREATE
        info = messages.node(
            entry.node,
            action,
            entry.capacity,
            entry.occupied,
            ready=entry.is_ready,
            selected_by=entry.selected_by,
            attributes=entry.attributes,
            existing=existing,
        )
        self._cache.emit(ReportNode(info))
        for allocation in others:
            self._cache.emit(ReportAllocation(allocation))

    def _update(self, entry: NodeEntry) -> None:
        capacity, occupied, drained, ready = entry.capacity, entry.occupied, entry.is_drained, entry.is_ready
        selected_by, attributes = entry.selected_by, entry.attributes
        self._note(entry)
        now = entry.capacity, entry.occupied, entry.is_ready, entry.selected_by, entry.attributes
        if (capacity, occupied, ready, selected_by, attributes) != now:
            info = messages.node(
                entry.node,
                si.NodeInfo.UPDATE,
                entry.capacity if capacity != entry.capacity else None,
                _with_zeros(entry.occupied, occupied) if occupied != entry.occupied else None,
                ready=entry.is_ready if ready != entry.is_ready else None,
                selected_by=entry.selected_by if selected_by != entry.selected_by else "",
                attributes=_changed(attributes, entry.attributes),
            )
            self._cache.emit(ReportNode(info))
        if drained != entry.is_drained:
            action = si.NodeInfo.DRAIN_NODE if entry.is_drained else si.NodeInfo.DRAIN_TO_SCHEDULABLE
            self._cache.emit(ReportNode(messages.node(entry.node, action)))

    def _note(self, entry: NodeEntry) -> None:
        before = entry.capacity
        try:
            entry.capacity = amounts(entry.node.status.allocatable)
        except ValueError as error:
            self._record(entry, "NodeRejected", str(error), warn=True)
        name = entry.node.metadata.name
        entry.occupied = self._cache.occupied(name)
        entry.attributes = topology.attributes_of(entry.node, self._cache.policy.topology_labels)
        entry.attributes |= _leaves_at(entry.node)
        if self._cache.devices.resources:
            self._note_devices(entry, name, before)
        entry.is_drained = entry.node.spec.unschedulable
        entry.is_ready = entry.node.is_ready and entry.failed_bindings < limits.FAILED_BINDINGS
        at = entry.version, entry.refusals
        if entry.selected_at != at:
            entry.selected_at, entry.selected_by = at, _selected_by(entry)

    def binding_refused(self, name: str) -> None:
        """Counts a refused binding. After some in a row the node counts as not ready, until it changes."""
        entry = self._cache.nodes.get(name)
        if entry is not None:
            entry.failed_bindings += 1
            self._cache.dirty_nodes[name] = None

    def binding_succeeded(self, name: str) -> None:
        entry = self._cache.nodes.get(name)
        if entry is not None and entry.failed_bindings:
            entry.failed_bindings = 0
            self._cache.dirty_nodes[name] = None

    def answered(self, response: si.NodeResponse) -> None:
        for rejected in response.rejected:
            entry = self._cache.nodes.get(rejected.nodeID)
            if entry is not None:
                self._record(entry, "NodeRejected", rejected.reason, warn=True)
        for accepted in response.accepted:
            entry = self._cache.nodes.get(accepted.nodeID)
            if entry is not None:
                self._record(entry, "NodeAccepted", f"node {accepted.nodeID} is accepted by the scheduler")

    def _note_devices(self, entry: NodeEntry, name: str, before: Amounts) -> None:
        """Resources of device classes are the devices of slices, and no others. Where all devices have gone there are
        0, as long as the node is known."""
        devices, occupied = self._cache.devices.on_node(name), self._cache.devices_occupied(name)
        entry.capacity = dict(entry.capacity)  # amounts that cannot be read are those of `before`, which stays
        for resource in self._cache.devices.resources.values():
            here, taken = devices.get(resource, {}), occupied.get(resource, [])
            entry.capacity.pop(resource, None)
            entry.occupied.pop(resource, None)
            if resource in devices or resource in before:
                entry.capacity[resource] = len(here)
                tag = DEVICES_TAG + resource
                unfit = [one for one, device in here.items() if device.is_unfit]
                said = {"": ",".join(here), DEVICES_UNFIT: ",".join(unfit),
                        DEVICES_OCCUPIED: ",".join(f"{one}=1" for one in taken)}  # fmt: skip
                entry.attributes |= {tag + suffix: text for suffix, text in said.items() if text}
            if taken:
                entry.occupied[resource] = len(taken)

    def _record(self, entry: NodeEntry, reason: str, note: str, *, warn: bool = False) -> None:
        self._cache.emit(RecordEvent("Node", name_of(entry.node.metadata), reason, "Scheduling", note, warn))


def _inputs(node: Node) -> tuple[object, ...]:
    """The properties of a node on which predicates depend."""
    inputs = node.metadata.labels, node.spec.taints, node.spec.unschedulable
    # Without features, as before there were any: the digest of a node's inputs is in the attributes that are reported.
    return (*inputs, node.status.declared_features) if node.status.declared_features else inputs


def _selected_by(entry: NodeEntry) -> str:
    """Changes when verdicts about the node are void."""
    digest = blake2b(_ENCODER.encode(_inputs(entry.node)), digest_size=8).hexdigest()
    return f"{digest}/{entry.refusals}" if entry.refusals else digest


def _leaves_at(node: Node) -> dict[str, str]:
    """The attribute that says when the node leaves, if its annotation can be read."""
    text = node.metadata.annotation(names.LEAVES_AT)
    return {LEAVES_AT: text} if text and instant(text) else {}


def _changed(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """The attributes that differ. One whose label is gone is empty: an update leaves out what stays."""
    names = {**before, **now}
    return {name: now.get(name, "") for name in names if before.get(name) != now.get(name)}


def _with_zeros(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """A resource that nobody occupies any more is 0, not absent."""
    return {**dict.fromkeys(before, 0), **now}
