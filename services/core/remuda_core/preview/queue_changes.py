"""Which queues and partitions a configuration adds, changes, drains, restores and removes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ..decide.names import plain
from ..settings import PartitionSettings, QueueSettings, Settings
from ..state import Partition, Queue, State

Row = dict[str, object]


class _Queue(NamedTuple):
    leaf: bool
    managed: bool
    draining: bool
    settings: QueueSettings


class _Partition(NamedTuple):
    draining: bool
    settings: PartitionSettings


class Snapshot(NamedTuple):
    """The settings of all queues, by partition and path, and of all partitions. Values that never change."""

    partitions: Mapping[str, _Partition]
    queues: Mapping[tuple[str, str], _Queue]


def taken(state: State) -> Snapshot:
    return Snapshot(
        {name: _Partition(one.draining, one.settings) for name, one in state.partitions.items()},
        {
            (name, path): _Queue(queue.leaf, queue.managed, queue.draining, queue.settings)
            for name, one in state.partitions.items()
            for path, queue in one.queues.items()
        },
    )


def partition_changes(before: Snapshot, state: State) -> list[Row]:
    """A row for each partition with a change: its name, the change, and the changed fields."""
    rows: list[Row] = []
    for name, partition in state.partitions.items():
        was = before.partitions.get(name)
        head: Row = {"partition": plain(name)}
        if was is None:
            rows.append({**head, "change": "added", "fields": {}})
        elif partition.draining and not was.draining:
            rows.append({**head, "change": "draining", "fields": {}})
        elif was.draining and not partition.draining:
            rows.append({**head, "change": "restored", "fields": _fields(was.settings, partition.settings)})
        elif fields := _fields(was.settings, partition.settings):
            rows.append({**head, "change": "changed", "fields": fields})
    return rows


def queue_changes(before: Snapshot, state: State) -> list[Row]:
    """A row for each queue with a change: `added`, `changed`, `restored`, `draining` (removed when it is empty) or
    `removed` (it is empty already). Changed fields have their values before and after."""
    return [
        {"partition": plain(partition.name), "queue": path, "change": change, "fields": fields}
        for partition in state.partitions.values()
        for path, queue in partition.queues.items()
        for change, fields in (_change(before, partition, queue),)
        if change
    ]


def _change(before: Snapshot, partition: Partition, queue: Queue) -> tuple[str, Row]:
    was = before.queues.get((partition.name, queue.path))
    if was is None:
        return "added", {}
    if queue.draining and not was.draining:
        return "draining" if any(below.applications for below in queue.below()) else "removed", {}
    fields = _fields(was.settings, queue.settings)
    for name, then, now in (("leaf", was.leaf, queue.leaf), ("managed", was.managed, queue.managed)):
        if then != now:
            fields[name] = {"before": then, "after": now}
    if was.draining and not queue.draining:
        return "restored", fields
    return ("changed", fields) if fields else ("", {})


# Their queues are compared one by one; the root queue of a partition is a queue.
_ELSEWHERE = ("queues", "root", "name", "parent")


def _fields(was: Settings, now: Settings) -> Row:
    if was is now:
        return {}
    return {
        name: {"before": msgspec.to_builtins(then), "after": msgspec.to_builtins(value)}
        for name in now.__struct_fields__
        if name not in _ELSEWHERE and (then := getattr(was, name)) != (value := getattr(now, name))
    }
