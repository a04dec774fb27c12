"""`remuda queues RM`: the queue trees of a resource manager, one per partition."""

from __future__ import annotations

import msgspec
from rich.text import Text

from remuda_bus.queries import core as queries
from remuda_bus.queries.rows import Partition, Queues

from ..client.connections import bus_at
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import amount, number, ordered
from .queue_tree import tree


def queues(url: str, rm: str, as_json: bool) -> None:
    found = event_loop.run(lambda: _query(url, rm))
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for partition in found.partitions:
        console.print(_heading(partition))
        console.print(tree(partition, console.width))


async def _query(url: str, rm: str) -> Queues:
    async with bus_at(url) as bus:
        return await queries.queues(bus, rm)


def _heading(partition: Partition) -> Text:
    used = [
        f"{name} {amount(name, partition.allocated.get(name, 0))} of {amount(name, partition.total[name])}"
        for name in ordered(partition.total)
    ]
    nodes = f"{number(partition.nodes)} node{'s' if partition.nodes != 1 else ''}"
    return Text.assemble((f"partition {partition.name}", "bold"), f"   {', '.join([nodes, *used])}")
