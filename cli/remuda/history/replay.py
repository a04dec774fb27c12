"""Plays a period again with changes: `remuda replay`. Every replay is played twice, unchanged and changed, because the
model of the RM has an error: what is attributed to a change is the difference between these two.

Variants run in forked children at the lowest priority, several at once; they read nothing and write into a pipe.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from remuda_core.core import Core
from remuda_core.trials.play import copy_of
from remuda_core.wire import schema
from remuda_replication.child import CHILD_NICENESS, Child, ChildFailed

from .changes import Change, NotThere, check, events_with
from .decided import Decided, read
from .exact import Compared, Comparison
from .goal import Goal, smallest
from .measures import Measures
from .past import At, Past, Step
from .spool import ApplicationWaits, largest_differences, means_of, write_means
from .workload import Extraction, Workload
from .world import LOSE, REQUEUE, World

UNCHANGED = Change()
# A report of which more than this part of the run times was drawn is marked as unreliable.
CENSORED_MOST = 0.2
GAINED = 5
NICENESS = 19
_PROGRESS_STEPS = 200
# Lines of a child: how far it is, then its report.
_PROGRESS, _REPORT, _REFUSED = b"p", b"r", b"x"
Progress = Callable[[str, float], None]


class Refused(ValueError):
    """A change names something that does not exist. The text is for people."""


@dataclass(frozen=True, slots=True)
class Period:
    """The period that all variants have in common. `start`: the state at the beginning, which only children change.
    `actual`: the measures of what happened."""

    start: Core
    workload: Workload
    actual: dict[str, Any]
    compared: Compared
    on_preemption: str


async def period_of(
    past: Past, since: At | None, until: At, on_preemption: str | None, progress: Progress, every: int = 1
) -> Period:
    """Read a period: arrivals, run times, what happened, and whether deciding it again gives the same. `since`: None:
    all that the archive has without a gap. `on_preemption`: None: as the RM did most often. `every`: only one
    stretch of so many is decided again; 0: none. Raises what `Past` raises."""
    begin, end_ms = await past.beginning(since), await _end_ms(past, until)
    start = copy_of(begin.core)
    extraction, comparison = Extraction(begin.core), Comparison(begin.core, every)
    extraction.found.begin_ms, extraction.found.end_ms = begin.now_ms or (await past.span())[0], end_ms
    actual = Measures(start.state, extraction.found.begin_ms, end_ms)
    span, told = max(1, end_ms - extraction.found.begin_ms), -1
    async for step in past.steps(begin, until):
        commit = step.entry.commit
        decided = comparison.decide(step) or _recorded(step)
        extraction.take(commit, decided)
        for one in decided:
            actual.take_all(one.facts, commit.now_ms)
        if (part := (commit.now_ms - extraction.found.begin_ms) * _PROGRESS_STEPS // span) > told:
            told = part
            progress("reading", part / _PROGRESS_STEPS)
    actual.finish()
    workload = extraction.finish()
    if on_preemption is None:
        on_preemption = LOSE if workload.preempted > 2 * workload.asked_again else REQUEUE
    return Period(start, workload, actual.report(), comparison.found, on_preemption)


def _recorded(step: Step) -> list[Decided]:
    return read(schema.Commit.FromString(step.entry.commit.SerializeToString()), step.inbox)


async def _end_ms(past: Past, until: At) -> int:
    if until.seq is not None:
        return (await past.restore(until)).now_ms
    last_ms = (await past.span())[1]
    return last_ms if until.ms is None else min(until.ms, last_ms)


async def replay(
    period: Period, changes: Sequence[Change], progress: Progress, applications: bool = False
) -> dict[str, Any]:
    """The report: what happened, the unchanged replay, and each variant. `applications`: with the mean wait of each.
    Raises Refused, ChildFailed, and what another version raises."""
    for change in changes:
        if change.played_by is not None:
            continue
        try:
            check(change.with_count(1) if change.searches else change, period.start, period.workload)
        except NotThere as error:
            raise Refused(str(error)) from None
    runs = await play_all(period, [UNCHANGED, *changes], progress)
    unchanged = runs[0]
    variants = [
        {"change": change.text, **_shown(run, applications), "differences": _differences(unchanged, run)}
        for change, run in zip(changes, runs[1:], strict=True)
    ]
    return {**_head(period, unchanged), "actual": period.actual,
            "unchanged": _shown(unchanged, applications), "variants": variants}  # fmt: skip


async def search(period: Period, change: Change, goal: Goal, most: int, progress: Progress) -> dict[str, Any]:
    """The report of the smallest number of added nodes with which the goal is reached. Raises Refused, ChildFailed."""
    try:
        check(change.with_count(1), period.start, period.workload)
    except NotThere as error:
        raise Refused(str(error)) from None
    known: dict[int, dict[str, Any]] = {}

    async def reached(counts: Sequence[int]) -> list[bool]:
        new = [count for count in counts if count not in known]
        runs = await play_all(period, [change.with_count(one) for one in new], progress)
        known.update(zip(new, runs, strict=True))
        return [goal.reached(known[count]) for count in counts]

    found = await smallest(reached, most)
    report = await replay(period, [change.with_count(found.count)] if found.count else [], progress)
    tried = [
        {"count": count, "value": goal.value(run), "reached": goal.reached(run)} for count, run in sorted(known.items())
    ]
    return {
        **report,
        "goal": {"text": goal.text, "count": found.count, "tried": tried, "contradicts": found.contradicts},
    }


async def play_all(period: Period, changes: Sequence[Change], progress: Progress) -> list[dict[str, Any]]:
    """Plays each change, at most as many at once as there are processors, and returns their results in the order of
    `changes`. `applications` of each is the file with their waits."""
    turns = asyncio.Semaphore(max(1, os.cpu_count() or 1))

    async def played(change: Change) -> dict[str, Any]:
        async with turns:
            waits = period.workload.spool.new_waits()
            if change.played_by is not None:
                found = await change.played_by()
                write_means(waits, found["applications"])
            else:
                found = await _in_child(period, change, waits, lambda part: progress(change.text, part))
            return {**found, "applications": waits}

    gc.collect()  # what the children share
    return list(await asyncio.gather(*map(played, changes)))


async def _in_child(
    period: Period, change: Change, waits: Path, progress: Callable[[float], None]
) -> dict[str, Any]:  # fmt: skip
    child, rest = Child(lambda: _lines(period, change, waits)), b""
    try:
        async for part in child.output():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.startswith(_PROGRESS):
                    progress(int(line[1:]) / _PROGRESS_STEPS)
                elif line.startswith(_REFUSED):
                    raise Refused(line[1:].decode())
                else:
                    found: dict[str, Any] = msgspec.json.decode(line[1:])
                    return found
    finally:
        await child.close()
    raise ChildFailed("it has ended without a report")


def _lines(period: Period, change: Change, waits: Path) -> Iterator[bytes]:
    """Yields what the child process of a variant writes."""
    os.nice(max(0, NICENESS - CHILD_NICENESS))
    gc.freeze()  # what is shared with the parent stays so
    gc.enable()  # it lives longer than other children: what ends is in cycles, and would add up
    try:
        yield from _played(period, change, waits)
    except NotThere as error:
        yield b"%b%b\n" % (_REFUSED, str(error).encode())


def _played(period: Period, change: Change, waits: Path) -> Iterator[bytes]:
    workload, told = period.workload, -1
    events = events_with(change, period.start, workload)
    world = World(period.start, workload, events, period.on_preemption, ApplicationWaits(waits))
    span = max(1, workload.end_ms - workload.begin_ms)
    for now_ms in world.moments():
        if (step := (now_ms - workload.begin_ms) * _PROGRESS_STEPS // span) > told:
            told = step
            yield b"%b%d\n" % (_PROGRESS, step)
    played = world.played
    report = {
        **played.measures.report(),
        "model": {"runs": played.runs, "censored": played.censored, "asked": played.asked, "facts": played.decisions},
    }
    yield b"%b%b\n" % (_REPORT, msgspec.json.encode(report))


# The report


def _head(period: Period, unchanged: dict[str, Any]) -> dict[str, Any]:
    workload, compared, model = period.workload, period.compared, unchanged["model"]
    censored = model["censored"] / model["runs"] if model["runs"] else 0.0
    return {
        "rm": workload.rm,
        "since_ms": workload.begin_ms,
        "until_ms": workload.end_ms,
        "identity": {
            "commits": compared.commits, "different": compared.different, "distance": compared.distance,
            "unread": compared.unread, "first": str(compared.differences[0]) if compared.differences else "",
            **({"left_out": compared.left_out} if compared.left_out else {}),
        },
        "model": {
            "on_preemption": period.on_preemption,
            "preempted": workload.preempted,
            "asked_again": workload.asked_again,
            "confirm_ms": workload.confirm_ms,
            "censored": censored,
            "reliable": censored <= CENSORED_MOST,
            "commands_unread": workload.unread,
            "questions_accepted": model["asked"],
            "error": _errors(period.actual, unchanged),
        },
    }  # fmt: skip


def _errors(actual: dict[str, Any], unchanged: dict[str, Any]) -> dict[str, Any]:
    """|unchanged − actual|: what the model gets wrong."""
    one, other = (found["waits"]["all"].get("", {}) for found in (actual, unchanged))
    return {
        **{name: abs(other.get(name, 0) - one.get(name, 0)) for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")},
        "use": {
            resource: abs(unchanged["use"].get(resource, {}).get("share", 0.0) - use["share"])
            for resource, use in actual["use"].items()
        },
    }


def _shown(run: dict[str, Any], applications: bool = False) -> dict[str, Any]:
    shown = {name: value for name, value in run.items() if name != "applications"}
    return {**shown, "applications": means_of(run["applications"])} if applications else shown


def _differences(unchanged: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """The applications whose mean wait gained and lost most, in ms; negative: it waits less."""
    gained, lost = largest_differences(unchanged["applications"], changed["applications"], GAINED)
    return {
        "gained": [{"application": name, "ms": ms} for name, ms in gained],
        "lost": [{"application": name, "ms": ms} for name, ms in lost],
    }
