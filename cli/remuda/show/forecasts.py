"""`remuda eta`: when waiting asks will start. `remuda promises`: when reserved asks start at the latest."""

from __future__ import annotations

import time

import msgspec
from rich.table import Table

from remuda_operations.queries import core as queries
from remuda_operations.queries.forecasts import held, span, starts
from remuda_operations.queries.rows import Forecasts, Node

from ..client.connections import answered
from ..terminal.output import console, queue_in, table_of
from ..terminal.units import number, time_of


def eta(url: str, rm: str, application: str | None, key: str | None, as_json: bool) -> None:
    found = answered(url, lambda bus: queries.eta(bus, rm, application or "", key or ""))
    if as_json:
        print(msgspec.json.encode(found).decode())
    elif not found.forecasts:
        console.print(f"{rm}: no ask waits", markup=False)
    else:
        console.print(table(found, time.time() * 1_000))
        console.print(held(found.held, found.of), style="dim", markup=False)


def table(found: Forecasts, now_ms: float) -> Table:
    rows = (
        (
            f"{one.application}/{one.key}", *starts(one, now_ms),
            f"{number(one.position)} in {queue_in(one.partition, one.queue)}",
        )
        for one in found.forecasts
    )  # fmt: skip
    return table_of("ask", "starts", "80 %", "position", rows=rows)


def promises(url: str, rm: str, as_json: bool) -> None:
    found = answered(url, lambda bus: queries.nodes(bus, rm))
    nodes = [node for partition in found.partitions for node in partition.nodes if node.reserved_for is not None]
    if as_json:
        print(msgspec.json.encode([row(node) for node in nodes]).decode())
    elif not nodes:
        console.print(f"{rm}: no node is reserved", markup=False)
    else:
        console.print(promises_table(nodes, time.time() * 1_000))


def row(node: Node) -> dict[str, object]:
    promise = msgspec.to_builtins(node.promise) if node.promise is not None else None
    asked = msgspec.to_builtins(node.reserved_for)
    return {"partition": node.partition, "node": node.id, "reserved_for": asked, "promise": promise}


def promises_table(nodes: list[Node], now_ms: float) -> Table:
    columns = ("node", "reserved for", "starts by", "promised first", "why it changed")
    return table_of(*columns, rows=(_promised(node, now_ms) for node in nodes))


def _promised(node: Node, now_ms: float) -> list[str]:
    asked, promise = node.reserved_for, node.promise
    assert asked is not None, "only reserved nodes are shown"
    cells = [node.id, f"{asked.application}/{asked.key}"]
    if promise is None:
        return [*cells, "-", "-", "nothing is promised: what is in the way has no bound"]
    left_ms = promise.promised_ms - now_ms
    when = f"in {span(left_ms)}" if left_ms > 0 else f"{span(-left_ms)} late"
    return [*cells, when, time_of(promise.first_ms), promise.cause or "-"]
