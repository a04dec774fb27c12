"""Logs and snapshots of every version so far are read by this one, and mean what they meant."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.evolve import BY_FACT
from remuda_core.shell import replay
from remuda_core.shell.machine import CoreMachine
from remuda_core.snapshot import RESTORERS, save
from remuda_core.state import Timer
from remuda_core.timeouts import of_draining, of_placeholders, of_reservation, subject_of
from remuda_core.wire import schema, snapshot_format
from remuda_proto.remuda.v1 import snapshot_pb2
from remuda_replication.log import LogReader
from remuda_replication.snapshots import restore
from tests.property.world import RM

from .recording import FOLDER, Recording, recorded

RECORDED = sorted(FOLDER.glob("*/*.gz"))


async def started(recording: Recording, at: int | None) -> Core:
    """As a core that finds this on the bus."""
    bus, core = await recording.on_bus(at=at), Core(RM)
    reader = await LogReader.open(bus, RM, await restore(bus, CoreMachine(core)), commit_class=schema.Commit)
    async for entries in reader.read_to_end():
        for entry in entries:
            replay.apply(core, entry.commit)
    assert reader.position.seq == len(recording.log)
    check(core.state, core.index)
    if not reports_draining(recording):
        forget_drain_reports(core)
    forget_gangs_without_time(core)
    forget_what_snapshots_lacked(core)
    return core


def reports_draining(recording: Recording) -> bool:
    facts = (
        fact for message in recording.log for one in schema.Commit.FromString(message).decisions for fact in one.facts
    )
    return any(fact.WhichOneof("fact") == "queue_drain_overdue" for fact in facts)


def forget_drain_reports(core: Core) -> None:
    """Clear what the first snapshots and logs of 0.1.0 do not hold: when it is reported that a queue still drains. A
    core restored from one of them reports it, although its log might not."""
    for name, partition in core.state.partitions.items():
        for queue in partition.queues.values():
            core.state.timers.cancel(of_draining(name, queue))
            queue.drain_report_ms = 0


def forget_gangs_without_time(core: Core) -> None:
    """Clear what the first snapshots of 0.1.0 do not hold: when a gang times out whose allocated placeholders are all
    gone while others are pending. In a core restored from one of them it waits until one is allocated."""
    for name, partition in core.state.partitions.items():
        for application in partition.applications.values():
            if not application.placeholders:
                core.state.timers.cancel(of_placeholders(name, application))
                application.placeholders_until_ms = 0


def forget_what_snapshots_lacked(core: Core) -> None:
    """Clear what the first snapshots of 0.1.0 do not hold. That the RM was told that an ask is over: a core restored
    from one of them answers a repeated release of all asks once more. When the ask of an allocation came, and the peak
    of an application's usage: they are only shown. Since when a node is reserved: a core restored from one of them
    counts from the snapshot on."""
    for name, partition in core.state.partitions.items():
        for node in partition.nodes.values():
            core.state.timers.cancel(of_reservation(name, node, core.state.timing))
            node.reserved_ms = 0
        for application in partition.applications.values():
            application.asks_over, application.peak = 0, None
        for allocation in partition.allocations.values():
            allocation.ask_over, allocation.asked_ms = False, 0


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name.partition('.')[0]}")
async def test_what_was_recorded_means_the_same(path: Path) -> None:
    recording = Recording.read(path)
    half, end = sorted(recording.snapshots)
    replayed = await started(recording, None)
    assert digest((await started(recording, half)).state) == digest(replayed.state)
    assert digest((await started(recording, end)).state) == digest(replayed.state)
    assert replayed.state.inbox_seq == replayed.state.request_seq > 0
    recorded = snapshot_pb2.Snapshot.FromString(recording.snapshots[end])
    pieces = snapshot_format.write(RM, snapshot_format.read(RM, recording.snapshots[end])[0], save(replayed.state))
    now = snapshot_pb2.Snapshot.FromString(b"".join(pieces))
    for kind, records in by_kind(recorded).items():
        same = by_kind(now)[kind]
        if kind == "timer":  # earlier versions kept those that mean nothing any more
            records = [r for r in records if subject_of(replayed.state, timer(r)) is not None]
        assert len(records) == len(same)
        for was, is_now in zip(records, same, strict=True):
            holds(was, is_now, kind)


def by_kind(snapshot: snapshot_pb2.Snapshot) -> dict[str, list[Message]]:
    found: defaultdict[str, list[Message]] = defaultdict(list)
    for record in snapshot.records:
        kind = record.WhichOneof("record")
        assert kind is not None
        found[kind].append(getattr(record, kind))
    return found


def in_order(refusal: Any) -> tuple[object, ...]:
    amounts = sorted((name, quantity.value) for name, quantity in refusal.resource.resources.items())
    return refusal.at_ms, refusal.priority, refusal.required_node, amounts


def timer(record: Message) -> Timer:
    return Timer(*(getattr(record, name) for name in Timer._fields))


def holds(was: Message, is_now: Message, where: str) -> None:
    """All that was said is still said; what is said besides is new."""
    for field, value in was.ListFields():
        now, there = getattr(is_now, field.name), f"{where}.{field.name}"
        if field.name in ("ask_over", "asked_ms", "peak", "reserved_ms"):  # see forget_what_snapshots_lacked
            continue
        if isinstance(value, Message):
            holds(value, now, there)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            assert len(now) == len(value), there
            if field.name == "refusals":  # version 0.1.0 kept them in another order than that of time
                value, now = (sorted(refusals, key=in_order) for refusals in (value, now))
            for one, other in zip(value, now, strict=True):
                holds(one, other, there)
        else:
            assert now == value, f"{there}: {now}, was {value}"


def test_recordings_of_this_version_have_everything() -> None:
    """Where this fails, something has been added that no recording has: `python -m tests.replay.recording`."""
    assert not (BY_FACT.keys() | RESTORERS.keys()) - recorded()
