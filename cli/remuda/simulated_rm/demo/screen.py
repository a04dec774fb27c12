"""The screen of `remuda demo`. Pure: turns a view into something rich can print, for any size of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...show.node_blocks import HEIGHTS, cut, node_grid, node_line
from ...show.queue_tree import tree
from ...terminal.units import duration, number
from .watch import View

WIDE = 120  # columns: from here on, two columns
STATES = {"ready": "green", "starting": "yellow", "restarting": "bold red", "stopping": "yellow", "stopped": "dim"}


def screen(view: View, width: int, height: int) -> RenderableType:
    """Returns the screen, of at most `height` - 1 rows."""
    head = _head(view, width)
    if not view.queues:
        return Group(*head, Text(), _processes(view))
    rows = height - 1 - len(head) - 1
    if width >= WIDE:
        return Group(*head, Text(), _wide(view, width, rows))
    return Group(*head, Text(), *_narrow(view, width, rows))


def _narrow(view: View, width: int, rows: int) -> list[RenderableType]:
    """Trees first, then one line of nodes per RM, what is left for the latest decisions."""
    parts, used = _trees(view, width, rows - len(view.nodes) - 3)
    parts += [node_line(rm, nodes, width) for rm, nodes in view.nodes.items()]
    used += len(view.nodes)
    return [*parts, *_decisions(view, width, rows - used)]


def _wide(view: View, width: int, rows: int) -> RenderableType:
    left_width = width * 3 // 5
    right_width = width - left_width - 3
    left, used = _trees(view, left_width, rows * 2 // 3)
    left += [Text(), *_decisions(view, left_width, rows - used - 1)]
    right: list[RenderableType] = [Text("placed per second", style="bold"), *_rates(view.rates, right_width, 8), Text()]
    for rm, nodes in view.nodes.items():
        right += [*node_grid(rm, nodes, right_width), Text()]
    right.append(_processes(view))
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(width=left_width)
    grid.add_column(width=right_width)
    grid.add_row(Group(*left), Group(*right))
    return grid


def _head(view: View, width: int) -> list[Text]:
    look = [cut(Text(f"in another terminal: {view.look}", style="dim"), width)] if view.page and view.look else []
    return [cut(_title(view, width), width), *look, cut(_counts(view, width), width)]


def _title(view: View, width: int) -> Text:
    if view.page:
        return Text.assemble(("remuda demo", "bold"), f"  {view.page}", ("  Ctrl-C stops", "dim"))
    share = min(1.0, view.elapsed / view.seconds) if view.seconds else 1.0
    clock = f"{view.elapsed:4.1f} of {view.seconds:.0f} s"
    bar_width = max(8, width - len("remuda demo") - len(view.phase) - len(clock) - 6)
    done = round(share * bar_width)
    return Text.assemble(
        ("remuda demo", "bold"), "  ", (view.phase, "dim"), "  ", ("━" * done, "cyan"),
        ("━" * (bar_width - done), "grey23"), "  ", (clock, "dim"),
    )  # fmt: skip


def _counts(view: View, width: int) -> Text:
    rate = view.rates[-1] if view.rates else 0.0
    parts: list[tuple[str, str]] = [
        ("placed ", "dim"), (f"{view.placed:,}", "bold green"), ("  per s ", "dim"), (number(round(rate)), "bold"),
        ("  waiting ", "dim"), (f"{view.waiting:,}", "yellow"),
        ("  rejected ", "dim"), (str(view.rejected), "red" if view.rejected else ""),
    ]  # fmt: skip
    text = Text.assemble(*parts)
    for name, value in (
        ("round trip p99", duration(view.p99_ms)),
        ("p50", duration(view.p50_ms)),
        ("released", f"{view.released:,}"),
    ):
        if text.cell_len + len(name) + len(value) + 3 <= width:
            text.append_text(Text.assemble((f"  {name} ", "dim"), value))
    return text


def _trees(view: View, width: int, rows: int) -> tuple[list[RenderableType], int]:
    """Each RM's tree with one line above it, and how many rows that takes."""
    parts: list[RenderableType] = []
    used = 0
    per_rm = max(4, rows // max(1, len(view.queues)))
    for rm, found in view.queues.items():
        for partition in found.partitions:
            table = tree(partition, width, max(2, per_rm - 2) if len(view.queues) > 1 else rows - 2, title=rm)
            parts.append(table)
            used += table.row_count + 1
    return parts, used


def _rates(rates: Iterable[float], width: int, height: int) -> list[Text]:
    """A bar chart of the latest values that fit, two cells each where there is room; the scale stands at the left."""
    values = list(rates)
    scale = max([*values, 1.0])
    label = max(len(number(round(scale))), 3)
    cell = 2 if len(values) * 2 <= width - label - 2 else 1
    values = values[-((width - label - 2) // cell) :]
    lines = []
    for row in range(height, 0, -1):
        axis = number(round(scale)) if row == height else "0" if row == 1 else ""
        line = Text(f"{axis:>{label}} ", style="dim")
        for value in values:
            eighths = round(value / scale * height * 8) - (row - 1) * 8
            line.append(HEIGHTS[max(0, min(8, eighths))] * cell, "green")
        lines.append(line)
    return lines


def _decisions(view: View, width: int, rows: int) -> list[RenderableType]:
    """The latest of each RM, newest last."""
    if rows < 2:
        return []
    lines: list[RenderableType] = [Text("latest decisions", style="bold")]
    for rm, style, text in _pick(view.decisions, rows - 1):
        lines.append(cut(Text.assemble((f"{rm:<5}", "dim"), (text[:8], style), text[8:]), width))
    return lines


def _pick(decisions: Sequence[tuple[str, str, str]], count: int) -> list[tuple[str, str, str]]:
    """Fairly between the RMs, and at least a third for what is not just placed."""
    rare = [decision for decision in decisions if decision[1] in ("red", "yellow")]
    rare = rare[-max(1, count // 3) :] if rare else []
    common = [decision for decision in decisions if decision[1] not in ("red", "yellow")]
    by_rm = {rm: [d for d in common if d[0] == rm] for rm in dict.fromkeys(d[0] for d in common)}
    turns = [d for turn in zip_longest(*(reversed(found) for found in by_rm.values())) for d in turn if d is not None]
    return [*reversed(turns[: count - len(rare)]), *rare]


def _processes(view: View) -> Text:
    text = Text("processes  ", style="bold")
    for name, state, restarts in view.processes:
        text.append(f"{name} ", STATES.get(state, ""))
        text.append(f"{state}{f' ({restarts} restarts)' if restarts else ''}   ", "dim")
    return text
