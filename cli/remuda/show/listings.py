"""`remuda applications`, `nodes`, `usage`: tables of a resource manager's objects."""

from __future__ import annotations

import json
from itertools import compress
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_bus.queries.core import pages_of
from remuda_bus.queries.rows import PageToken

from ..client.connections import bus_at
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import amount, amounts, number, ordered

Row = dict[str, Any]


class Rows(msgspec.Struct):
    """A page of any of these queries. The query determines which list is filled."""

    applications: list[Row] = []
    rejections: list[Row] = []
    nodes: list[Row] = []
    usage: list[Row] = []
    next: PageToken | None = None


def applications(url: str, rm: str, queue: str | None, as_json: bool) -> None:
    """Rejected applications come last."""
    which = {"queue": queue} if queue is not None else {}

    async def ask(bus: Bus) -> list[Row]:
        found = [row async for page in pages_of(bus, "applications", Rows, rm=rm, **which) for row in page.applications]
        if queue is None:
            found += [row async for page in pages_of(bus, "rejections", Rows, rm=rm) for row in page.rejections]
        return found

    columns = ("application", "state", "queue", "user", "allocated", "waiting", "allocations")
    _show(url, ask, as_json, columns, _application)


def _application(row: Row) -> list[str]:
    return [
        row["id"], row["state"], row["queue"], row["user"], amounts(row.get("allocated", {})),
        number(row.get("asks", 0)), number(row.get("allocations", 0)),
    ]  # fmt: skip


def nodes(url: str, rm: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[Row]:
        return [row async for page in pages_of(bus, "nodes", Rows, rm=rm) for row in page.nodes]

    _show(url, ask, as_json, ("node", "status", "used", "reserved for", "allocations"), _node)


def _node(row: Row) -> list[str]:
    used = [
        f"{name} {amount(name, row['allocated'].get(name, 0))} of {amount(name, row['capacity'][name])}"
        for name in ordered(row["capacity"])
    ]
    kept = row.get("reserved_for")
    reserved = f"{kept['application']}/{kept['key']}" if kept else ""
    return [row["id"], row["status"], ", ".join(used), reserved, number(row["allocations"])]


def usage(url: str, rm: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[Row]:
        return [row async for page in pages_of(bus, "usage", Rows, rm=rm) for row in page.usage]

    _show(url, ask, as_json, ("who", "queue", "used", "may use", "running", "may run"), _usage)


def _usage(row: Row) -> list[str]:
    who = f"user {row['user']}" if "user" in row else f"group {row['group']}"
    most = number(row["max_applications"]) if row["max_applications"] else "-"
    return [
        who, row["queue"], amounts(row["used"]), amounts(row["max"]), number(row["running_applications"]), most,
    ]  # fmt: skip


def _show(url: str, ask: Any, as_json: bool, columns: tuple[str, ...], cells: Any) -> None:
    async def look() -> list[Row]:
        async with bus_at(url) as bus:
            return list(await ask(bus))

    found = event_loop.run(look)
    if as_json:
        print(json.dumps(found))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    several = len({row["partition"] for row in found}) > 1
    rows = [[row["partition"], *cells(row)] for row in found]
    shown = [any(texts) for texts in zip(*rows, strict=True)]  # no column without content
    shown[:1] = [several]
    for name in compress(("partition", *columns), shown):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, compress(row, shown)))
    console.print(table if found else Text("none", style="dim"))
