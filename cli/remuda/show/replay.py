"""`remuda replay`: what would have happened, as tables, JSON, and a page with charts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..errors import UserError
from ..terminal.output import console, errors
from ..terminal.units import amount, number, time_of
from .past import when, with_past
from .preview import proposed

if TYPE_CHECKING:
    from ..history.changes import Change
    from ..history.exact import Compared
    from ..history.past import At, Past

Report = dict[str, Any]
_MODELS = ("requeue", "lose")
# Queues and users of a table; the JSON and the page have all.
ROWS = 20


@dataclass(frozen=True, slots=True)
class Options:
    """The changes of one variant, as they were given."""

    queues: Path | None = None
    nodes: tuple[str, ...] = ()
    node_sort: str | None = None
    without: tuple[str, ...] = ()
    arrivals: str | None = None

    def text(self) -> str:
        given = [
            *([f"--queues {self.queues}"] if self.queues is not None else []),
            *(f"--nodes {one}" for one in self.nodes),
            *([f"--node-sort {self.node_sort}"] if self.node_sort is not None else []),
            *(f"--without {one}" for one in self.without),
            *([f"--arrivals {self.arrivals}"] if self.arrivals is not None else []),
        ]
        return " ".join(given)


def replay(
    archive: str | None, options: Sequence[str], rm: str, since: str | None, until: str | None, given: Options,
    variants: Sequence[str], on_preemption: str | None, goal: str | None, most: int, exact: bool, html: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Raises UserError."""
    begin, end = when(since) if since is not None else None, when(until)
    if exact:
        _show_exact(with_past(archive, options, rm, lambda past: _compared(past, begin, end)), as_json)
        return
    if on_preemption not in (None, *_MODELS):
        raise UserError(f"--on-preemption {on_preemption!r}: expected {' or '.join(_MODELS)}")
    changes = [_change(one) for one in (given, *map(_options_of, variants)) if one.text()]
    if any(change.searches for change in changes) != (goal is not None) or (goal is not None and len(changes) != 1):
        raise UserError("--goal goes with one variant that has --nodes +?:…, such as --nodes +?:vcore=64,memory=256Gi")

    async def play(past: Past) -> Report:
        from remuda_replication.child import ChildFailed

        from ..history.goal import goal_of
        from ..history.replay import period_of, search
        from ..history.replay import replay as replay_all

        wanted = goal_of(goal) if goal is not None else None
        with _Bars() as bars:
            period = await period_of(past, begin, end, on_preemption, bars.at)
            try:
                if wanted is not None:
                    return await search(period, changes[0], wanted, most, bars.at)
                return await replay_all(period, changes, bars.at)
            except ChildFailed as error:
                raise UserError(f"a variant was given up: {error}") from None

    report = with_past(archive, options, rm, play)
    if html is not None:
        from ..history.page import page

        try:
            html.write_text(page(report), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--html {html}: {error.strerror or error}") from None
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        _show(report)


async def _compared(past: Past, begin: At | None, end: At) -> Compared:
    from ..history.exact import Compared, compare

    found = Compared()
    if begin is not None:
        return await compare(past, await past.restore(begin), end)
    async for start, last in past.stretches():
        until = last if end.seq is None and end.ms is None else end
        found.add(await compare(past, start, until))
    return found


def _show_exact(found: Compared, as_json: bool) -> None:
    if as_json:
        row = {
            name: getattr(found, name) for name in ("commits", "facts", "rebuilt", "explained", "unread", "different")
        }
        differences = [{"log_seq": one.seq, "text": str(one)} for one in found.differences]
        print(msgspec.json.encode({**row, "distance": found.distance, "differences": differences}).decode())
    else:
        console.print(f"{found}{'' if found.different else ': the same was decided again'}")
        for one in found.differences:
            console.print(Text(f"  {one}"), soft_wrap=True)
    if found.different:
        raise SystemExit(1)


# What is different


def _options_of(text: str) -> Options:
    """A variant that is written as options. Raises UserError."""
    names = {"--queues": "queues", "--nodes": "nodes", "--node-sort": "node_sort", "--without": "without",
             "--arrivals": "arrivals"}  # fmt: skip
    try:
        words = [part for word in shlex.split(text) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    except ValueError as error:
        raise UserError(f"--variant {text[:100]!r}: {error}") from None
    found: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in names:
            raise UserError(f"--variant {text[:100]!r}: {name[:50]!r}: expected {', '.join(names)}")
        if name in ("--nodes", "--without"):
            found[names[name]] = (*found.get(names[name], ()), value)
        else:
            found[names[name]] = Path(value) if name == "--queues" else value
    if len(words) % 2 or not words:
        raise UserError(f"--variant {text[:100]!r}: expected options, each with its value")
    return Options(**found)


def _change(given: Options) -> Change:
    """Raises UserError."""
    from remuda_core.wire.configuration import read_configuration

    from ..history.changes import NODE_SORTS, AddedNodes, Change, arrivals_of, nodes_of, without_of

    if given.node_sort not in (None, *NODE_SORTS):
        raise UserError(f"--node-sort {given.node_sort!r}: expected {' or '.join(NODE_SORTS)}")
    try:
        nodes = [nodes_of(one) for one in given.nodes]
        return Change(
            given.text(),
            read_configuration(proposed(given.queues, False)) if given.queues is not None else None,
            tuple(one for one in nodes if isinstance(one, AddedNodes)),
            tuple(one for one in nodes if isinstance(one, str)),
            given.node_sort or "",
            tuple(without_of(one) for one in given.without),
            arrivals_of(given.arrivals) if given.arrivals is not None else Change().arrivals,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


class _Bars:
    """A bar for reading and for each variant, on stderr."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self._progress = Progress(*columns, TimeRemainingColumn(), console=errors, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        if errors.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if errors.is_terminal:
            self._progress.stop()

    def at(self, name: str, part: float) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name[:60], total=1.0)
        self._progress.update(self._tasks[name], completed=part)


# The report


def _show(report: Report) -> None:
    for line in honest_lines(report):
        console.print(Text(line), soft_wrap=True)
    runs = runs_of(report)
    _show_waits("queue", runs)
    _show_waits("user", runs)
    _show_use(runs)
    for variant in report["variants"]:
        for what, sign in (("gained", "less"), ("lost", "more")):
            rows = variant["differences"][what]
            if rows:
                named = ", ".join(f"{row['application']} {span(abs(row['ms']))}" for row in rows)
                console.print(Text(f"{variant['change']}: these wait {sign}: {named}"), soft_wrap=True)
    if (goal := report.get("goal")) is not None:
        found = (
            f"{goal['count']:,} nodes more reach it"
            if goal["count"] is not None
            else "nothing that was tried reaches it"
        )
        console.print(Text(f"{goal['text']}: {found}", style="bold"))
        if goal["contradicts"]:
            console.print(
                f"  but {', '.join(map(str, goal['contradicts']))} nodes contradict that: waits need not fall"
            )


def honest_lines(report: Report) -> list[str]:
    """Returns the lines that a reader has to know before the numbers."""
    identity, model = report["identity"], report["model"]
    wrong = model["error"]
    lines = [
        f"{report['rm']} from {time_of(report['since_ms'])} to {time_of(report['until_ms'])}",
        f"decided again exactly: {identity['different']:,} of {identity['commits']:,} commits differ",
        f"error of the model (unchanged replay against what happened): mean wait {span(wrong['mean_ms'])}, "
        f"p95 {span(wrong['p95_ms'])}; use "
        + (", ".join(f"{name} {share:.1%}" for name, share in wrong["use"].items()) or "none"),
        f"run times drawn, because they were cut off or never began: {model['censored']:.0%}"
        + ("" if model["reliable"] else ": UNRELIABLE"),
    ]
    again = f"the RM asked {model['asked_again']:,} again under the same key"
    lines.append(f"preempted work: {model['on_preemption']} (of {model['preempted']:,} preempted allocations, {again})")
    if model["questions_accepted"]:
        lines.append(f"{model['questions_accepted']:,} questions about nodes were answered with yes")
    if model["commands_unread"] or identity["unread"]:
        lines.append(f"{model['commands_unread']:,} requests are not in the archive")
    lines.append("not in the model: users who react to waits, autoscalers, work that depends on other work")
    return lines


def runs_of(report: Report) -> list[tuple[str, Report]]:
    return [
        ("actual", report["actual"]), ("unchanged", report["unchanged"]),
        *((one["change"], one) for one in report["variants"]),
    ]  # fmt: skip


def _show_waits(kind: str, runs: Sequence[tuple[str, Report]]) -> None:
    names = dict.fromkeys(name for _, run in runs for name in run["waits"][kind])
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title=f"waits by {kind}", title_justify="left")
    for column in (kind, "", "asks", "p50", "p95", "p99", "still wait"):
        table.add_column(column, justify="left" if column in (kind, "") else "right", overflow="fold")
    for name in list(names)[:ROWS]:
        for number_, (text, run) in enumerate(runs):
            row = run["waits"][kind].get(name, {})
            waits = [span(row.get(f"p{percent}_ms", 0)) for percent in (50, 95, 99)]
            counts = number(row.get("count", 0)), number(row.get("still_waiting", 0))
            table.add_row(Text(name if not number_ else ""), Text(text), counts[0], *waits, counts[1])
    console.print(table)


def _show_use(runs: Sequence[tuple[str, Report]]) -> None:
    resources = dict.fromkeys(name for _, run in runs for name in run["use"])
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title="use", title_justify="left")
    for column in ("", *resources, "fairness", "preempted", "lost work"):
        table.add_column(column, overflow="fold")
    for text, run in runs:
        shares = [f"{run['use'].get(name, {}).get('share', 0):.1%}" for name in resources]
        preempted = run["preemptions"]
        table.add_row(
            Text(text), *shares, f"{run['fairness']['mean']:.2f}", number(preempted["count"]), _lost(preempted)
        )
    console.print(table)


def _lost(preempted: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {amount(name, int(value))} · h" for name, value in preempted["lost_amount_hours"].items()
    ) or "-"  # fmt: skip


def span(ms: float) -> str:
    """A wait: 0 s, 12 s, 5.0 min, 3.2 h."""
    for unit, length in (("h", 3_600_000), ("min", 60_000)):
        if ms >= length:
            return f"{ms / length:.1f} {unit}"
    return f"{ms / 1_000:.3g} s"
