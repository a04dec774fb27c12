"""`remuda queues RM`: the queue trees of a resource manager, one per partition."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.text import Text

from remuda_operations.queries import core as queries
from remuda_operations.queries.forecasts import span
from remuda_operations.queries.rows import PartitionTree, QueueTree

from ..client.connections import answered
from ..terminal.output import Unbroken, console, unbroken
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
    """The queues that operators hold, those that are above their maximum and have to give that back, and what queues
    have used in the past."""
    if queue.held is not None:
        reason = f": {queue.held.reason}" if queue.held.reason else ""
        yield f"{queue.path} is held by {queue.held.operator} since {time_of(queue.held.since_ms)}{reason}"
    if queue.excess is not None:
        since, then = time_of(queue.excess.since_ms), time_of(queue.excess.preempt_at_ms)
        over = amounts(queue.excess.above)
        yield f"{queue.path} is {over} above its maximum since {since}; preempted at {then}"
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
