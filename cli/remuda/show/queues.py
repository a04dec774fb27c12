"""`remuda queues RM`: the queue trees of a resource manager, one per partition; with `--draining`, the queues that
drain, and who has to act."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.queries import core as queries
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.forecasts import span
from remuda_operations.queries.rows import Draining, DrainingApplication, PartitionTree, Queue, QueueTree, Rows

from ..client import past
from ..client.connections import answered
from ..terminal.output import Unbroken, console, queue_in, table_of, unbroken
from ..terminal.units import amounts, number, shares, time_of
from .fair_shares import owes, past_share
from .queue_tree import tree


def queues(url: str, rm: str, as_json: bool) -> None:
    found = answered(url, lambda bus: queries.queues(bus, rm))
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for partition in found.partitions:
        console.print(Unbroken(_heading(partition)))
        console.print(tree(partition, console.width))
        for line in _notes(partition.queues):
            console.print(line, markup=False)


def _notes(queue: QueueTree) -> Iterator[str]:
    """The queues that operators hold, those that are above their maximum and have to give that back, those that
    lend, and those whose use in the past counts."""
    if queue.held is not None:
        reason = f": {queue.held.reason}" if queue.held.reason else ""
        yield f"{queue.path} is held by {queue.held.operator} since {time_of(queue.held.since_ms)}{reason}"
    if queue.excess is not None:
        since, then = time_of(queue.excess.since_ms), time_of(queue.excess.preempt_at_ms)
        over = amounts(queue.excess.above)
        yield f"{queue.path} is {over} above its maximum since {since}; preempted at {then}"
    for loan in queue.loans:
        if loan.lends:
            what = "guarantee" if loan.guaranteed else "maximum"
            reason = f": {loan.reason}" if loan.reason else ""
            until = f"until {time_of(loan.until_ms)}, by {loan.operator}{reason}"
            yield f"{queue.path} lends {amounts(loan.amounts)} of its {what} to {loan.queue} {until}"
    if queue.fair_share is not None and queue.fair_share.resource:
        share = queue.fair_share
        after = f"by a half-life of {span(share.half_life_ms)}"
        yield f"{queue.path} has used {past_share(share)} of {share.resource} {after}; owes {owes(share)}"
    for child in queue.children:
        yield from _notes(child)


def _heading(partition: PartitionTree) -> Text:
    nodes = f"{number(partition.nodes)} node{'s' if partition.nodes != 1 else ''}"
    used = ", ".join([nodes, *shares(partition.allocated, partition.total)])
    return Text.assemble((f"partition {partition.name}", "bold"), f"   {unbroken(used)}")


def draining(url: str, rm: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[dict[str, Any]]:
        return [row async for page in pages_of(bus, "queues", Rows, rm=rm, draining=True) for row in page.queues]

    found = answered(url, ask)
    if as_json:
        print(json.dumps(found))
    elif found:
        console.print(draining_table(found, past.now_ms()))
    else:
        console.print(f"{rm}: no queue is draining", markup=False)


def draining_table(rows: list[dict[str, Any]], now_ms: float) -> Table:
    """A row for each queue: how long it has been draining, its applications with their users, what they use, and the
    access lists of its administrators."""
    columns = ("queue", "draining for", "applications", "used", "administrators")
    return table_of(*columns, rows=(_drains(queue, now_ms) for queue in msgspec.convert(rows, list[Queue])))


def _drains(queue: Queue, now_ms: float) -> list[str]:
    details = queue.draining or Draining()
    return [
        queue_in(queue.partition, queue.path), lasting(now_ms - queue.draining_since_ms),
        _applications(queue.applications, details.applications), amounts(queue.allocated),
        "; ".join(details.admin_acls) or "-",
    ]  # fmt: skip


def _applications(count: int, first: Sequence[DrainingApplication]) -> str:
    named = [f"{one.id} of {one.user}" for one in first]
    if count > len(first):
        named.append(f"{number(count - len(first))} more")
    return ", ".join(named) or "-"


def lasting(ms: float) -> str:
    """Writes a duration in its two largest units: 2 d 3 h, 3 h 5 min, 12 min."""
    minutes = max(0, int(ms // 60_000))
    days, hours = minutes // 1_440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
