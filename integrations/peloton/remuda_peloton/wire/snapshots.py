"""Snapshots: a state as records, and back. A state that was restored equals the one that was saved."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify
from itertools import islice
from typing import Any, Final

from google.protobuf.message import DecodeError

from remuda_proto.remuda.resmgr.v1 import snapshot_pb2 as pb
from remuda_replication.log import Position

from ..limits import SNAPSHOT_RECORDS_PER_PIECE
from ..rules.admission import QUEUES
from ..rules.hosts import Host, Placement, SharedHosts
from ..rules.lifecycle import READY
from ..rules.pools import ROOT, PoolConfig
from ..rules.resources import as_vector
from ..rules.task import Allocation, Task
from ..state import Gang, Pool, Run, State
from .messages import codec

FORMAT: Final = 1
RUN_FIELDS: Final = (
    "pool_id", "state", "reason", "since_ms", "started_ms", "due_ms", "hostname", "timeout_s", "attempts", "cycles",
    "ready_for_host_reservation", "gang", "placement", "taken_in", "known_ms",
    "reserved_host",
)  # fmt: skip
POOL_SUMS: Final = ("demand", "slack_demand", "entitlement", "non_slack", "slack")
# Fields of an Allocation, by the fields of a record.
HELD: Final = {
    "total": "total", "preemptible": "preemptible", "non_preemptible": "non_preemptible", "controller": "controller",
    "slack_held": "slack", "non_slack_held": "non_slack",
}  # fmt: skip

_write_task, _read_task = codec(Task)
_write_config, _read_config = codec(PoolConfig)
_write_host, _read_host = codec(Host)
_write_shared, _read_shared = codec(SharedHosts)
_write_placement, _read_placement = codec(Placement)


class SnapshotUnreadable(Exception):
    """The payload is not a complete snapshot of this log in a known format."""


def write(log_id: str, position: Position, inbox_seq: int, state: State) -> Iterator[bytes]:
    """Yield the pieces of an encoded `Snapshot`."""
    yield pb.Snapshot(format=FORMAT, log_id=log_id, log_seq=position.seq, log_hash=position.hash).SerializeToString()
    count, left = 0, records(inbox_seq, state)
    while some := list(islice(left, SNAPSHOT_RECORDS_PER_PIECE)):
        count += len(some)
        yield pb.Snapshot(records=some).SerializeToString()
    yield pb.Snapshot(complete=count).SerializeToString()


def read(log_id: str, payload: bytes) -> tuple[Position, int, State]:
    """The position, the sequence of the last inbox message, and the state. Raises SnapshotUnreadable."""
    try:
        message = pb.Snapshot.FromString(payload)
    except DecodeError as error:
        raise SnapshotUnreadable(f"it is no snapshot: {error}") from error
    if message.format != FORMAT:
        raise SnapshotUnreadable(f"its format is {message.format}, this version reads {FORMAT}")
    if message.log_id != log_id:
        raise SnapshotUnreadable(f"it is of {message.log_id!r}, expected {log_id!r}")
    if not message.complete or message.complete != len(message.records):
        raise SnapshotUnreadable(f"it has {len(message.records)} records, expected {message.complete or 'an end'}")
    state, inbox_seq = State(), 0
    for record in message.records:
        kind = record.WhichOneof("record")
        if kind is None:
            raise SnapshotUnreadable("it has a record of a kind this version does not know: a newer one wrote it")
        if kind == "global":
            inbox_seq = getattr(record, kind).inbox_seq
        _RESTORERS[kind](state, getattr(record, kind))
    state.timers = [(run.due_ms, run.task.id, run.task.mesos_id) for run in state.runs.values() if run.due_ms]
    heapify(state.timers)
    return Position(message.log_seq, message.log_hash), inbox_seq, state


def digest(state: State) -> str:
    """SHA-256 of what a state says, without the position in the inbox."""
    found = hashlib.sha256()
    for record in records(0, state):
        found.update(record.SerializeToString(deterministic=True))
    return found.hexdigest()


def size_of(state: State) -> int:
    return len(state.pools) + len(state.runs) + len(state.orphans) + len(state.gangs) + len(state.placements)


def records(inbox_seq: int, state: State) -> Iterator[pb.SnapshotRecord]:
    """Parents before children, runs before gangs; gangs in the order of their queues."""
    overall = pb.GlobalRecord(
        inbox_seq=inbox_seq, now_ms=state.now_ms, capacity=state.capacity or (), slack_cpu=state.slack_cpu,
        ranked_hosts=state.ranked_hosts, acknowledged=state.acknowledged, last_number=state.last_number,
    )  # fmt: skip
    yield pb.SnapshotRecord(**{"global": overall})  # type: ignore[arg-type]
    for host in state.known_hosts.values():
        yield pb.SnapshotRecord(host=_write_host(host))
    for shared in state.shared.values():
        yield pb.SnapshotRecord(shared=_write_shared(shared))
    below = [ROOT]
    while below:
        pool = state.pools[below.pop()]
        below.extend(reversed(pool.children))
        yield pb.SnapshotRecord(pool=_pool_record(pool))
    for run in state.orphans.values():
        yield pb.SnapshotRecord(run=_run_record(run, orphan=True))
    for run in state.runs.values():
        yield pb.SnapshotRecord(run=_run_record(run, orphan=False))
    waiting = [number for pool_id in state.waiting for name in QUEUES for number in state.pools[pool_id].queues[name]]
    ready = [number for queue in state.ready.values() for number in queue]
    for number in (*waiting, *ready):
        gang = state.gangs[number]
        tasks = [_write_task(task) for task in gang.tasks]
        yield pb.SnapshotRecord(gang=pb.GangRecord(number=number, pool_id=gang.pool_id, tasks=tasks, queue=gang.queue))
    for number, placement in state.placements.items():
        yield pb.SnapshotRecord(placement=pb.PlacementRecord(number=number, placement=_write_placement(placement)))
    for run_id, (task_id, reason) in state.candidates.items():
        yield pb.SnapshotRecord(candidate=pb.CandidateRecord(run_id=run_id, task_id=task_id, reason=reason))


def _pool_record(pool: Pool) -> pb.PoolRecord:
    sums: dict[str, Any] = {name: getattr(pool, name) for name in POOL_SUMS}
    held: dict[str, Any] = {name: getattr(pool.allocation, field) for name, field in HELD.items()}
    return pb.PoolRecord(config=_write_config(pool.config), over_count=pool.over_count, **sums, **held)


def _run_record(run: Run, *, orphan: bool) -> pb.RunRecord:
    fields: dict[str, Any] = {name: getattr(run, name) for name in RUN_FIELDS}
    return pb.RunRecord(task=_write_task(run.task), orphan=orphan, ports=run.ports, **fields)


def _restore_global(state: State, record: pb.GlobalRecord) -> None:
    state.now_ms, state.slack_cpu = record.now_ms, record.slack_cpu
    state.capacity = as_vector(record.capacity) if record.capacity else None
    state.ranked_hosts, state.acknowledged = tuple(record.ranked_hosts), record.acknowledged
    state.last_number = record.last_number


def _restore_pool(state: State, record: pb.PoolRecord) -> None:
    config = _read_config(record.config)
    state.pools_changed()
    pool = state.pools[config.id] = Pool(config)
    if config.id != ROOT:
        state.pools[config.parent].children[config.id] = None
    for name in POOL_SUMS:
        setattr(pool, name, as_vector(getattr(record, name)))
    pool.allocation = Allocation(**{field: as_vector(getattr(record, name)) for name, field in HELD.items()})
    pool.over_count = record.over_count


def _restore_host(state: State, record: Any) -> None:
    host = _read_host(record)
    state.known_hosts[host.hostname] = host
    state.host_changed(host.hostname)


def _restore_shared(state: State, record: Any) -> None:
    shared = _read_shared(record)
    state.shared[shared.name] = shared


def _restore_run(state: State, record: pb.RunRecord) -> None:
    run = Run(_read_task(record.task), record.pool_id, record.state, record.since_ms)
    for name in RUN_FIELDS:
        setattr(run, name, getattr(record, name))
    run.ports = tuple(record.ports)
    run_id, task_id = run.task.mesos_id, run.task.id
    if record.orphan:
        state.orphans[run_id] = run
    else:
        state.runs[task_id] = state.pools[run.pool_id].runs[task_id] = run
    state.task_of[run_id] = task_id
    if run.taken_in:
        state.taken.setdefault(run.taken_in, {})[task_id] = run
    if run.reserved_host:
        state.reserved[run.reserved_host] = run
    if run.hostname:
        state.hosts.setdefault(run.hostname, {})[run_id] = run


def _restore_gang(state: State, record: pb.GangRecord) -> None:
    tasks = tuple(map(_read_task, record.tasks))
    gang = state.gangs[record.number] = Gang(record.number, record.pool_id, tasks, record.queue)
    if gang.queue == READY:
        state.ready.setdefault(tasks[0].type, OrderedDict())[gang.number] = None
        state.ready_count += 1
    else:
        state.pools[gang.pool_id].queues[gang.queue].add(gang.number, tasks[0].priority)
        state.waiting[gang.pool_id] = None


def _restore_placement(state: State, record: pb.PlacementRecord) -> None:
    state.placements[record.number] = _read_placement(record.placement)


def _restore_candidate(state: State, record: pb.CandidateRecord) -> None:
    state.candidates[record.run_id] = (record.task_id, record.reason)


_RESTORERS: Final[dict[str, Any]] = {
    "global": _restore_global, "pool": _restore_pool, "run": _restore_run, "gang": _restore_gang,
    "placement": _restore_placement, "candidate": _restore_candidate, "host": _restore_host,
    "shared": _restore_shared,
}  # fmt: skip
