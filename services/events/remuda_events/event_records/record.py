"""Makes EventRecords (000, Event Plugin) about applications, asks, nodes and queues."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from remuda_proto.si.v1 import si_pb2 as si

Record = si.EventRecord
Records = Iterable[si.EventRecord]


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
    """`about`: the type of the object that `object_id` names. `reference`: the name of the other object. `at_ns`:
    nanoseconds since 1970."""
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


def plain_partition(partition: str) -> str:
    """The partition's name as the RM knows it: without the prefix "[rmID]"."""
    return partition.rpartition("]")[2]
