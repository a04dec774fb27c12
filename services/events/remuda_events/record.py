"""An EventRecord (000, Event Plugin) about an application, an ask, a node or a queue, in as few words as possible."""

from __future__ import annotations

from functools import partial

from remuda_proto.si.v1 import si_pb2 as si

Record = si.EventRecord


def record(
    about: Record.Type.ValueType,
    object_id: str,
    change: Record.ChangeType.ValueType,
    detail: Record.ChangeDetail.ValueType,
    at_ns: int,
    *,
    reference: str = "",
    resource: si.Resource | None = None,
    message: str = "",
) -> si.EventRecord:
    """`object_id` names what `about` says, `reference` the other party; `at_ns` counts from 1970."""
    return Record(
        type=about,
        objectID=object_id,
        message=message,
        timestampNano=at_ns,
        eventChangeType=change,
        eventChangeDetail=detail,
        referenceID=reference,
        resource=resource,
    )


app = partial(record, Record.APP)
request = partial(record, Record.REQUEST)
node = partial(record, Record.NODE)
queue = partial(record, Record.QUEUE)
