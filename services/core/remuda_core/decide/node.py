"""UpdateNode: one function per action of a NodeInfo (000, NodeInfo; semantics section 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from remuda_proto import bounds
from remuda_proto.bounds import EXISTING_ALLOCATIONS, shown, too_many

from .. import facts
from ..commands import UpdateNode
from ..cycle.place import release_requested
from ..cycle.reserve import unreserved
from ..facts import Allocated, Fact
from ..limits import ALLOCATIONS_PER_NODE
from ..rules.devices import problem_of_node
from ..rules.leaving import problem_of_leaving
from ..rules.required_node import required_node
from ..rules.resource import Resource, items_of, problem_of_resource
from ..state import Node, Partition, State, with_rejected
from . import names
from .allocation import (
    existing_rejected,
    problem_of_existing,
    problem_of_room,
    recovered,
    released,
    replaced,
    replacement_cancelled,
)
from .devices import assign_devices
from .predicate import node_goes


def update_node(state: State, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    if problem := command.refused or bounds.problem_of_node(command.node_id, command.attributes):
        yield rejected(command, problem)
        return
    partition = state.partitions.get(command.partition)
    if partition is None:
        yield rejected(command, f"partition {shown(names.plain(command.partition))} does not exist")
        return
    if command.action not in (*CREATE, *ON_NODE):
        yield rejected(command, f"action {shown(command.action)}: expected one of {', '.join((*CREATE, *ON_NODE))}")
        return
    for resource, what in ((command.capacity, "schedulableResource"), (command.occupied, "occupiedResource")):
        if problem := problem_of_resource(resource or {}, what):
            yield rejected(command, problem)
            return
    node = partition.nodes.get(command.node_id)
    if node is None and command.action not in CREATE:
        yield rejected(command, f"node {shown(command.node_id)} does not exist")
        return
    for resource, what in ((command.capacity, "schedulableResource"), (command.occupied, "occupiedResource")):
        if resource and (problem := partition.names.problem_of_new_names(what, resource)):
            yield rejected(command, problem)
            return
    if command.action in CREATE:
        yield from create(state, partition, command, now_ms)
    elif node is not None:
        yield from ON_NODE[command.action](partition, node, command, now_ms)


def rejected(command: UpdateNode, reason: str) -> Fact:
    return facts.NodeRejected(names.identity(command.partition), names.identity(command.node_id), reason)


def create(state: State, partition: Partition, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    if command.node_id in partition.nodes:
        yield rejected(command, f"node {shown(command.node_id)} exists already")
        return
    if partition.draining:
        yield rejected(command, f"partition {shown(names.plain(partition.name))} is no longer configured")
        return
    problem = problem_of_leaving(command.attributes)
    if problem := problem or problem_of_node(partition.settings.devices, command.capacity or {}, command.attributes):
        yield rejected(command, problem)
        return
    count = len(command.existing_allocations)
    most = min(EXISTING_ALLOCATIONS, ALLOCATIONS_PER_NODE)
    if problem := too_many("existingAllocations", count, most) or problem_of_room(state, count):
        yield rejected(command, problem)
        return
    yield facts.NodeAdded(
        partition.name,
        command.node_id,
        command.attributes,
        command.capacity or {},
        command.occupied or {},
        command.action == "CREATE_DRAIN",
    )
    for number, allocation in enumerate(command.existing_allocations, 1):
        if not allocation.node_id:
            allocation = replace(allocation, node_id=command.node_id)
        problem = elsewhere(allocation, partition, command.node_id) or command.refused_existing.get(number)
        problem = problem or problem_of_existing(partition, allocation)
        if problem:
            yield existing_rejected(partition, command.node_id, allocation, problem)
        else:
            yield from recovered(partition, allocation, now_ms)
    added = partition.nodes[command.node_id]
    yield from assign_devices(partition, (added,))  # of guests
    yield from follow_windows(partition, added)


def elsewhere(allocation: Allocated, partition: Partition, node_id: str) -> str | None:
    """Why an allocation that is reported with a node cannot be on it. None if it can."""
    if allocation.partition != partition.name:
        expected = shown(names.plain(partition.name))
        return f"partition {shown(names.plain(allocation.partition))}, expected the node's, {expected}"
    if allocation.node_id != node_id:
        return f"nodeID {shown(allocation.node_id)}, expected the node's, {shown(node_id)}"
    return None


def update(partition: Partition, node: Node, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    attributes = {**node.attributes, **command.attributes}  # attributes that are left out stay, as all other fields do
    if problem := bounds.problem_of_attributes("attributes, with those the node has", attributes):
        yield rejected(command, problem)
        return
    capacity: Resource = node.capacity if command.capacity is None else command.capacity
    reported = with_rejected(node.occupied, node.rejected.values(), -1) if node.rejected else node.occupied
    occupied: Resource = reported if command.occupied is None else command.occupied
    changed = [
        name
        for name, differs in (
            ("attributes", attributes != node.attributes),
            ("ready", attributes.get("ready") != node.attributes.get("ready")),
            ("capacity", items_of(capacity) != items_of(node.capacity)),
            ("occupied", items_of(occupied) != items_of(reported)),
        )
        if differs
    ]
    if not changed:
        return
    problem = problem_of_leaving(command.attributes)
    if problem := problem or problem_of_node(partition.settings.devices, capacity, attributes):
        yield rejected(command, problem)
        return
    yield facts.NodeChanged(partition.name, node.id, attributes, capacity, occupied, tuple(changed))
    if node.left and node.leaving_ms > now_ms:
        otherwise = node.drained_by_rm or node.drained_by_operator or bool(node.in_windows)
        yield facts.NodeSchedulable(partition.name, node.id, draining=otherwise, left=True)
    yield from follow_windows(partition, node)
    yield from assign_devices(partition, (node,))


def drain(partition: Partition, node: Node, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    if not node.drained_by_rm:
        yield from drained(partition, node)


def drained(
    partition: Partition,
    node: Node,
    operator: str = "",
    reason: str = "",
    *,
    left: bool = False,
    running: int = 0,
    window: str = "",
) -> Iterator[Fact]:
    """The RM, or the operator, drains the node, or it has left, or a window of maintenance has opened. Reservations of
    asks that are bound to it stay."""
    yield from release_reservation(partition, node, "the node is draining", but_for=node.id)
    yield facts.NodeDraining(partition.name, node.id, operator, reason, left, running, window)


def follow_windows(partition: Partition, node: Node) -> Iterator[Fact]:
    """Drain the node for the windows of maintenance that are open, and no longer for others (semantics section 26)."""
    if not node.windows and not node.in_windows:
        return
    of_node = {w.name: w for w in partition.settings.calendar if w.name in node.windows and partition.is_shut_by(w)}
    for name in [name for name in node.in_windows if name not in of_node]:
        others = node.drained_by_rm or node.left or node.drained_by_operator or len(node.in_windows) > 1
        yield facts.NodeSchedulable(partition.name, node.id, draining=others, window=name)
    for name, window in of_node.items():
        if name in node.in_windows:
            continue
        yield from drained(partition, node, running=len(node.allocations), window=name)
        if window.release:
            yield from clear(node, f"window {name} of maintenance has begun on node {node.id}")


def clear(node: Node, reason: str) -> Iterator[Fact]:
    """Ask the RM to release what runs on the node, but for allocations that are bound to it."""
    for allocation in list(node.allocations.values()):
        if allocation.releasing or required_node(allocation.fact.tags) == node.id:
            continue
        if allocation.replacement is not None:
            yield replacement_cancelled(allocation.replacement, reason)
        yield release_requested(allocation, facts.TIMEOUT, reason)


def node_leaves(state: State, partition: Partition, node: Node, now_ms: int) -> Iterator[Fact]:
    """Drain a node whose time to leave has come."""
    planned, running = node.drained, len(node.allocations)
    if planned is not None and 0 < planned.from_ms <= now_ms:
        yield from drained(partition, node, planned.operator, planned.reason, running=running)
    if node.leaves_ms <= now_ms:
        yield from drained(partition, node, left=True, running=running)


def release_reservation(partition: Partition, node: Node, reason: str, but_for: str = "") -> Iterator[Fact]:
    """End the reservation of the node, and preemptions on it. `but_for`: asks bound to this node keep both."""
    for preemption in [p for p in partition.preemptions.values() if p.node is node or node.kept is p]:
        ask = preemption.pending.ask
        if not but_for or required_node(ask.tags) != but_for:
            yield facts.PreemptionEnded(*ask.name, reason)
    kept_for = node.reservation
    if kept_for is not None and (not but_for or required_node(kept_for.ask.tags) != but_for):
        yield unreserved(node, reason)


def undrain(partition: Partition, node: Node, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    if node.drained_by_rm:
        otherwise = node.left or node.drained_by_operator or bool(node.in_windows)
        yield facts.NodeSchedulable(partition.name, node.id, draining=otherwise)


def decommission(partition: Partition, node: Node, command: UpdateNode, now_ms: int) -> Iterator[Fact]:
    """Remove a node and release its allocations; the RM receives each release."""
    yield facts.NodeDraining(partition.name, node.id)
    yield from release_reservation(partition, node, "the node was removed")
    message = f"node {node.id} was removed"
    for arriving in list(node.arriving.values()):
        yield replacement_cancelled(arriving, message)
    for allocation in list(node.allocations.values()):
        replacement = allocation.replacement
        if replacement is not None and replacement.elsewhere and not replacement.question:
            yield from replaced(partition, replacement, now_ms)  # needs no confirmation of the RM
            continue
        yield from released(
            partition, allocation, facts.STOPPED_BY_RM, message, now_ms, reported=True, node_removed=True
        )
    yield from node_goes(partition, node)
    yield facts.NodeRemoved(partition.name, node.id)


CREATE: Final = ("CREATE", "CREATE_DRAIN")
ON_NODE: Final[dict[str, Callable[[Partition, Node, UpdateNode, int], Iterator[Fact]]]] = {
    "UPDATE": update,
    "DRAIN_NODE": drain,
    "DRAIN_TO_SCHEDULABLE": undrain,
    "DECOMISSION": decommission,
}
