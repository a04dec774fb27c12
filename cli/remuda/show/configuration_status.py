"""The configuration file, as `remuda status` shows it: only when it is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError

from .. import limits


async def read(bus: Bus) -> dict[str, Any] | None:
    """`path`, `checksum`, `revision` and `problems` of the file. None without a file or without a config service."""
    try:
        answer = await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=limits.CONFIGURATION_ANSWERS_WITHIN_S)
        found: dict[str, Any] | None = json.loads(answer.payload)["file"]
    except (BusError, ValueError, KeyError, TypeError):
        return None
    return found


def lines(found: Mapping[str, Any] | None) -> Iterator[Text]:
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
