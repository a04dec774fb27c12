"""The report of a load: figures as a value and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
from rich.table import Table
from rich.text import Text

from ...terminal.units import duration, number
from ..rm_state import RmState, percentile
from .workload import Workload

MOST_REASONS = 8  # lines of each kind in the terminal; the JSON has all


class Report(msgspec.Struct):
    """The figures of a run.

    `seconds`: from the first publish to the last callback of an allocation. Times of `utilisation` are in `time_unit`,
    its values in percent of all nodes. `departed_waiting`: pods of a trace that left before there was room.
    """

    rm: str
    workload: str
    nodes: int
    applications: int
    asks: int
    placed: int
    released: int
    pending: int
    rejected: int
    departed_waiting: int
    pending_reasons: dict[str, int]
    rejected_reasons: dict[str, int]
    departed_waiting_reasons: dict[str, int]
    faults: list[str]
    notes: list[str]
    seconds: float
    placed_per_s: float
    latency_ms: dict[str, float]
    peak_percent: dict[str, float]
    time_unit: str
    utilisation: dict[str, list[float]]


def report(rm: str, work: Workload, rm_state: RmState, pending: Counter[str]) -> Report:
    """Returns the figures of a run. `pending`: how many asks wait, by reason."""
    samples, departed = work.samples, work.departed
    seconds = rm_state.seconds
    faults = list(rm_state.faults)
    if rm_state.rejected_nodes:
        faults.append(f"{rm_state.rejected_nodes} nodes rejected")
    return Report(
        rm=rm,
        workload=work.title,
        notes=list(work.notes),
        nodes=rm_state.nodes,
        applications=rm_state.applications,
        asks=rm_state.asked,
        placed=rm_state.placed - rm_state.crossed,
        released=rm_state.released,
        pending=len(rm_state.waiting),
        rejected=rm_state.rejected_asks,
        departed_waiting=departed.total(),
        pending_reasons=dict(pending.most_common()),
        rejected_reasons=dict(rm_state.rejected.most_common()),
        departed_waiting_reasons=dict(departed.most_common()),
        faults=faults,
        seconds=round(seconds, 3),
        placed_per_s=round(rm_state.placed / seconds, 1) if seconds else 0.0,
        latency_ms={
            "p50": round(percentile(rm_state.latencies_ms, 50), 2),
            "p99": round(percentile(rm_state.latencies_ms, 99), 2),
            "max": round(max(rm_state.latencies_ms, default=0.0), 2),
        },
        peak_percent={name: round(max(samples.series(name)), 3) for name in samples.resources()},
        time_unit=work.unit,
        utilisation={
            "time": [round(time, 4) for time in samples.times],
            **{name: [round(value, 4) for value in samples.series(name)] for name in samples.resources()},
        },
    )


def figures(found: Report) -> Table:
    """Returns a table of two columns: what, and how much."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("workload", found.workload)
    table.add_row("placed", Text.assemble((f"{found.placed:,}", "bold green"), f" of {found.asks:,} asks"))
    if found.released:
        table.add_row("released", f"{found.released:,}")
    _counted(table, "pending", found.pending, found.pending_reasons, "yellow")
    if found.departed_waiting:
        _counted(table, "left pending", found.departed_waiting, found.departed_waiting_reasons, "yellow")
    _counted(
        table, "rejected", max(found.rejected, sum(found.rejected_reasons.values())), found.rejected_reasons, "red"
    )
    table.add_row("throughput", f"{number(round(found.placed_per_s))} placed/s over {found.seconds:.3g} s")
    latency = found.latency_ms
    table.add_row(
        "latency",
        f"p50 {duration(latency['p50'])}, p99 {duration(latency['p99'])}, most {duration(latency['max'])}, "
        "publish of an ask to its callback",
    )
    if found.peak_percent:
        table.add_row("peak use", ", ".join(f"{name} {value:.3g}%" for name, value in found.peak_percent.items()))
    for note in found.notes:
        table.add_row("note", Text(note, style="dim"))
    for fault in found.faults[:MOST_REASONS]:
        table.add_row("[bold red]wrong[/]", Text(fault, style="red"))
    if len(found.faults) > MOST_REASONS:
        table.add_row("", Text(f"and {len(found.faults) - MOST_REASONS} more", style="red"))
    return table


def _counted(table: Table, name: str, count: int, reasons: Mapping[str, int], style: str) -> None:
    if not count:
        table.add_row(name, "0")
        return
    lines = [f"{many:>7,}  {reason}" for reason, many in list(reasons.items())[:MOST_REASONS]]
    if len(reasons) > MOST_REASONS:
        lines.append(f"         and {len(reasons) - MOST_REASONS} other reasons")
    table.add_row(name, Text(f"{count:,}", style=style))
    for line in lines:
        table.add_row("", Text(line))
