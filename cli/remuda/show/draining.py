"""`remuda queues RM --draining`: the draining queues of a resource manager, and who has to act."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_operations.queries.core import pages_of
from remuda_operations.queries.rows import Draining, DrainingApplication, Queue, Rows

from ..client import past
from ..client.connections import bus_at
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import amounts, number

Row = dict[str, Any]


def draining(url: str, rm: str, as_json: bool) -> None:
    found = event_loop.run(lambda: _query(url, rm))
    if as_json:
        print(json.dumps(found))
    elif found:
        console.print(table(found, past.now_ms()))
    else:
        console.print(f"{rm}: no queue is draining", markup=False)


async def _query(url: str, rm: str) -> list[Row]:
    async with bus_at(url) as bus:
        return [row async for page in pages_of(bus, "queues", Rows, rm=rm, draining=True) for row in page.queues]


def table(rows: list[Row], now_ms: float) -> Table:
    """A row for each queue: how long it has been draining, its applications with their users, what they use, and the
    access lists of its administrators."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("queue", "draining for", "applications", "used", "administrators"):
        shown.add_column(name, overflow="fold")
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
