"""Faults on record, as `remuda status` and `remuda resume` show them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.queries.bucket_entries import entries
from remuda_bus.rms.faults import KILLED, STREAMS, Fault

from .. import limits


async def faults(bus: Bus) -> list[dict[str, Any]]:
    """Newest first. The record has the newest fault of each RM and stream."""
    found = [_decoded(entry.key, entry.value) for entry in await entries(bus, subjects.FAULTS.name) if entry.value]
    return sorted(found, key=lambda fault: -fault["at_ms"])


async def faults_of(bus: Bus, rm_id: str) -> list[dict[str, Any]]:
    """As `faults`, of one RM."""
    kept = [await bus.get(subjects.FAULTS.name, subjects.fault_key(rm_id, stream)) for stream in STREAMS]
    found = [_decoded(entry.key, entry.value) for entry in kept if entry is not None and entry.value]
    return sorted(found, key=lambda fault: -fault["at_ms"])


def lines(found: list[dict[str, Any]], halted: set[str]) -> list[Text]:
    """Recent faults of RMs that are not halted. A halt shows its own reason."""
    now_ms = time.time() * 1_000
    recent = [
        fault
        for fault in found
        if fault["rm_id"] not in halted and now_ms - fault["at_ms"] < limits.FAULTS_SHOWN_S * 1_000
    ]
    shown = [Text(f"fault: {line(fault)}", style="yellow") for fault in recent[: limits.FAULTS_SHOWN]]
    if len(recent) > len(shown):
        shown.append(Text(f"and {len(recent) - len(shown)} more faults: `remuda status --json`", style="yellow"))
    return shown


def line(fault: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fault["at_ms"] / 1_000))
    behind = "behind " if fault["stream"] == KILLED else ""
    stream = subjects.INBOX.name if fault["stream"] == KILLED else fault["stream"]
    return f"{fault['rm_id']} {behind}message {fault['seq']} of {stream}, {when}: {fault['error']} (in {fault['by']})"


def _decoded(key: str, value: bytes) -> dict[str, Any]:
    """Decode an entry. An unreadable one becomes a fault that says so."""
    try:
        return asdict(Fault.decode(value))
    except (ValueError, TypeError, KeyError):
        rm, _, stream = key.rpartition(".")
        text = json.dumps(value[: limits.SHOWN_NAME_CHARACTERS].decode(errors="replace"))
        return asdict(Fault(subjects.rm_of_key(rm), stream, 0, f"the entry cannot be read: {text}", "", 0))
