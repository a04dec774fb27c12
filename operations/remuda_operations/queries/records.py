"""Records in buckets: resource managers, halts, faults."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus
from remuda_replication.rms.faults import STREAMS, Fault
from remuda_replication.rms.halts import Halt

Row = dict[str, Any]


async def rm_ids(bus: Bus) -> list[str]:
    """The rmIDs of the resource managers on record. Raises Unanswered."""
    return [subjects.rm_of_key(entry.key) for entry in await bus.entries(subjects.RMS.name)]


async def resource_managers(bus: Bus) -> list[Row]:
    """The records of rmproxy, ordered by rmID."""
    return [json.loads(entry.value) for entry in await bus.entries(subjects.RMS.name) if entry.value]


async def halts(bus: Bus) -> list[Row]:
    return [asdict(Halt.decode(entry.value)) for entry in await bus.entries(subjects.HALTS.name) if entry.value]


async def faults(bus: Bus) -> list[Row]:
    """Newest first. The record has the newest fault of each RM and stream."""
    found = [_decoded(entry.key, entry.value) for entry in await bus.entries(subjects.FAULTS.name) if entry.value]
    return sorted(found, key=lambda fault: -fault["at_ms"])


async def faults_of(bus: Bus, rm_id: str) -> list[Row]:
    """The faults of one RM, in the rows of `faults`."""
    kept = [await bus.get(subjects.FAULTS.name, subjects.fault_key(rm_id, stream)) for stream in STREAMS]
    found = [_decoded(entry.key, entry.value) for entry in kept if entry is not None and entry.value]
    return sorted(found, key=lambda fault: -fault["at_ms"])


def _decoded(key: str, value: bytes) -> Row:
    """Decode an entry. An unreadable one becomes a fault that says so."""
    try:
        return asdict(Fault.decode(value))
    except (ValueError, TypeError, KeyError):
        rm, _, stream = key.rpartition(".")
        text = json.dumps(value[: limits.SHOWN_CHARACTERS].decode(errors="replace"))
        return asdict(Fault(subjects.rm_of_key(rm), stream, 0, f"the entry cannot be read: {text}", "", 0))
