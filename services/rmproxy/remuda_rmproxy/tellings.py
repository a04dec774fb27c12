"""Which facts an RM is told, on which callback, and as what: the table, and one small function per kind of fact. Pure.

A fact that is not in `TELLINGS` is not told. Partition names are the RM's again (semantics section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.partitions import PlainNames
from remuda_rmproxy.session import Correlation

NANOSECONDS_PER_MS = 1_000_000
# AskWaiting.constraint when no node will do; every other one is a quota, a limit or a state that holds the ask back.
NO_NODE_FITS = frozenset({"node", "unknown_node", "unschedulable_node", "predicate", "reserved"})

RESPONSES: dict[str, type[Any]] = {
    "allocation": si.AllocationResponse,
    "application": si.ApplicationResponse,
    "node": si.NodeResponse,
}


@dataclass(frozen=True, slots=True, eq=False)
class Telling:
    """`into`, a field of the response of `kind`, gets an element filled by `fill(element, fact, names)`; without `into`
    the message itself, made by `message`, is filled. `is_told`: not every fact of this name is. `context`: what `fill`
    needs beyond the fact."""

    kind: str
    fill: Callable[[Any, Any, PlainNames], None]
    into: str = ""
    message: Callable[[], Any] = si.AllocationResponse
    is_told: Callable[[Any, log_pb2.Decision], bool] | None = None
    context: Callable[[Any, log_pb2.Decision, log_pb2.Commit], Any] | None = None
    number: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.into:
            number = RESPONSES[self.kind].DESCRIPTOR.fields_by_name[self.into].number
            object.__setattr__(self, "number", number)


def _allocated(told: si.Allocation, fact: log_pb2.Allocated, names: PlainNames) -> None:
    allocation = fact.allocation
    told.CopyFrom(allocation)
    told.partitionName = names[allocation.partitionName]


def _replaced(told: si.Allocation, fact: log_pb2.PlaceholderReplaced, names: PlainNames) -> None:
    _allocated(told, fact.allocation, names)


def _release(told: si.AllocationRelease, fact: Any, names: PlainNames) -> None:
    """AllocationReleased, ReleaseRequested and ReleaseIgnored look the same to an RM."""
    told.partitionName = names[fact.partition]
    told.applicationID = fact.application_id
    told.UUID = fact.uuid
    told.terminationType = fact.termination_type
    told.message = fact.message
    told.allocationKey = fact.allocation_key


def _released_ask(told: si.AllocationAskRelease, fact: log_pb2.AskReleased, names: PlainNames) -> None:
    told.partitionName = names[fact.partition]
    told.applicationID = fact.application_id
    told.allocationKey = fact.allocation_key
    told.terminationType = fact.termination_type
    told.message = fact.message


def _rejected(told: Any, fact: Any, _: PlainNames) -> None:
    """RejectedAllocationAsk and RejectedAllocation."""
    told.allocationKey = fact.allocation_key
    told.applicationID = fact.application_id
    told.reason = fact.reason


def _rejected_application(told: si.RejectedApplication, fact: log_pb2.ApplicationRejected, _: PlainNames) -> None:
    told.applicationID = fact.application_id
    told.reason = fact.reason


def _accepted_application(told: si.AcceptedApplication, fact: log_pb2.ApplicationAccepted, _: PlainNames) -> None:
    told.applicationID = fact.application_id


def _updated_application(told: si.UpdatedApplication, fact: log_pb2.ApplicationStateChanged, _: PlainNames) -> None:
    told.applicationID = fact.application_id
    told.state = fact.state
    told.stateTransitionTimestamp = fact.at_ms * NANOSECONDS_PER_MS
    told.message = fact.reason


def _rejected_node(told: si.RejectedNode, fact: log_pb2.NodeRejected, _: PlainNames) -> None:
    told.nodeID = fact.node_id
    told.reason = fact.reason


def _accepted_node(told: si.AcceptedNode, fact: log_pb2.NodeAdded, _: PlainNames) -> None:
    told.nodeID = fact.node_id


def _waiting(told: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.AskWaiting, _: PlainNames) -> None:
    states = si.UpdateContainerSchedulingStateRequest
    told.applicartionID = fact.application_id
    told.allocationKey = fact.allocation_key
    told.state = states.FAILED if fact.constraint in NO_NODE_FITS else states.SKIPPED
    told.reason = fact.reason


def _outstanding(told: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.AskOutstanding, _: PlainNames) -> None:
    told.applicartionID = fact.application_id
    told.allocationKey = fact.allocation_key
    told.state = si.UpdateContainerSchedulingStateRequest.FAILED
    told.reason = fact.reason


def _reserved(told: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.NodeReserved, _: PlainNames) -> None:
    told.applicartionID = fact.application_id
    told.allocationKey = fact.allocation_key
    told.state = si.UpdateContainerSchedulingStateRequest.RESERVED
    told.reason = f"node {fact.node_id} is kept for it until there is room"


def _copy(told: Any, message: Any, _: PlainNames) -> None:
    told.CopyFrom(message)


def _is_request(_: Any, decision: log_pb2.Decision) -> bool:
    """A configuration that comes from the file is nothing an RM has asked for."""
    correlation = Correlation.decode(decision.correlation_id)
    return correlation is not None and correlation.kind == "configure"


def _is_the_rms(fact: log_pb2.ReleaseIgnored, _: log_pb2.Decision) -> bool:
    """What the RM released by itself is acknowledged. A late confirmation is not: an RM that confirms whatever it is
    sent would send it again, for ever."""
    return fact.termination_type in (si.UNKNOWN_TERMINATION_TYPE, si.STOPPED_BY_RM)


def _refused_update(
    fact: log_pb2.ConfigurationRefused, decision: log_pb2.Decision, commit: log_pb2.Commit
) -> si.EventRecord:
    correlation = Correlation.decode(decision.correlation_id)
    assert correlation is not None, "_is_request holds"
    return dead_letter_record(fact.reason, int(correlation.id), commit.now_ms * NANOSECONDS_PER_MS)


def dead_letter_record(reason: str, request_seq: int, timestamp_ns: int) -> si.EventRecord:
    """What an RM is told of a request that was not handled. `request_seq`: its stream sequence, as the PubAck gave
    it."""
    return si.EventRecord(
        type=si.EventRecord.REQUEST,
        objectID=str(request_seq),
        message=reason,
        timestampNano=timestamp_ns,
        referenceID=str(request_seq),
    )


TELLINGS: dict[str, Telling] = {
    "allocated": Telling("allocation", _allocated, "new"),
    "placeholder_replaced": Telling("allocation", _replaced, "new"),
    "allocation_released": Telling("allocation", _release, "released", is_told=lambda fact, _: bool(fact.told)),
    "release_requested": Telling("allocation", _release, "released"),
    "release_ignored": Telling("allocation", _release, "released", is_told=_is_the_rms),
    "ask_released": Telling(
        "allocation", _released_ask, "releasedAsks", is_told=lambda fact, _: bool(fact.termination_type == si.TIMEOUT)
    ),
    "ask_rejected": Telling("allocation", _rejected, "rejected"),
    "allocation_rejected": Telling("allocation", _rejected, "rejectedAllocations"),
    "application_rejected": Telling("application", _rejected_application, "rejected"),
    "application_accepted": Telling("application", _accepted_application, "accepted"),
    "application_state_changed": Telling("application", _updated_application, "updated"),
    "node_rejected": Telling("node", _rejected_node, "rejected"),
    "node_added": Telling("node", _accepted_node, "accepted"),
    "ask_waiting": Telling("container", _waiting, message=si.UpdateContainerSchedulingStateRequest),
    "ask_outstanding": Telling("container", _outstanding, message=si.UpdateContainerSchedulingStateRequest),
    "node_reserved": Telling("container", _reserved, message=si.UpdateContainerSchedulingStateRequest),
    "configuration_refused": Telling(
        "dead_letter", _copy, message=si.EventRecord, is_told=_is_request, context=_refused_update
    ),
}
