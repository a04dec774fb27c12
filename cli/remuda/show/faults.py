"""Faults on record, as `remuda status` and `remuda resume` show them."""

from __future__ import annotations

import time
from typing import Any

from rich.text import Text

from remuda_bus import subjects
from remuda_replication.rms.faults import AUDIT, KILLED

from .. import limits
from ..terminal.units import time_of


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
    when = time_of(fault["at_ms"])
    if fault["stream"] == AUDIT:
        wrong = f"the state is wrong: {fault['error']}"
        return f"{fault['rm_id']} at commit {fault['seq']}, {when}: {wrong} (in {fault['by']})"
    behind = "behind " if fault["stream"] == KILLED else ""
    stream = subjects.INBOX.name if fault["stream"] == KILLED else fault["stream"]
    return f"{fault['rm_id']} {behind}message {fault['seq']} of {stream}, {when}: {fault['error']} (in {fault['by']})"
