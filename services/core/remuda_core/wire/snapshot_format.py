"""Snapshots as bytes, and back: records as the messages of snapshot.proto.

A record has the fields of its message, by name, so reading and writing follow from its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from google.protobuf.message import DecodeError

from remuda_proto.remuda.v1 import log_pb2, snapshot_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import Position

from .. import facts
from ..limits import SNAPSHOT_RECORDS_PER_PIECE
from ..snapshot import RESTORERS, Record, records
from . import schema
from .allocations import read_logged_ask, write_ask
from .facts import WRITERS, read_fact, snake
from .resources import RESOURCES, write_resource

FORMAT: Final = 1


class SnapshotUnreadable(Exception):
    """The payload is not a complete snapshot of this RM in a known format."""


def write(rm_id: str, position: Position, saved: Iterable[Record]) -> Iterator[bytes]:
    """Yield the pieces of an encoded `Snapshot`."""
    yield snapshot_pb2.Snapshot(
        format=FORMAT, rm_id=rm_id, log_seq=position.seq, log_hash=position.hash
    ).SerializeToString()
    count, left = 0, iter(saved)
    while some := list(islice(left, SNAPSHOT_RECORDS_PER_PIECE)):
        piece = snapshot_pb2.Snapshot()
        for record in some:
            name, to_message, _ = FORMATS[type(record)]
            getattr(piece.records.add(), name).CopyFrom(to_message(record))
        count += len(some)
        yield piece.SerializeToString()
    yield snapshot_pb2.Snapshot(complete=count).SerializeToString()


def read(rm_id: str, payload: bytes) -> tuple[Position, Iterator[Record]]:
    """The position of a snapshot, and its records. Raises SnapshotUnreadable, also while records are iterated."""
    try:
        message = schema.Snapshot.FromString(payload)
    except DecodeError as error:
        raise SnapshotUnreadable(f"it is no snapshot: {error}") from error
    if message.format != FORMAT:
        raise SnapshotUnreadable(f"its format is {message.format}, this version reads {FORMAT}")
    if message.rm_id != rm_id:
        raise SnapshotUnreadable(f"it is of {message.rm_id!r}, expected {rm_id!r}")
    if not message.complete or message.complete != len(message.records):
        raise SnapshotUnreadable(f"it has {len(message.records)} records, expected {message.complete or 'an end'}")
    return Position(message.log_seq, message.log_hash), map(_read_record, message.records)


def _read_record(message: snapshot_pb2.SnapshotRecord) -> Record:
    kind = message.WhichOneof("record")
    if kind is None:
        raise SnapshotUnreadable("it has a record of a kind this version does not know: a newer one wrote it")
    record: Record = READERS[kind](getattr(message, kind))
    return record


# Fields that are None are not written; fields that are missing are None.
ToMessage = Callable[[Any], Any]
FromMessage = Callable[[Any], Any]


def _write_fact(fact: facts.Fact) -> log_pb2.Fact:
    message = log_pb2.Fact()
    WRITERS[type(fact)](fact, message)
    return message


def _written_ask(ask: facts.Ask) -> si.AllocationAsk:
    message = si.AllocationAsk()
    write_ask(ask, message)
    return message


def _many(to_message: ToMessage, from_message: FromMessage) -> tuple[ToMessage, FromMessage]:
    return lambda values: [to_message(value) for value in values], lambda messages: tuple(map(from_message, messages))


def _conversion(type_name: str) -> tuple[ToMessage, FromMessage] | None:
    """How to write and read a field of this type. None: protobuf stores it as it is."""
    if type_name == "facts.Ask":
        return _written_ask, read_logged_ask
    if type_name.startswith("facts."):
        return _write_fact, read_fact
    if type_name == "Resource":
        return write_resource, RESOURCES.__getitem__
    if type_name in ("tuple[str, ...]", "tuple[int, ...]"):
        return list, tuple
    if type_name.startswith("tuple[facts."):
        return _many(_write_fact, read_fact)
    if type_name.startswith("tuple["):
        return _many(*_of_record(getattr(records, type_name.removeprefix("tuple[").removesuffix(", ...]"))))
    kind = getattr(records, type_name, None)
    return None if kind is None else _of_record(kind)


def _of_record(kind: type[Record]) -> tuple[ToMessage, FromMessage]:
    message_type: Any = getattr(snapshot_pb2, kind.__name__)
    plain: list[str] = []
    optional: list[str] = []
    converted: list[tuple[str, ToMessage, FromMessage]] = []
    for name in kind.__struct_fields__:
        type_name = kind.__annotations__[name]
        conversion = _conversion(type_name.removesuffix(" | None"))
        if conversion is None:
            plain.append(name)
        else:
            converted.append((name, *conversion))
        if type_name.endswith(" | None"):
            optional.append(name)

    def write(record: Any) -> Any:
        values = {name: getattr(record, name) for name in plain}
        for name, to_message, _ in converted:
            value = getattr(record, name)
            if value is not None:
                values[name] = to_message(value)
        return message_type(**values)

    def read(message: Any) -> Record:
        values = {name: getattr(message, name) for name in plain}
        for name, _, from_message in converted:
            if name not in optional or message.HasField(name):
                values[name] = from_message(getattr(message, name))
        return kind(**values)

    return write, read


# By the type of record: (its field in SnapshotRecord, writer, reader).
FORMATS: Final[dict[type[Record], tuple[str, ToMessage, FromMessage]]] = {
    kind: (snake(kind.__name__.removesuffix("Record")), *_of_record(kind)) for kind in RESTORERS
}
READERS: Final[dict[str, FromMessage]] = {name: read_one for name, _, read_one in FORMATS.values()}
