"""Snapshots as bytes, and back: records as the messages of snapshot.proto.

A record has the fields of its message, by name (`by_name`). Facts in it are messages of log.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from google.protobuf.message import DecodeError

from remuda_proto.remuda.v1 import log_pb2, snapshot_pb2
from remuda_replication.log import Position

from .. import facts
from ..limits import SNAPSHOT_RECORDS_PER_PIECE
from ..snapshot import RESTORERS, Record
from . import schema
from .by_name import ByName, Conversion
from .facts import SPECIAL, WRITERS, read_fact, snake

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
            name, conversion = FORMATS[type(record)]
            getattr(piece.records.add(), name).CopyFrom(conversion.write(record))
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


def _write_fact(fact: facts.Fact) -> log_pb2.Fact:
    message = log_pb2.Fact()
    WRITERS[type(fact)](fact, message)
    return message


CONVERT: Final = ByName({**SPECIAL, "remuda.v1.Fact": Conversion(_write_fact, read_fact)})
# By the type of record: its field in SnapshotRecord, and how it is written and read.
FORMATS: Final = {
    kind: (snake(kind.__name__.removesuffix("Record")), CONVERT.of(kind, getattr(snapshot_pb2, kind.__name__)))
    for kind in RESTORERS
}
READERS: Final = {name: conversion.read for name, conversion in FORMATS.values()}
