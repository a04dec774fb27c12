"""What a fact reads like in the event history: facts in, EventRecords (000, Event Plugin) out.

One table, TABLE: a function per kind of fact; SILENT says why the others have none. A record consists of what its fact
carries and of nothing else, so the same commit reads the same whenever and by whomever it is told. Knows nothing of
streams, of what was told before, or of state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from remuda_events.record import Record, app, node, queue, request
from remuda_proto.constants import NODE_READY_ATTRIBUTE
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si

Records = Iterable[si.EventRecord]
NS_PER_MS: Final = 1_000_000


def narrate(commit: log_pb2.Commit) -> list[bytes]:
    """The serialised EventRecords of a commit, in the order of its facts; they happened when it was decided."""
    at_ns = commit.now_ms * NS_PER_MS
    return [
        record.SerializeToString()
        for decision in commit.decisions
        for fact in decision.facts
        for record in records(fact, at_ns)
    ]


def records(fact: log_pb2.Fact, at_ns: int) -> Records:
    """What there is to tell of one fact: nothing for a silent one, nor for one that a newer core has introduced."""
    kind = fact.WhichOneof("fact")
    if kind is None or (tell := TABLE.get(kind)) is None:
        return ()
    return tell(getattr(fact, kind), at_ns)


# Applications


def application_accepted(fact: log_pb2.ApplicationAccepted, at_ns: int) -> Records:
    yield app(fact.application_id, Record.ADD, Record.DETAILS_NONE, at_ns)
    yield queue(fact.queue, Record.ADD, Record.QUEUE_APP, at_ns, reference=fact.application_id)


def application_rejected(fact: log_pb2.ApplicationRejected, at_ns: int) -> Records:
    yield app(fact.application_id, Record.ADD, Record.DETAILS_NONE, at_ns)
    yield app(fact.application_id, Record.SET, Record.APP_REJECT, at_ns, message=fact.reason)


STATES: Final = {
    "New": Record.APP_NEW,
    "Accepted": Record.APP_ACCEPTED,
    "Starting": Record.APP_STARTING,
    "Running": Record.APP_RUNNING,
    "Completing": Record.APP_COMPLETING,
    "Completed": Record.APP_COMPLETED,
    "Rejected": Record.APP_REJECT,
    "Failing": Record.APP_FAILING,
    "Failed": Record.APP_FAILED,
    "Resuming": Record.APP_RESUMING,
    "Expired": Record.APP_EXPIRED,
}
LEAVES_ITS_QUEUE: Final = frozenset({"Completed", "Failed"})


def application_state_changed(fact: log_pb2.ApplicationStateChanged, at_ns: int) -> Records:
    detail = STATES.get(fact.state, Record.DETAILS_NONE)
    yield app(fact.application_id, Record.SET, detail, at_ns, resource=fact.allocated, message=fact.reason)
    if fact.state in LEAVES_ITS_QUEUE:
        yield queue(fact.queue, Record.REMOVE, Record.QUEUE_APP, at_ns, reference=fact.application_id)
        yield app(fact.application_id, Record.REMOVE, Record.DETAILS_NONE, at_ns, resource=fact.allocated)


def application_removed(fact: log_pb2.ApplicationRemoved, at_ns: int) -> Records:
    """One that had ended left its queue when it did; its fact names no queue."""
    if fact.queue:
        yield queue(fact.queue, Record.REMOVE, Record.QUEUE_APP, at_ns, reference=fact.application_id)
        yield app(fact.application_id, Record.REMOVE, Record.DETAILS_NONE, at_ns)


# Asks


def ask_accepted(fact: log_pb2.AskAccepted | log_pb2.AskChanged, at_ns: int) -> Records:
    ask = fact.ask
    return (
        app(
            ask.applicationID, Record.ADD, Record.APP_REQUEST, at_ns,
            reference=ask.allocationKey, resource=ask.resourceAsk,
        ),
    )  # fmt: skip


def ask_released(fact: log_pb2.AskReleased, at_ns: int) -> Records:
    detail = Record.REQUEST_TIMEOUT if fact.termination_type == si.TIMEOUT else Record.REQUEST_CANCEL
    yield app(
        fact.application_id, Record.REMOVE, detail, at_ns,
        reference=fact.allocation_key, resource=fact.resource, message=fact.message,
    )  # fmt: skip


def ask_waiting(fact: log_pb2.AskWaiting, at_ns: int) -> Records:
    message = f"{fact.reason} ({fact.asks} asks of the application)" if fact.asks > 1 else fact.reason
    yield request(
        fact.allocation_key,
        Record.NONE,
        Record.DETAILS_NONE,
        at_ns,
        reference=fact.application_id,
        message=message,
        resource=fact.resource,
    )


def preemption_started(fact: log_pb2.PreemptionStarted, at_ns: int) -> Records:
    count = len(fact.uuids)
    message = f"preempting {count} allocation{'s' if count > 1 else ''} so that it fits on node {fact.node_id}"
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id, message=message, resource=fact.resource,
    )  # fmt: skip


def preemption_ended(fact: log_pb2.PreemptionEnded, at_ns: int) -> Records:
    yield request(
        fact.allocation_key, Record.NONE, Record.DETAILS_NONE, at_ns,
        reference=fact.application_id, message=f"preemption has not helped: {fact.reason}",
    )  # fmt: skip


# Allocations


def release_overdue(fact: log_pb2.ReleaseOverdue, at_ns: int) -> Records:
    yield app(
        fact.application_id, Record.NONE, RELEASES.get(fact.termination_type, Record.ALLOC_CANCEL), at_ns,
        reference=fact.uuid, message=f"the RM was asked to release it on node {fact.node_id} and has not",
    )  # fmt: skip


def allocated(
    fact: log_pb2.Allocated | log_pb2.AllocationRecovered, at_ns: int
) -> tuple[si.EventRecord, si.EventRecord]:
    """The hot path: nothing here that is not needed."""
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
    """With its node gone, there is no node whose allocations it could leave."""
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
    """On the same node nothing comes and nothing goes: what is used there was swapped."""
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


# Nodes


def node_added(fact: log_pb2.NodeAdded, at_ns: int) -> Records:
    yield schedulable(fact.node_id, not fact.draining, at_ns)
    message = f"added to partition {plain(fact.partition)}"
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


def node_draining(fact: log_pb2.NodeDraining, at_ns: int) -> Records:
    yield schedulable(fact.node_id, False, at_ns)


def node_schedulable(fact: log_pb2.NodeSchedulable, at_ns: int) -> Records:
    yield schedulable(fact.node_id, True, at_ns)


def node_removed(fact: log_pb2.NodeRemoved, at_ns: int) -> Records:
    message = f"removed from partition {plain(fact.partition)}"
    yield node(fact.node_id, Record.REMOVE, Record.NODE_DECOMISSION, at_ns, message=message)


def node_reserved(fact: log_pb2.NodeReserved, at_ns: int) -> Records:
    """What a preemption keeps is told of by the preemption."""
    if not fact.by_preemption:
        yield node(
            fact.node_id, Record.ADD, Record.NODE_RESERVATION, at_ns,
            reference=fact.allocation_key, resource=fact.resource,
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


# Queues. Records know no partitions: its root queue stands for one.


def queue_added(fact: log_pb2.QueueAdded, at_ns: int) -> Records:
    yield queue(fact.queue, Record.ADD, Record.DETAILS_NONE if fact.managed else Record.QUEUE_DYNAMIC, at_ns)


def queue_changed(fact: log_pb2.QueueChanged, at_ns: int) -> Records:
    if "type" in fact.changed:
        message = f"leaf queue: {'true' if fact.leaf else 'false'}"
        yield queue(fact.queue, Record.SET, Record.QUEUE_TYPE, at_ns, message=message)
    if "config" in fact.changed:
        detail = Record.QUEUE_CONFIG if fact.managed else Record.QUEUE_DYNAMIC
        yield queue(fact.queue, Record.SET, detail, at_ns)
    if "max" in fact.changed:
        yield queue(fact.queue, Record.SET, Record.QUEUE_MAX, at_ns, resource=fact.config.max)
    if "guaranteed" in fact.changed:
        yield queue(fact.queue, Record.SET, Record.QUEUE_GUARANTEED, at_ns, resource=fact.config.guaranteed)


def queue_draining(fact: log_pb2.QueueDraining, at_ns: int) -> Records:
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message="draining: true")


def queue_restored(fact: log_pb2.QueueRestored, at_ns: int) -> Records:
    yield queue(fact.queue, Record.SET, Record.QUEUE_CONFIG, at_ns, message="draining: false")


def queue_removed(fact: log_pb2.QueueRemoved, at_ns: int) -> Records:
    yield queue(fact.queue, Record.REMOVE, Record.DETAILS_NONE if fact.managed else Record.QUEUE_DYNAMIC, at_ns)


def partition_added(fact: log_pb2.PartitionAdded, at_ns: int) -> Records:
    yield queue("root", Record.ADD, Record.DETAILS_NONE, at_ns, message=f"partition {plain(fact.partition)}")


def partition_changed(fact: log_pb2.PartitionChanged, at_ns: int) -> Records:
    yield queue("root", Record.SET, Record.QUEUE_CONFIG, at_ns, message=f"partition {plain(fact.partition)}")


def partition_draining(fact: log_pb2.PartitionDraining, at_ns: int) -> Records:
    message = f"partition {plain(fact.partition)}, draining: true"
    yield queue("root", Record.SET, Record.QUEUE_CONFIG, at_ns, message=message)


def partition_removed(fact: log_pb2.PartitionRemoved, at_ns: int) -> Records:
    yield queue("root", Record.REMOVE, Record.DETAILS_NONE, at_ns, message=f"partition {plain(fact.partition)}")


# Resource managers: no type of record names one, so it is told of the root of its queues


def rm_paused(fact: log_pb2.RmPaused, at_ns: int) -> Records:
    message = f"the resource manager is Paused, nothing new is allocated: {fact.reason}"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def rm_resumed(fact: log_pb2.RmResumed, at_ns: int) -> Records:
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message="the resource manager is Running again")


def rm_stopped(fact: log_pb2.RmStopped, at_ns: int) -> Records:
    what = "deregistered, nothing is known of it any more" if fact.deregistered else "nothing new is allocated"
    message = f"the resource manager is Stopped, {what}: {fact.reason}"
    yield queue("root", Record.NONE, Record.DETAILS_NONE, at_ns, message=message)


def plain(partition: str) -> str:
    """The name as RMs know it: without "[rmID]"."""
    return partition.rpartition("]")[2]


TABLE: Final[dict[str, Callable[[Any, int], Records]]] = {
    "rm_paused": rm_paused,
    "rm_resumed": rm_resumed,
    "rm_stopped": rm_stopped,
    "queue_added": queue_added,
    "queue_changed": queue_changed,
    "queue_draining": queue_draining,
    "queue_restored": queue_restored,
    "queue_removed": queue_removed,
    "partition_added": partition_added,
    "partition_changed": partition_changed,
    "partition_draining": partition_draining,
    "partition_removed": partition_removed,
    "node_added": node_added,
    "node_changed": node_changed,
    "node_draining": node_draining,
    "node_schedulable": node_schedulable,
    "node_removed": node_removed,
    "node_reserved": node_reserved,
    "node_unreserved": node_unreserved,
    "application_accepted": application_accepted,
    "application_rejected": application_rejected,
    "application_state_changed": application_state_changed,
    "application_removed": application_removed,
    "ask_accepted": ask_accepted,
    "ask_changed": ask_accepted,
    "ask_released": ask_released,
    "ask_waiting": ask_waiting,
    "allocated": allocated,
    "allocation_released": allocation_released,
    "allocation_recovered": allocated,
    "release_overdue": release_overdue,
    "preemption_started": preemption_started,
    "preemption_ended": preemption_ended,
    "placeholder_replaced": placeholder_replaced,
}

# Nothing is told of these, and why.
SILENT: Final = {
    "preemption_refused": "the ask goes on waiting; why it does is told by ask_waiting, and not four times a minute",
    "rm_registered": "no type of record names a resource manager; what it changes is told by the facts after it",
    "registration_refused": "no type of record names a resource manager; the RM has the reason as its reply",
    "configuration_applied": "told by the facts about partitions and queues before it",
    "configuration_refused": "no type of record names a configuration, and nothing changed",
    "node_rejected": "there is no such change to a node: the RM has the reason in its NodeResponse",
    "ask_outstanding": "ask_waiting has told it of an ask like this one",
    "time_passed": "what came of it is told by the facts before it",
    "rejection_forgotten": "it was told when it was rejected, and nothing else is changed by it",
    "ask_rejected": "there is no such ask: the RM has the reason in its AllocationResponse",
    "allocation_rejected": "there is no such allocation: the RM has the reason in its AllocationResponse",
    "release_requested": "nothing is released yet; told when it is",
    "release_ignored": "nothing was there to release",
    "predicate_asked": "nothing is placed yet; told when it is",
    "predicate_refused": "there may be one for every node: told as the reason why the ask waits, when no node is left",
    "predicate_withdrawn": "the ask goes on as if nothing had been asked",
    "refusals_forgotten": "the ask goes on",
    "replacement_asked": "nothing is replaced yet; told when it is",
    "preemption_asked": "nothing is preempted yet; told when it is",
    "preemption_answered": "told when something is preempted, or cannot be",
    "replacement_started": "nothing is allocated yet; told when it is",
    "replacement_cancelled": "nothing was allocated; the ask is as it was",
}
