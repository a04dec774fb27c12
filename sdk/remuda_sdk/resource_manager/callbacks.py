"""Callbacks and events of the scheduler, parsed from messages (000, RM and scheduler updates). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.si.v1 import si_pb2 as si


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that the scheduler could not handle. `request_seq`: the stream sequence that the publishing call
    returned."""

    reason: str
    request_seq: int


Callback = (
    si.AllocationResponse
    | si.ApplicationResponse
    | si.NodeResponse
    | si.UpdateContainerSchedulingStateRequest
    | si.EventRecord
    | DeadLetter
)


CALLBACK_TYPES: dict[
    str,
    type[si.AllocationResponse]
    | type[si.ApplicationResponse]
    | type[si.NodeResponse]
    | type[si.UpdateContainerSchedulingStateRequest]
    | type[si.EventRecord],
] = {
    "allocation": si.AllocationResponse,
    "application": si.ApplicationResponse,
    "node": si.NodeResponse,
    "container": si.UpdateContainerSchedulingStateRequest,
    "event": si.EventRecord,
}


def stream_of(message: Message) -> str:
    return subjects.EVENTS.name if message.subject.endswith(".event") else subjects.CALLBACKS.name


def parse_callback(message: Message) -> Callback:
    """Parse a callback. Raises ValueError for a kind that this version does not know."""
    kind = message.subject.rpartition(".")[2]
    if kind == "dead_letter":
        record = si.EventRecord.FromString(message.payload)
        return DeadLetter(record.message, int(record.referenceID or 0))
    made = CALLBACK_TYPES.get(kind)
    if made is None:
        raise ValueError(f"{message.subject}: expected a callback of one of {', '.join(CALLBACK_TYPES)}, dead_letter")
    return made.FromString(message.payload)
