"""`remuda config preview`: what a proposed configuration would do, as tables for 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from remuda_config import Invalid, Problem, load_file, read_file
from remuda_operations.queries.preview import Report, Rows
from remuda_operations.queries.preview import preview as ask
from remuda_proto.remuda.v1 import config_pb2

from .. import limits
from ..client.connections import answered
from ..errors import UserError
from ..terminal.output import console, queue_in, table_of
from ..terminal.units import amount, amounts, number
from .config_check import show_problems

Row = dict[str, Any]
# In the place of a resource's name, in rows of `over_quota`.
RUNNING_APPLICATIONS = "running applications"
RESOURCES = ("max", "guaranteed")


def preview(url: str, rm: str, file: Path, passes: int, rows: int, as_json: bool) -> None:
    """Raises UserError for a file with problems, and if the core would refuse the proposal."""
    configuration = proposed(file, as_json)
    report, answer = answered(url, lambda bus: ask(bus, rm, configuration, passes, rows))
    if as_json:
        print(answer.decode())
    else:
        show(report, str(file))
    if report.refused:
        raise UserError(f"{rm} would refuse {file}: {report.refused}")


def proposed(file: Path, as_json: bool) -> config_pb2.Configuration:
    """The configuration of the file. Prints its problems and raises UserError if there are any."""
    found = read_file(file)
    if isinstance(found, Problem):
        raise UserError(found.message)
    try:
        return load_file(found, file, limits.MAX_PAYLOAD_BYTES)
    except Invalid as invalid:
        show_problems(file, invalid, as_json)
        raise UserError(f"{file}: {len(invalid.problems)} problems; there is nothing to preview") from None


def show(report: Report, source: str) -> None:
    """Print the report."""
    state = "" if report.state == "Running" else f", which is {report.state}: nothing is scheduled for it"
    console.print(Text(f"{source} for {report.rm}{state}. Nothing was changed.", style="bold"))
    if report.refused:
        console.print(Text(f"{report.rm} would refuse it: {report.refused}", style="red"))
        return
    _show_queues(report)
    _show_over_quota(report.over_quota)
    _show_placements(report.placements)
    _show_passes(report)


def _show_queues(report: Report) -> None:
    changes = [f"{count:,} {change}" for change, count in report.queues.counts.items() if count]
    _heading("queues", ", ".join(changes) or "no change")
    rows = [(row["change"], f"partition {row['partition']}", _fields(row)) for row in report.partitions.rows]
    rows += [(row["change"], _queue(row), _fields(row)) for row in report.queues.rows]
    _table(("", "queue", "fields"), rows)
    _more(report.queues)


def _fields(row: Row) -> str:
    return "; ".join(
        f"{name} {_value(name, change['before'])} → {_value(name, change['after'])}"
        for name, change in row["fields"].items()
    )


def _value(name: str, value: Any) -> str:
    """A setting in short. Amounts have their units; what has many parts is counted."""
    if name in RESOURCES and isinstance(value, dict):
        return amounts(value)
    if isinstance(value, dict) and all(isinstance(one, str | int | float) for one in value.values()):
        return ", ".join(f"{key}={one}" for key, one in sorted(value.items())) or "-"
    if isinstance(value, list):
        return f"{len(value)} of them" if value else "-"
    return "-" if value in (None, "") else "some" if isinstance(value, dict) else str(value)


def _show_over_quota(found: Rows) -> None:
    new = sum(not row["over_before"] for row in found.rows)
    _heading(
        "over quota", f"{found.total:,}, {new:,} of the first {len(found.rows):,} by this change" if new else found
    )
    rows = [
        (
            row["queue"],
            f"{row['kind']} {row['name']}" if row["name"] else "",
            "running" if row["resource"] == RUNNING_APPLICATIONS else row["resource"],
            *(_amount(row["resource"], row[name]) for name in ("used", "max", "over", "over_before")),
        )
        for row in found.rows
    ]
    _table(("queue", "who", "of", "used", "may use", "over", "before"), rows, right=4)
    _more(found)


def _amount(resource: str, value: int) -> str:
    return number(value) if resource == RUNNING_APPLICATIONS else amount(resource, value) if value else "-"


def _show_placements(found: Rows) -> None:
    looked_at = "" if found.looked_at == found.of else f", of the first {found.looked_at:,} of {found.of:,}"
    _heading("applications that a new submission would place elsewhere", f"{found.total:,}{looked_at}")
    rows = [
        (row["application"], row["user"], row["queue"], row["after"] or f"refused: {row['reason']}")
        for row in found.rows
    ]
    _table(("application", "user", "queue", "would go to"), rows)
    _more(found)


def _show_passes(report: Report) -> None:
    passes = f"the next {report.passes} passes" if report.passes > 1 else "the next pass"
    allocated, preempted = report.allocations, report.preemptions
    _heading(
        passes,
        f"{allocated.total:,} allocations ({allocated.without:,} without the change), "
        f"{preempted.total:,} preempted ({preempted.without:,})",
    )
    names = ("allocated", "allocated_without", "preempted", "preempted_without")
    rows = [(_queue(row), *(number(row[name]) for name in names)) for row in report.by_queue.rows]
    _table(("queue", "allocated", "without", "preempted", "without"), rows, right=4)
    _more(report.by_queue)
    victims = [
        (f"{row['application']}/{row['key']}", row["node"], f"{row['for_application']}/{row['for_key']}")
        for row in preempted.rows
    ]
    _table(("preempted", "on", "for"), victims)
    _more(preempted)
    _show_groups(report.groups)


def _show_groups(found: Rows) -> None:
    """Groups that wait for a domain, and what becomes of them."""
    if not found.total:
        return
    _heading("groups that wait", found)
    rows = [
        (
            f"{row['application']}/{row['key']}",
            f"{number(row['placed'])} of {number(row['waiting'])}",
            number(row["placed_without"]),
            _outcome(row),
        )
        for row in found.rows
    ]
    _table(("group of", "placed", "without", "where, or why not"), rows)
    _more(found)


def _outcome(row: Row) -> str:
    where = f"in {row['domain']}" if row["domain"] else ""
    taken = f"{number(row['preempted'])} preempted for it" if row["preempted"] else ""
    return ", ".join(filter(None, (where, taken, row["reason"])))


def _queue(row: Row) -> str:
    return queue_in(row["partition"], row["queue"])


def _heading(what: str, found: str | Rows) -> None:
    said = found if isinstance(found, str) else f"{found.total:,}"
    console.print(Text.assemble("\n", (what, "bold"), f": {said}"))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> None:
    """The last `right` columns are aligned to the right. Nothing without rows."""
    if cells := list(rows):
        console.print(table_of(*columns, rows=cells, numbers=columns[len(columns) - right :]))


def _more(found: Rows) -> None:
    if (more := found.total - len(found.rows)) > 0:
        console.print(Text(f"and {more:,} more; --rows shows more of them", style="dim"))
