"""`remuda queues RM --draining`: the draining queues of a resource manager, and who has to act."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.rows import Draining, DrainingApplication, Queue, Rows

from ..client import past
from ..client.connections import answered
from ..terminal.output import console, table_of
from ..terminal.units import amounts, number

Row = dict[str, Any]


def draining(url: str, rm: str, as_json: bool) -> None:
    found = answered(url, lambda bus: _query(bus, rm))
    if as_json:
        print(json.dumps(found))
    elif found:
        console.print(table(found, past.now_ms()))
    else:
        console.print(f"{rm}: no queue is draining", markup=False)


async def _query(bus: Bus, rm: str) -> list[Row]:
    return [row async for page in pages_of(bus, "queues", Rows, rm=rm, draining=True) for row in page.queues]


def table(rows: list[Row], now_ms: float) -> Table:
    """A row for each queue: how long it has been draining, its applications with their users, what they use, and the
    access lists of its administrators."""
    shown = table_of("queue", "draining for", "applications", "used", "administrators")
    for queue in msgspec.convert(rows, list[Queue]):
        details = queue.draining or Draining()
        cells = (
            queue.path if queue.partition == "default" else f"{queue.partition}: {queue.path}",
            lasting(now_ms - queue.draining_since_ms),
            _applications(queue.applications, details.applications),
            amounts(queue.allocated),
            "; ".join(details.admin_acls) or "-",
        )
        shown.add_row(*map(Text, cells))
    return shown


def _applications(count: int, first: Sequence[DrainingApplication]) -> str:
    named = [f"{one.id} of {one.user}" for one in first]
    if count > len(first):
        named.append(f"{number(count - len(first))} more")
    return ", ".join(named) or "-"


def lasting(ms: float) -> str:
    """In the two largest units: 2 d 3 h, 3 h 5 min, 12 min."""
    minutes = max(0, int(ms // 60_000))
    days, hours = minutes // 1_440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
