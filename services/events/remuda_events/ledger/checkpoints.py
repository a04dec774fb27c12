"""A projection as bytes and back, and from a snapshot of the core. Pure.

A checkpoint holds the open hour to the last millisecond, so hours that are closed after a restart are those that would
have been closed without it, byte by byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.message import DecodeError

from remuda_events.ledger.projection import (
    Application,
    Dropped,
    OpenRow,
    Projection,
    Reservation,
    Running,
    add,
    amounts_of,
    plain,
)
from remuda_operations.ledger.hours import Amounts, RowKey, write_amounts
from remuda_proto.remuda.v1 import log_pb2, snapshot_pb2
from remuda_replication.log import Position

FORMAT: Final = 1
SNAPSHOT_FORMAT: Final = 1

Written = dict[str, int | str]


class _Row(NamedTuple):
    partition: str
    queue: str
    user: str
    tags: list[tuple[str, str]]
    application: str
    kind: str
    amounts: Written


class _Running(NamedTuple):
    """`row`: the number of its row."""

    name: str
    row: int
    resource: dict[str, int]
    since_ms: int
    node: str
    placeholder: bool
    checkpointed: bool
    is_work: bool


class _Application(NamedTuple):
    partition: str
    id: str
    queue: str
    user: str
    tags: dict[str, str]
    gang: bool
    failing: bool
    running: list[_Running]
    questions: dict[str, str]


class _Reservation(NamedTuple):
    application: str
    row: int
    need: dict[str, int]
    idle: dict[str, int]


class _Node(NamedTuple):
    partition: str
    id: str
    room: dict[str, int]
    rejected: dict[str, int]
    reservation: _Reservation | None


class _Checkpoint(msgspec.Struct):
    format: int
    seq: int
    hash: bytes
    at_ms: int
    hour_ms: int
    begun_ms: int
    rows: list[_Row]
    applications: list[_Application]
    nodes: list[_Node]
    dropped: dict[str, tuple[dict[str, int], int]]
    day_ms: int
    day: list[_Row]


_CHECKPOINT: Final = msgspec.msgpack.Decoder(_Checkpoint)


def encode(projection: Projection, position: Position) -> bytes:
    """`position`: of the last commit that the projection has followed."""
    numbers = {id(row): number for number, row in enumerate(projection.rows.values())}
    rows = [_written(key, row.amounts) for key, row in projection.rows.items()]
    applications = [
        _Application(
            partition, one.id, one.queue, one.user, dict(one.tags), one.gang, one.failing,
            [
                _Running(
                    name, numbers[id(each.row)], each.resource, each.since_ms, each.node, each.placeholder,
                    each.checkpointed, each.is_work,
                )
                for name, each in one.running.items()
            ],
            one.questions,
        )
        for (partition, _), one in projection.applications.items()
    ]  # fmt: skip
    nodes = [
        _Node(partition, node_id, node.room, node.rejected, _reservation(node.reservation, numbers))
        for (partition, node_id), node in projection.nodes.items()
    ]
    dropped = {uuid: (one.resource, one.at_ms) for uuid, one in projection.dropped.items()}
    return zlib.compress(msgspec.msgpack.encode(_Checkpoint(
        FORMAT, position.seq, position.hash, projection.at_ms, projection.hour_ms, projection.begun_ms, rows,
        applications, nodes, dropped, projection.day_ms,
        [_written(key, amounts) for key, amounts in projection.day.items()],
    )), 1)  # fmt: skip


def _written(key: RowKey, amounts: Amounts) -> _Row:
    return _Row(*key[:3], list(key.tags), key.application, key.kind, write_amounts(amounts))


def _reservation(reservation: Reservation | None, numbers: dict[int, int]) -> _Reservation | None:
    if reservation is None:
        return None
    return _Reservation(reservation.application.id, numbers[id(reservation.row)], reservation.need, reservation.idle)


def decode(payload: bytes, listed_tags: Iterable[str] = ()) -> tuple[Projection, Position]:
    """Raises ValueError when it is no checkpoint, or one of a newer version."""
    try:
        found = _CHECKPOINT.decode(zlib.decompress(payload))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"it is no checkpoint of a ledger: {error}") from None
    if found.format != FORMAT:
        raise ValueError(f"its format is {found.format}, this version reads {FORMAT}")
    projection = Projection(listed_tags)
    projection.at_ms, projection.hour_ms, projection.begun_ms = found.at_ms, found.hour_ms, found.begun_ms
    projection.resume()
    rows = [_restored_row(projection, one) for one in found.rows]
    for one in found.nodes:
        node = projection.node(one.partition, one.id)
        node.room, node.rejected = dict(one.room), dict(one.rejected)
    for application in found.applications:
        _restore_application(projection, application, rows)
    for one in found.nodes:
        if one.reservation is not None:
            _restore_reservation(projection, one, one.reservation, rows)
    projection.dropped = {uuid: Dropped(dict(resource), at) for uuid, (resource, at) in found.dropped.items()}
    projection.day_ms, projection.day = found.day_ms, dict(map(_read, found.day))
    return projection, Position(found.seq, found.hash)


def _read(one: _Row) -> tuple[RowKey, Amounts]:
    key = RowKey(one.partition, one.queue, one.user, tuple(one.tags), one.application, one.kind)
    return key, {name: int(amount) for name, amount in one.amounts.items()}


def _restored_row(projection: Projection, one: _Row) -> OpenRow:
    key, amounts = _read(one)
    row = projection.rows[key] = OpenRow(key, amounts)
    return row


def _restore_application(projection: Projection, one: _Application, rows: list[OpenRow]) -> None:
    application = Application(plain(one.partition), one.id, one.queue, one.user, dict(one.tags), one.gang)
    application.failing, application.questions = one.failing, dict(one.questions)
    projection.applications[one.partition, one.id] = application
    for each in one.running:
        row, resource = rows[each.row], dict(each.resource)
        application.running[each.name] = Running(
            row, resource, each.since_ms, each.node, each.placeholder, each.checkpointed, each.is_work
        )
        row.hold(resource)
        add(projection.node(one.partition, each.node).used, resource, 1)


def _restore_reservation(projection: Projection, one: _Node, was: _Reservation, rows: list[OpenRow]) -> None:
    node, application = projection.node(one.partition, one.id), projection.applications[one.partition, was.application]
    node.reservation = Reservation(application, rows[was.row], dict(was.need))
    node.reservation.idle = dict(was.idle)
    application.reserved[one.id] = node
    rows[was.row].hold(node.reservation.idle)


# Snapshots of the core


def from_snapshot(payload: bytes, rm_id: str, listed_tags: Iterable[str] = ()) -> tuple[Projection, Position]:
    """The projection at the commit of a snapshot, and its position: the ledger of a log whose begin is gone begins
    there. Raises ValueError when the payload is no snapshot of this RM that this version reads."""
    try:
        snapshot = snapshot_pb2.Snapshot.FromString(payload)
    except DecodeError as error:
        raise ValueError(f"it is no snapshot: {error}") from None
    if snapshot.format != SNAPSHOT_FORMAT or snapshot.rm_id != rm_id or snapshot.complete != len(snapshot.records):
        raise ValueError(f"it is no complete snapshot of {rm_id!r} of format {SNAPSHOT_FORMAT}")
    projection = Projection(listed_tags)
    records = [(record.WhichOneof("record"), record) for record in snapshot.records]
    for kind, record in records:
        if kind == "rm":
            list(projection.advance(record.rm.now_ms))
    for kind, record in records:
        if kind is not None and kind in _RESTORED:
            _RESTORED[kind](projection, getattr(record, kind))
    for kind, record in records:  # applications, nodes and what runs there come before
        if kind == "ask":
            _reserve(projection, record.ask)
    return projection, Position(snapshot.log_seq, snapshot.log_hash)


def _node(projection: Projection, record: snapshot_pb2.NodeRecord) -> None:
    projection.node_known(record.added.node_added)
    for fact in record.rejected:
        projection.rejected(fact.existing_allocation_rejected)


def _application(projection: Projection, record: snapshot_pb2.ApplicationRecord) -> None:
    accepted = record.accepted.application_accepted
    projection.accepted(accepted)
    if record.log:
        projection.changed_state(log_pb2.ApplicationStateChanged(
            partition=accepted.partition, application_id=accepted.application_id, state=record.log[-1].state
        ))  # fmt: skip


def _allocation(projection: Projection, record: snapshot_pb2.AllocationRecord) -> None:
    projection.begins(record.fact.allocated.allocation, record.at_ms)


def _question(projection: Projection, record: snapshot_pb2.QuestionRecord) -> None:
    projection.asked(record.fact.predicate_asked)


def _reserve(projection: Projection, record: snapshot_pb2.AskRecord) -> None:
    ask = record.ask
    for node_id in record.reservations:
        projection.reserve(ask.partitionName, node_id, ask.applicationID, amounts_of(ask.resourceAsk))


_RESTORED: Final[dict[str, Any]] = {
    "node": _node, "application": _application, "allocation": _allocation, "question": _question,
}  # fmt: skip
