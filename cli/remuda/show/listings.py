"""`remuda applications`, `nodes`, `usage`: tables of a resource manager's objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import compress
from typing import Any

import msgspec
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.rows import Application, Node, Rejection, Rows, Usage, Window

from .. import limits
from ..client.connections import answered
from ..errors import UserError
from ..terminal.devices import drawn_all
from ..terminal.output import Unbroken, console, is_wide, table_of, unbroken
from ..terminal.units import amount, amounts, number, ordered, time_of
from .fair_shares import owes, past_share
from .ledger import USED_SINCE, hours_of, with_past

Row = dict[str, Any]
# Columns with lists of amounts.
_AMOUNTS = frozenset({"used", "allocated", "may use", "pending", "available", "owes", "mean use"})
# Columns that are left out first where a terminal is too narrow for all.
_LESS_IMPORTANT = ("allocations", "user", "reserved for")


def applications(url: str, rm: str, queue: str | None, as_json: bool) -> None:
    """Rejected applications come last. Raises UserError for a queue that does not exist."""
    which = {"queue": queue.lower()} if queue is not None else {}

    async def ask(bus: Bus) -> list[Row]:
        found = [row async for page in pages_of(bus, "applications", Rows, rm=rm, **which) for row in page.applications]
        if queue is None:
            found += [row async for page in pages_of(bus, "rejections", Rows, rm=rm) for row in page.rejections]
        elif not found:
            await _check_queue(bus, rm, queue)
        return found

    columns = ("application", "state", "queue", "user", "allocated", "waiting", "allocations")
    _show(url, ask, as_json, columns, _application, ("pending", "groups", "submitted", "since", "reason"), _more_of_one)


async def _check_queue(bus: Bus, rm: str, queue: str) -> None:
    async for page in pages_of(bus, "queues", Rows, rm=rm):
        if any(row["path"] == queue.lower() for row in page.queues):
            return
    raise UserError(f"queue {queue!r} does not exist in {rm}; `remuda queues {rm}` shows those that do")


def _application(row: Row) -> list[str]:
    """A rejected application has used nothing."""
    one = msgspec.convert(row, Application)
    used = amounts(one.allocated)
    return [one.id, one.state, one.queue, one.user, used, number(one.asks), number(one.allocations)]


def _more_of_one(row: Row) -> list[str]:
    one, reason = msgspec.convert(row, Application), msgspec.convert(row, Rejection).reason
    times = time_of(one.submitted_ms), time_of(one.since_ms)
    return [amounts(one.pending), ", ".join(one.groups), *times, reason]


def nodes(url: str, rm: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[Row]:
        return [row async for page in pages_of(bus, "nodes", Rows, rm=rm) for row in page.nodes]

    _show(
        url,
        ask,
        as_json,
        ("node", "status", "used", "reserved for", "allocations"),
        _node,
        ("devices", "domain", "available", "attributes"),
        _more_of_node,
    )


def _node(row: Row) -> list[str]:
    node = msgspec.convert(row, Node)
    used = [
        f"{name} {amount(name, node.allocated.get(name, 0))} of {amount(name, node.capacity[name])}"
        for name in ordered(node.capacity)
    ]
    kept = node.reserved_for
    reserved = f"{kept.application}/{kept.key}" if kept else ""
    return [node.id, _status(node), ", ".join(used), reserved, number(node.allocations)]


def _status(node: Node) -> str:
    leaving, status = node.leaving, node.status
    if node.windows:
        status += f", in window {', '.join(node.windows)}"
    if leaving is None:
        return status
    if leaving.window:
        return f"{status}, drained from {time_of(leaving.at_ms)} on, by window {leaving.window}"
    who = f" ({leaving.operator}{f': {leaving.reason}' if leaving.reason else ''})" if leaving.operator else ""
    return f"{status}, drained from {time_of(leaving.at_ms)} on{who}"


def windows(url: str, rm: str, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[Row]:
        return [row async for page in pages_of(bus, "windows", Rows, rm=rm) for row in page.windows]

    columns = ("window", "what", "state", "from", "until", "nodes", "running there")
    _show(url, ask, as_json, columns, _window, ("in force from", "partition"), _more_of_window)


def _window(row: Row) -> list[str]:
    window = msgspec.convert(row, Window)
    what = {"kept": f"kept for {window.queue}", "settings": f"settings of {', '.join(window.queues)}"}
    state = "open" if window.open else "ahead" if window.until_ms else "over"
    if window.weekly:
        state += ", weekly"
    times = [time_of(at_ms) if window.until_ms else "" for at_ms in (window.from_ms, window.until_ms)]
    of_nodes = ["", ""] if window.kind == "settings" else [number(window.nodes), number(window.running)]
    return [window.name, what.get(window.kind, window.kind), state, *times, *of_nodes]


def _more_of_window(row: Row) -> list[str]:
    window = msgspec.convert(row, Window)
    return [time_of(window.opens_ms) if window.until_ms else "", window.partition]


def _more_of_node(row: Row) -> list[str]:
    node = msgspec.convert(row, Node)
    attributes = ", ".join(f"{name}={value}" for name, value in node.attributes.items())
    return [drawn_all(node.devices), "/".join(node.domain), amounts(node.available), attributes]


def usage(url: str, rm: str, since: str | None, as_json: bool) -> None:
    async def ask(bus: Bus) -> list[Row]:
        found = [row async for page in pages_of(bus, "usage", Rows, rm=rm) for row in page.usage]
        return found if since is None else await with_past(bus, rm, since, found)

    columns = ("who", "queue", "used", "may use", "running", "may run", "past of due", "owes")
    if since is None:
        _show(url, ask, as_json, columns, _usage, ("mean use",), _more_of_usage)
    else:
        of_past = (*columns, f"since {since}")
        _show(url, ask, as_json, of_past, _usage_since, ("mean use",), _more_of_usage)


def _usage_since(row: Row) -> list[str]:
    return [*_usage(row), hours_of(row[USED_SINCE])]


def _usage(row: Row) -> list[str]:
    one = msgspec.convert(row, Usage)
    who = f"user {one.user}" if one.user else f"group {one.group}"
    most = number(one.max_applications) if one.max_applications else "-"
    share, debt = (past_share(one.fair_share), owes(one.fair_share)) if one.fair_share is not None else ("", "")
    return [who, one.queue, amounts(one.used), amounts(one.max), number(one.running_applications), most, share, debt]


def _more_of_usage(row: Row) -> list[str]:
    share = msgspec.convert(row, Usage).fair_share
    return [amounts(share.mean) if share is not None else ""]


def _show(
    url: str, ask: Any, as_json: bool, columns: tuple[str, ...], cells: Any, more: tuple[str, ...] = (),
    more_cells: Any = None,
) -> None:  # fmt: skip
    """`more`, `more_cells`: what only a wide table has."""
    found = answered(url, ask)
    if as_json:
        print(json.dumps(found))
        return
    several = len({row["partition"] for row in found}) > 1
    rows = [[row["partition"], *cells(row)] for row in found]
    if is_wide() and more_cells is not None:
        columns = (*columns, *more)
        rows = [[*row, *more_cells(one)] for row, one in zip(rows, found, strict=True)]
    shown = [any(texts) for texts in zip(*rows, strict=True)]  # no column without content
    shown[:1] = [several]
    table = _table(("partition", *columns), rows, shown)
    for name in _LESS_IMPORTANT:
        if Measurement.get(console, console.options.update(width=limits.WIDE_COLUMNS), table).maximum > console.width:
            shown = [one and name != column for one, column in zip(shown, ("partition", *columns), strict=True)]
            table = _table(("partition", *columns), rows, shown)
    console.print(Unbroken(table) if found else Text("none", style="dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[bool]) -> Table:
    table = table_of(*compress(columns, shown))
    for row in rows:
        texts = (unbroken(text) if name in _AMOUNTS else text for name, text in zip(columns, row, strict=True))
        table.add_row(*map(Text, compress(texts, shown)))
    return table
