"""RMs that are halted, as `remuda status` shows them."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.halts import Halt, what_to_do

from .entries import entries


async def halts(bus: Bus) -> list[dict[str, Any]]:
    return [asdict(Halt.decode(entry.value)) for entry in await entries(bus, subjects.HALTS.name) if entry.value]


def alarm(halt: dict[str, Any]) -> Text:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(halt["at_ms"] / 1_000))
    return Text.assemble(
        (f"{halt['rm_id']} is HALTED since {when}: {halt['reason']} (noticed by {halt['by']})\n", "bold red"),
        ("  nothing is decided for it. To begin anew with what it reports: ", "red"),
        (what_to_do(halt["rm_id"]), "bold"),
    )
