"""The callback about a request that could not be handled. Pure."""

from __future__ import annotations

from remuda_proto.si.v1 import si_pb2 as si


def dead_letter_record(reason: str, request_seq: int, timestamp_ns: int) -> si.EventRecord:
    """Returns the event about a dead letter. `request_seq`: the sequence of the request, as its PubAck gave it."""
    return si.EventRecord(
        type=si.EventRecord.REQUEST,
        objectID=str(request_seq),
        message=reason,
        timestampNano=timestamp_ns,
        referenceID=str(request_seq),
    )
