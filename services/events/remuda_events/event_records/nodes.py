"""Event records of facts about nodes."""

from __future__ import annotations

from remuda_events.event_records.record import Record, Records, node, plain_partition
from remuda_proto.constants import NODE_READY_ATTRIBUTE
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si


def node_added(fact: log_pb2.NodeAdded, at_ns: int) -> Records:
    yield schedulable(fact.node_id, not fact.draining, at_ns)
    message = f"added to partition {plain_partition(fact.partition)}"
    yield node(fact.node_id, Record.ADD, Record.DETAILS_NONE, at_ns, resource=fact.capacity, message=message)
    if fact.attributes.get(NODE_READY_ATTRIBUTE) == "false":
        yield node(fact.node_id, Record.SET, Record.NODE_READY, at_ns, message="ready: false")


def node_changed(fact: log_pb2.NodeChanged, at_ns: int) -> Records:
    if "ready" in fact.changed:
        ready = fact.attributes.get(NODE_READY_ATTRIBUTE, "true")
        yield node(fact.node_id, Record.SET, Record.NODE_READY, at_ns, message=f"ready: {ready}")
    if "capacity" in fact.changed:
        yield node(fact.node_id, Record.SET, Record.NODE_CAPACITY, at_ns, resource=fact.capacity)
    if "occupied" in fact.changed:
        yield node(fact.node_id, Record.SET, Record.NODE_OCCUPIED, at_ns, resource=fact.occupied)


def existing_allocation_rejected(fact: log_pb2.ExistingAllocationRejected, at_ns: int) -> Records:
    allocation = fact.allocation.allocation
    yield node(
        allocation.nodeID, Record.ADD, Record.NODE_OCCUPIED, at_ns, reference=allocation.allocationKey,
        resource=allocation.resourcePerAlloc,
        message=f"by {_name(allocation)}, which cannot be booked: {fact.reason}",
    )  # fmt: skip


def _name(allocation: si.Allocation) -> str:
    """Returns application and key, of a foreign allocation the key alone."""
    return "/".join(filter(None, (allocation.applicationID, allocation.allocationKey)))


def rejected_allocation_forgotten(fact: log_pb2.RejectedAllocationForgotten, at_ns: int) -> Records:
    yield node(
        fact.node_id, Record.REMOVE, Record.NODE_OCCUPIED, at_ns, reference=fact.allocation_key, resource=fact.resource,
        message=f"by {fact.application_id}/{fact.allocation_key}, which could not be booked: {fact.reason}",
    )  # fmt: skip


def node_draining(fact: log_pb2.NodeDraining, at_ns: int) -> Records:
    yield schedulable(fact.node_id, False, at_ns)
    if fact.running:
        message = f"{fact.running} allocations still run on a node whose time to leave has come"
        yield node(fact.node_id, Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def node_leaving(fact: log_pb2.NodeLeaving, at_ns: int) -> Records:
    why = f": {fact.reason}" if fact.reason else ""
    message = f"schedulable: false from {fact.from_ms} ms on, by {fact.operator}{why}"
    yield node(fact.node_id, Record.SET, Record.DETAILS_NONE, at_ns, message=message)


def node_schedulable(fact: log_pb2.NodeSchedulable, at_ns: int) -> Records:
    """None if the RM or an operator still drains the node."""
    if not fact.draining:
        yield schedulable(fact.node_id, True, at_ns)


def node_removed(fact: log_pb2.NodeRemoved, at_ns: int) -> Records:
    message = f"removed from partition {plain_partition(fact.partition)}"
    yield node(fact.node_id, Record.REMOVE, Record.NODE_DECOMISSION, at_ns, message=message)


def node_reserved(fact: log_pb2.NodeReserved, at_ns: int) -> Records:
    """A reservation by a preemption has no record of its own: the preemption has one."""
    if not fact.by_preemption:
        yield node(
            fact.node_id, Record.ADD, Record.NODE_RESERVATION, at_ns,
            reference=fact.allocation_key, resource=fact.resource,
        )  # fmt: skip


def promise_changed(fact: log_pb2.PromiseChanged, at_ns: int) -> Records:
    promised = f"promised {fact.promised_ms} ms" if fact.promised_ms else "no promise"
    yield node(
        fact.node_id, Record.SET, Record.NODE_RESERVATION, at_ns,
        reference=fact.allocation_key, message=f"{promised}: {fact.cause}",
    )  # fmt: skip


def node_unreserved(fact: log_pb2.NodeUnreserved, at_ns: int) -> Records:
    if not fact.by_preemption:
        yield node(
            fact.node_id, Record.REMOVE, Record.NODE_RESERVATION, at_ns,
            reference=fact.allocation_key, resource=fact.resource, message=fact.reason,
        )  # fmt: skip


def schedulable(node_id: str, yes: bool, at_ns: int) -> si.EventRecord:
    message = f"schedulable: {'true' if yes else 'false'}"
    return node(node_id, Record.SET, Record.NODE_SCHEDULABLE, at_ns, message=message)
