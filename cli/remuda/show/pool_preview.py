"""`remuda pool preview`: what a text that describes all pools of Peloton's resource manager would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from ..terminal.output import console, table_of
from .peloton import KINDS, figure

Row = dict[str, Any]
STYLES = {"created": "green", "changed": "yellow", "deleted": "red"}


def show(found: Row, file: str) -> None:
    if not found["changes"]:
        console.print(f"{file}: nothing to change", markup=False, soft_wrap=True)
        return
    console.print(_titled("pools that change", file), soft_wrap=True)
    for row in found["changes"]:
        console.print(
            Text.assemble("  ", (f"{row['change']:<8}", STYLES[row["change"]]), " ", row["path"]), soft_wrap=True
        )
        for one in row["fields"]:
            console.print(Text(f"    {one['field']}: {_change(row, one)}"), soft_wrap=True)
    _more(found["more_changes"])
    if not found["effects"]:
        console.print("\nno entitlement changes", soft_wrap=True)
        return
    console.print(_titled("\nentitlements", "with what tasks hold and want now"))
    over = ("held above it", "tasks above it") if any(row["over"] for row in found["effects"]) else ()
    figures = ("before", "after", *over)
    rows = (cells[: 4 + len(over)] for row in found["effects"] for cells in _lines(row))
    console.print(table_of("pool", "kind", *figures, rows=rows, numbers=figures, left=2))
    _more(found["more_effects"])
    for row in found["effects"]:
        if row["tasks"]:
            first, more = ", ".join(row["first_tasks"]), row["tasks"] - len(row["first_tasks"])
            text = f"to be preempted in {row['path']}: {first}{f' and {more} more' if more else ''}"
            console.print(Text(text), soft_wrap=True)


def _change(row: Row, one: Row) -> str:
    return _value(one["after"]) if row["change"] == "created" else f"{_value(one['before'])} → {_value(one['after'])}"


def _lines(row: Row) -> Iterator[list[str]]:
    """One line for each kind in which something changes, or is above."""
    first = True
    for name, before, after in (("", row["before"], row["after"]), ("slack ", row["slack_before"], row["slack_after"])):
        for kind in KINDS:
            over = row["over"].get(kind, 0.0) if not name else 0.0
            if before[kind] == after[kind] and not over:
                continue
            tasks = f"{row['tasks']:,}" if first and row["tasks"] else ""
            cells = [name + kind, figure(before[kind]), figure(after[kind]), figure(over) if over else "", tasks]
            yield [row["path"] if first else "", *cells]
            first = False


def _value(value: Any) -> str:
    if value is None or value == "" or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(value)
    return figure(value) if isinstance(value, float | int) else str(value)


def _titled(title: str, note: str) -> Text:
    return Text.assemble((title, "bold"), (f"  {note}", "dim"))


def _more(count: int) -> None:
    if count:
        console.print(Text(f"  and {count:,} more", style="dim"))
