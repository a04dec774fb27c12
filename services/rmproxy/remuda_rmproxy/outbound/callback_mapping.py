"""Which facts become callbacks, and how: one table, and a small function for each kind of fact. Pure.

Facts that are not in `CALLBACK_MAPPINGS` have no callback. Callbacks carry the plain names of partitions (semantics
section 1). Texts name no guests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from remuda_proto.constants import DEVICES_TAG, FOREIGN_TAG, NO_NODE_FITS
from remuda_proto.guests import without_guests
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.records.correlation import Correlation
from remuda_rmproxy.records.dead_letter_record import dead_letter_record
from remuda_rmproxy.records.partitions import PlainNames

NANOSECONDS_PER_MS = 1_000_000
RESPONSES: dict[str, type[Any]] = {
    "allocation": si.AllocationResponse,
    "application": si.ApplicationResponse,
    "node": si.NodeResponse,
}


@dataclass(frozen=True, slots=True, eq=False)
class CallbackMapping:
    """How facts of one kind become callbacks of `kind`.

    `fill(element, fact, names)` fills an element of `response_field` of the response; without a `response_field` it
    fills the message that `message` makes. `applies` selects the facts of that kind that are mapped; without it all
    are. `prepare` adds what `fill` needs beyond the fact. `application`: the application that the fact is about; facts
    about guests do not concern the RM.
    """

    kind: str
    fill: Callable[[Any, Any, PlainNames], None]
    response_field: str = ""
    message: Callable[[], Any] = si.AllocationResponse
    applies: Callable[[Any, log_pb2.Decision], bool] | None = None
    prepare: Callable[[Any, log_pb2.Decision, log_pb2.Commit], Any] | None = None
    application: Callable[[Any], str] = attrgetter("application_id")
    number: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.response_field:
            number = RESPONSES[self.kind].DESCRIPTOR.fields_by_name[self.response_field].number
            object.__setattr__(self, "number", number)


def _fill_allocation(target: si.Allocation, fact: log_pb2.Allocated, names: PlainNames) -> None:
    allocation = fact.allocation
    target.CopyFrom(allocation)
    target.partitionName = names[allocation.partitionName]
    target.allocationID = allocation.UUID
    if fact.devices:  # few have any, and iterating over none takes longer than all of the above
        for resource, devices in fact.devices.items():
            target.allocationTags[DEVICES_TAG + resource] = devices


def _fill_replacement(target: si.Allocation, fact: log_pb2.PlaceholderReplaced, names: PlainNames) -> None:
    _fill_allocation(target, fact.allocation, names)


def _fill_release(target: si.AllocationRelease, fact: Any, names: PlainNames) -> None:
    """Fill from AllocationReleased, ReleaseRequested or ReleaseIgnored."""
    target.partitionName = names[fact.partition]
    target.applicationID = fact.application_id
    target.UUID = target.allocationID = fact.uuid
    target.terminationType = fact.termination_type
    target.message = without_guests(fact.message)
    target.allocationKey = fact.allocation_key


def _fill_ask_release(target: si.AllocationAskRelease, fact: log_pb2.AskReleased, names: PlainNames) -> None:
    target.partitionName = names[fact.partition]
    target.applicationID = fact.application_id
    target.allocationKey = fact.allocation_key
    target.terminationType = fact.termination_type
    target.message = without_guests(fact.message)


def _fill_rejection(target: Any, fact: Any, _: PlainNames) -> None:
    """Fill a RejectedAllocationAsk or a RejectedAllocation."""
    target.allocationKey = fact.allocation_key
    target.applicationID = fact.application_id
    target.reason = without_guests(fact.reason)


def _fill_existing_rejection(
    target: si.RejectedAllocation, fact: log_pb2.ExistingAllocationRejected, _: PlainNames
) -> None:
    target.allocationKey = fact.allocation.allocation.allocationKey
    target.applicationID = fact.allocation.allocation.applicationID
    target.reason = without_guests(fact.reason)


def _fill_rejected_application(
    target: si.RejectedApplication, fact: log_pb2.ApplicationRejected, _: PlainNames
) -> None:
    target.applicationID = fact.application_id
    target.reason = without_guests(fact.reason)


def _fill_accepted_application(
    target: si.AcceptedApplication, fact: log_pb2.ApplicationAccepted, _: PlainNames
) -> None:
    target.applicationID = fact.application_id


def _fill_updated_application(
    target: si.UpdatedApplication, fact: log_pb2.ApplicationStateChanged, _: PlainNames
) -> None:
    target.applicationID = fact.application_id
    target.state = fact.state
    target.stateTransitionTimestamp = fact.at_ms * NANOSECONDS_PER_MS
    target.message = without_guests(fact.reason)


def _fill_rejected_node(target: si.RejectedNode, fact: log_pb2.NodeRejected, _: PlainNames) -> None:
    target.nodeID = fact.node_id
    target.reason = without_guests(fact.reason)


def _fill_accepted_node(target: si.AcceptedNode, fact: log_pb2.NodeAdded, _: PlainNames) -> None:
    target.nodeID = fact.node_id


def _fill_waiting(target: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.AskWaiting, _: PlainNames) -> None:
    states = si.UpdateContainerSchedulingStateRequest
    target.applicartionID = fact.application_id
    target.allocationKey = fact.allocation_key
    target.state = states.FAILED if fact.constraint in NO_NODE_FITS else states.SKIPPED
    target.reason = without_guests(fact.reason)


def _fill_outstanding(
    target: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.AskOutstanding, _: PlainNames
) -> None:
    target.applicartionID = fact.application_id
    target.allocationKey = fact.allocation_key
    target.state = si.UpdateContainerSchedulingStateRequest.FAILED
    target.reason = without_guests(fact.reason)


def _fill_reserved(target: si.UpdateContainerSchedulingStateRequest, fact: log_pb2.NodeReserved, _: PlainNames) -> None:
    target.applicartionID = fact.application_id
    target.allocationKey = fact.allocation_key
    target.state = si.UpdateContainerSchedulingStateRequest.RESERVED
    target.reason = f"node {fact.node_id} is kept for it until there is room"


def _fill_copy(target: Any, message: Any, _: PlainNames) -> None:
    target.CopyFrom(message)


def _is_foreign(fact: log_pb2.ExistingAllocationRejected) -> bool:
    """Returns whether something else runs it, as the RM has reported: this is no rejection."""
    allocation = fact.allocation.allocation
    return not allocation.applicationID and FOREIGN_TAG in allocation.allocationTags


def _is_requested_by_rm(_: Any, decision: log_pb2.Decision) -> bool:
    """False for a configuration from the file: the RM did not request it."""
    correlation = Correlation.decode(decision.correlation_id)
    return correlation is not None and correlation.kind == "configure"


def _is_released_by_rm(fact: log_pb2.ReleaseIgnored, _: log_pb2.Decision) -> bool:
    """A release by the RM itself is acknowledged. A late confirmation is not: an RM that confirms every release it
    receives would confirm this one, too, without end."""
    return fact.termination_type in (si.UNKNOWN_TERMINATION_TYPE, si.STOPPED_BY_RM)


def _refused_update_record(
    fact: log_pb2.ConfigurationRefused, decision: log_pb2.Decision, commit: log_pb2.Commit
) -> si.EventRecord:
    correlation = Correlation.decode(decision.correlation_id)
    assert correlation is not None, "_is_requested_by_rm holds"
    return dead_letter_record(without_guests(fact.reason), int(correlation.id), commit.now_ms * NANOSECONDS_PER_MS)


_OF_ALLOCATED: Final = attrgetter("allocation.applicationID")
_OF_EXISTING: Final = attrgetter("allocation.allocation.applicationID")
_OF_REPLACEMENT: Final = attrgetter("allocation.allocation.applicationID")


def _of_none(_: Any) -> str:
    return ""


CALLBACK_MAPPINGS: dict[str, CallbackMapping] = {
    "allocated": CallbackMapping("allocation", _fill_allocation, "new", application=_OF_ALLOCATED),
    "placeholder_replaced": CallbackMapping("allocation", _fill_replacement, "new", application=_OF_REPLACEMENT),
    "allocation_released": CallbackMapping(
        "allocation", _fill_release, "released", applies=lambda fact, _: bool(fact.reported)
    ),
    "release_requested": CallbackMapping("allocation", _fill_release, "released"),
    "release_ignored": CallbackMapping("allocation", _fill_release, "released", applies=_is_released_by_rm),
    "ask_released": CallbackMapping(
        "allocation",
        _fill_ask_release,
        "releasedAsks",
        applies=lambda fact, _: bool(fact.termination_type == si.TIMEOUT),
    ),
    "ask_rejected": CallbackMapping("allocation", _fill_rejection, "rejected"),
    "allocation_rejected": CallbackMapping("allocation", _fill_rejection, "rejectedAllocations"),
    "existing_allocation_rejected": CallbackMapping(
        "allocation", _fill_existing_rejection, "rejectedAllocations", application=_OF_EXISTING,
        applies=lambda fact, _: not _is_foreign(fact),
    ),
    "application_rejected": CallbackMapping("application", _fill_rejected_application, "rejected"),
    "application_accepted": CallbackMapping("application", _fill_accepted_application, "accepted"),
    "application_state_changed": CallbackMapping("application", _fill_updated_application, "updated"),
    "node_rejected": CallbackMapping("node", _fill_rejected_node, "rejected", application=_of_none),
    "node_added": CallbackMapping("node", _fill_accepted_node, "accepted", application=_of_none),
    "ask_waiting": CallbackMapping("container", _fill_waiting, message=si.UpdateContainerSchedulingStateRequest),
    "ask_outstanding": CallbackMapping(
        "container", _fill_outstanding, message=si.UpdateContainerSchedulingStateRequest
    ),
    "node_reserved": CallbackMapping("container", _fill_reserved, message=si.UpdateContainerSchedulingStateRequest),
    "configuration_refused": CallbackMapping(
        "dead_letter",
        _fill_copy,
        message=si.EventRecord,
        applies=_is_requested_by_rm,
        prepare=_refused_update_record,
        application=_of_none,
    ),
}  # fmt: skip
