"""Event records of facts about allocations."""

from __future__ import annotations

from typing import Final

from remuda_events.event_records.record import Record, Records, app, node
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si


def release_overdue(fact: log_pb2.ReleaseOverdue, at_ns: int) -> Records:
    yield app(
        fact.application_id, Record.NONE, RELEASES.get(fact.termination_type, Record.ALLOC_CANCEL), at_ns,
        reference=fact.uuid, message=f"the RM was asked to release it on node {fact.node_id} and has not",
    )  # fmt: skip


def allocated(
    fact: log_pb2.Allocated | log_pb2.AllocationRecovered, at_ns: int
) -> tuple[si.EventRecord, si.EventRecord]:
    """Hot path: the records are made without `record`."""
    allocation = fact.allocation
    resource = allocation.resourcePerAlloc
    return (
        Record(
            type=Record.NODE, objectID=allocation.nodeID, timestampNano=at_ns, eventChangeType=Record.ADD,
            eventChangeDetail=Record.NODE_ALLOC, referenceID=allocation.allocationKey, resource=resource,
        ),
        Record(
            type=Record.APP, objectID=allocation.applicationID, timestampNano=at_ns, eventChangeType=Record.ADD,
            eventChangeDetail=Record.APP_ALLOC, referenceID=allocation.UUID, resource=resource,
        ),
    )  # fmt: skip


RELEASES: Final = {
    si.TIMEOUT: Record.ALLOC_TIMEOUT,
    si.PREEMPTED_BY_SCHEDULER: Record.ALLOC_PREEMPT,
    si.PLACEHOLDER_REPLACED: Record.ALLOC_REPLACED,
}


def allocation_released(fact: log_pb2.AllocationReleased, at_ns: int) -> Records:
    """A removed node has no record about the release."""
    detail = Record.ALLOC_NODEREMOVED if fact.node_removed else RELEASES.get(fact.termination_type, Record.ALLOC_CANCEL)
    yield app(
        fact.application_id, Record.REMOVE, detail, at_ns,
        reference=fact.uuid, resource=fact.resource, message=fact.message,
    )  # fmt: skip
    if not fact.node_removed:
        yield node(
            fact.node_id, Record.REMOVE, Record.NODE_ALLOC, at_ns, reference=fact.allocation_key, resource=fact.resource
        )


def placeholder_replaced(fact: log_pb2.PlaceholderReplaced, at_ns: int) -> Records:
    """Records that a real allocation replaces a placeholder. On the same node, the placeholder's resources become those
    of the real allocation, so the node has no record."""
    real, resource = fact.allocation.allocation, fact.placeholder_resource
    yield app(
        real.applicationID, Record.REMOVE, Record.ALLOC_REPLACED, at_ns,
        reference=fact.placeholder, resource=resource, message=f"replaced by {real.allocationKey}",
    )  # fmt: skip
    of_node, of_application = allocated(fact.allocation, at_ns)
    if fact.placeholder_node != real.nodeID:
        yield node(
            fact.placeholder_node, Record.REMOVE, Record.NODE_ALLOC, at_ns,
            reference=fact.placeholder_key, resource=resource,
        )  # fmt: skip
        yield of_node
    yield of_application
