"""`remuda replay`: what would have happened, as tables, JSON, and a page with charts. `remuda shadow`: the
findings of a shadow, and the same tables of their effect."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import Field, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..errors import UserError
from ..history.page import decided_again, page, runs_of
from ..terminal import event_loop
from ..terminal.output import console, errors, table_of
from ..terminal.units import amount, number, time_of, wait
from .past import with_past
from .preview import proposed

if TYPE_CHECKING:
    from remuda_core.settings import Configuration

    from ..history.changes import Change
    from ..history.exact import Compared
    from ..history.one_step import OneStep
    from ..history.past import At, Past
    from ..history.versions import Version

T = TypeVar("T")
Report = dict[str, Any]
_MODELS = ("requeue", "lose")
# There are many objects that live long; what ends is in cycles, and must not add up.
_GC_THRESHOLDS = (20_000, 10, 10)
# Queues and users of a table; the JSON and the page have all.
ROWS = 20


@dataclass(frozen=True, slots=True)
class Options:
    """The changes of one variant, as they were given."""

    version: Path | None = None
    queues: Path | None = None
    quota: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    node_sort: str | None = None
    without: tuple[str, ...] = ()
    arrivals: str | None = None

    def given(self) -> Iterator[tuple[str, str]]:
        for one in fields(self):
            value = getattr(self, one.name)
            for each in value if isinstance(value, tuple) else () if value is None else (value,):
                yield _name_of(one), str(each)

    def words(self) -> list[str]:
        """The changes of the variant as arguments, without its version."""
        queues = {"--queues": str(self.queues.absolute())} if self.queues is not None else {}
        return [f"{name}={queues.get(name, value)}" for name, value in self.given() if name != "--version"]

    def text(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.given())


def _name_of(option: Field[Any]) -> str:
    return f"--{option.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Period:
    """The archive, its options, and the part of it that is looked at. `begin`: None: all of it."""

    archive: str | None
    options: Sequence[str]
    rm: str
    begin: At | None
    end: At

    def words(self) -> list[str]:
        """The period as arguments of a command of another version."""
        times = [("--since", self.begin.text if self.begin is not None else ""), ("--until", self.end.text)]
        of_store = [f"--archive-option={one}" for one in self.options]
        return [self.rm, f"--archive={self.archive}", *of_store, *(f"{name}={text}" for name, text in times if text)]


def replay_exactly(period: Period, given: Options, every: int, as_json: bool) -> None:
    """Exits with 1 if something is decided differently. Raises UserError."""
    if given.version is not None:
        from ..history.versions import NoVersion, unpacked

        words = ["replay", *period.words(), "--exact", f"--every={every}", *given.words(), "--json"]
        try:
            with unpacked(given.version) as version:
                printed = event_loop.run(lambda: version.json(*words))
        except NoVersion as error:
            raise UserError(str(error)) from None
        text = f"version {version.name} decides {printed['different']:,} of {printed['commits']:,} commits differently"
        _show_decided(printed, text, as_json)
        return
    if given.words() and given.words() != Options(queues=given.queues).words():
        raise UserError("--exact goes with --queues and --version; what else is changed has to be played without it")
    if given.queues is None:
        found = _over(period, partial(_compared, every))
        same = "" if found.different else ": the same was decided again"
        _show_decided({**msgspec.to_builtins(found), "distance": found.distance}, f"{found}{same}", as_json)
        return
    from remuda_core.wire.configuration import read_configuration

    configuration = read_configuration(proposed(given.queues, as_json))
    otherwise = _over(period, partial(_one_step, configuration, every))
    _show_decided(msgspec.to_builtins(otherwise), str(otherwise), as_json)


def _over(period: Period, work: Callable[[Past, At | None, At], Coroutine[Any, Any, T]]) -> T:
    return with_past(
        period.archive, period.options, period.rm, lambda past: work(past, period.begin, period.end)
    )  # fmt: skip


def replay(
    period: Period, given: Options, variants: Sequence[str], on_preemption: str | None, goal: str | None, most: int,
    html: Path | None, as_json: bool, applications: bool = False, decided_every: int = 1,
) -> None:  # fmt: skip
    """`decided_every`: only one stretch of so many is decided again. Raises UserError."""
    if on_preemption not in (None, *_MODELS):
        raise UserError(f"--on-preemption {on_preemption!r}: expected {' or '.join(_MODELS)}")
    every = [one for one in (given, *map(_options_of, variants)) if one.text()]
    with ExitStack() as versions:
        _replay(
            period, [_change(one, period, versions) for one in every], on_preemption, goal, most, html, as_json,
            applications, decided_every,
        )  # fmt: skip


def _replay(
    asked: Period, changes: Sequence[Change], on_preemption: str | None, goal: str | None, most: int,
    html: Path | None, as_json: bool, applications: bool, decided_every: int,
) -> None:  # fmt: skip
    if any(change.searches for change in changes) != (goal is not None) or (goal is not None and len(changes) != 1):
        raise UserError(
            "--goal goes with one variant that has --nodes +?:…, such as --nodes +?:vcore=64,memory=256Gi, or "
            "--quota QUEUE:max.RESOURCE=+?"
        )

    gc.set_threshold(*_GC_THRESHOLDS)

    async def play(past: Past) -> Report:
        from remuda_replication.child import ChildFailed

        from ..history.goal import goal_of
        from ..history.replay import period_of, search
        from ..history.replay import replay as replay_all

        wanted = goal_of(goal) if goal is not None else None
        with _Bars() as bars:
            period = await period_of(past, asked.begin, asked.end, on_preemption, bars.at, decided_every)
            try:
                if wanted is not None:
                    return await search(period, changes[0], wanted, most, bars.at)
                return await replay_all(period, changes, bars.at, applications)
            except ChildFailed as error:
                raise UserError(f"a variant was given up: {error}") from None

    report = with_past(asked.archive, asked.options, asked.rm, play)
    if html is not None:
        try:
            html.write_text(page(report), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--html {html}: {error.strerror or error}") from None
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        show_report(report)


async def _compared(every: int, past: Past, begin: At | None, end: At) -> Compared:
    from ..history.exact import Compared, compare

    found = Compared()
    async for start, until in past.parts(begin, end):
        found.add(await compare(past, start, until, every))
    return found


async def _one_step(
    configuration: Configuration, every: int, past: Past, begin: At | None, end: At
) -> OneStep:  # fmt: skip
    from remuda_replication.child import ChildFailed

    from ..history.one_step import OneStep, compare_with

    found = OneStep()
    try:
        async for start, until in past.parts(begin, end):
            found.add(await compare_with(past, start, configuration, until, every))
    except ChildFailed as error:
        raise UserError(f"a look at a commit was given up: {error}") from None
    return found


def _show_decided(row: Report, text: str, as_json: bool) -> None:
    """Exits with 1 if something is decided differently."""
    if as_json:
        print(msgspec.json.encode(row).decode())
    else:
        console.print(Text(text), soft_wrap=True)
        for one in row["differences"][:ROWS]:
            console.print(Text(f"  {one['text']}"), soft_wrap=True)
    if row["different"]:
        raise SystemExit(1)


# What is different


def _options_of(text: str) -> Options:
    """A variant that is written as options. Raises UserError."""
    known = {_name_of(one): one for one in fields(Options)}
    try:
        words = [part for word in shlex.split(text) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    except ValueError as error:
        raise UserError(f"--variant {text[:100]!r}: {error}") from None
    found: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=False):
        if (option := known.get(name)) is None:
            raise UserError(f"--variant {text[:100]!r}: {name[:50]!r}: expected {', '.join(known)}")
        if option.default == ():
            found[option.name] = (*found.get(option.name, ()), value)
        else:
            found[option.name] = Path(value) if name in ("--version", "--queues") else value
    if len(words) % 2 or not words:
        raise UserError(f"--variant {text[:100]!r}: expected options, each with its value")
    return Options(**found)


def _change(given: Options, period: Period, versions: ExitStack) -> Change:
    """`versions`: where versions are unpacked until it is closed. Raises UserError."""
    from remuda_core.wire.configuration import read_configuration

    from ..history.changes import NODE_SORTS, AddedNodes, Change, arrivals_of, nodes_of, quota_of, without_of
    from ..history.versions import NoVersion, unpacked

    if given.version is not None:
        try:
            other = versions.enter_context(unpacked(given.version))
        except NoVersion as error:
            raise UserError(f"--version {error}") from None
        return Change(given.text(), played_by=lambda: _played_by(other, period, given))
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
            tuple(quota_of(one) for one in given.quota),
        )
    except ValueError as error:
        raise UserError(str(error)) from None


async def _played_by(version: Version, period: Period, given: Options) -> Report:
    """The measures of the other version's own replay, and how many commits it decides differently."""
    report = await version.json("replay", *period.words(), *given.words(), "--json", "--applications")
    run = report["variants"][0] if given.words() else report["unchanged"]
    return {**run, "version": version.name, "identity": report["identity"]}


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


def show_report(report: Report) -> None:
    for line in honest_lines(report):
        console.print(Text(line), soft_wrap=True)
    runs = runs_of(report)
    _show_waits("queue", runs)
    _show_waits("user", runs)
    _show_use(runs)
    for variant in report["variants"]:
        if (decided := variant.get("identity")) is not None:
            of = f"{decided['different']:,} of {decided['commits']:,} commits differently"
            console.print(Text(f"version {variant['version']} decides {of}"), soft_wrap=True)
        for what, sign in (("gained", "less"), ("lost", "more")):
            rows = variant["differences"][what]
            if rows:
                named = ", ".join(f"{row['application']} {wait(abs(row['ms']))}" for row in rows)
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
        f"decided again exactly: {decided_again(identity)}",
        f"error of the model (unchanged replay against what happened): mean wait {wait(wrong['mean_ms'])}, "
        f"p95 {wait(wrong['p95_ms'])}; use "
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


def _show_waits(kind: str, runs: Sequence[tuple[str, Report]]) -> None:
    names = dict.fromkeys(name for _, run in runs for name in run["waits"][kind])
    figures = ("asks", "p50", "p95", "p99", "still wait")
    table = table_of(kind, "", *figures, numbers=figures, title=f"waits by {kind}")
    for name in list(names)[:ROWS]:
        for number_, (text, run) in enumerate(runs):
            row = run["waits"][kind].get(name, {})
            waits = [wait(row.get(f"p{percent}_ms", 0)) for percent in (50, 95, 99)]
            counts = number(row.get("count", 0)), number(row.get("still_waiting", 0))
            table.add_row(Text(name if not number_ else ""), Text(text), counts[0], *waits, counts[1])
    console.print(table)


def _show_use(runs: Sequence[tuple[str, Report]]) -> None:
    resources = dict.fromkeys(name for _, run in runs for name in run["use"])
    table = table_of("", *resources, "fairness", "preempted", "lost work", title="use")
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


# The findings of a shadow


def shadow(directory: Path, as_json: bool) -> None:
    """Raises UserError."""
    from ..history.shadow_report import ShadowReport, read

    paths = sorted((directory / "reports").glob("*.json"))
    if not paths:
        raise UserError(f"{directory}: expected the directory of a shadow (shadow.directory) with reports")
    try:
        found: list[ShadowReport] = [one for path in paths if (one := read(path)) is not None]
    except ValueError as error:
        raise UserError(str(error)) from None
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for report in found:
        until = f" up to {time_of(report.at_ms)}" if report.at_ms else ""
        over = ", which is over" if report.is_over else ""
        console.print(Text(f"{report.rm}: {report.against}{over}{until}: {report.summary()}"), soft_wrap=True)
        for difference in report.differences[:ROWS]:
            console.print(Text(f"  {difference}"), soft_wrap=True)
        if report.effect is not None:
            show_report(report.effect)
