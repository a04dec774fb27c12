"""The configuration file, as `remuda status` shows it: only when it is refused, or a change is staged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError

from .. import limits
from ..terminal.units import duration


async def read(bus: Bus) -> dict[str, Any] | None:
    """`path`, `checksum`, `revision` and `problems` of the file. None without a file or without a config service."""
    try:
        answer = await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=limits.CONFIGURATION_ANSWERS_WITHIN_S)
        found: dict[str, Any] | None = json.loads(answer.payload)["file"]
    except (BusError, ValueError, KeyError, TypeError):
        return None
    return found


def lines(found: Mapping[str, Any] | None) -> Iterator[Text]:
    if found:
        yield from _staged(found)
    if not found or not found["problems"]:
        return
    problems = found["problems"]
    keeps = f"revision {found['revision']} stays active" if found["revision"] else "no configuration is active"
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
    yield Text(f"configuration {found['path']} is REFUSED ({count}); {keeps}", style="bold red")
    for problem in problems[: limits.PROBLEMS_SHOWN]:
        where = f"line {problem['line']}, " if problem["line"] else ""
        yield Text(f"  {where}{problem['path'] + ': ' if problem['path'] else ''}{problem['message']}", style="red")
    yield Text(f"  `remuda config check {found['path']}` lists all", style="red")


def _staged(found: Mapping[str, Any]) -> Iterator[Text]:
    version = found.get("version") or {}
    if not version.get("until_ms") or version.get("confirmed_at_ms"):
        return
    left_ms = max(0, version["until_ms"] - time.time_ns() // 1_000_000)
    by = f" by {version['by']}" if version.get("by") else ""
    back = f"rolled back to version {version['falls_back_to']} in {duration(left_ms)}"
    yield Text(f"configuration version {version['number']}{by} is staged: {back} unless confirmed", style="yellow")
    yield Text("  `remuda config confirm` keeps it", style="yellow")
