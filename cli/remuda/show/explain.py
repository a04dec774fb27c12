"""`remuda explain`: reasons why asks are pending; for others the newest fact in the log. A pod of Kubernetes is
found by the tags of its front end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import msgspec
from rich.padding import Padding
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_bus.status_codes import NOT_FOUND
from remuda_events.stories.story import StoryLine, StoryTarget
from remuda_events.story_reader import lines
from remuda_operations.queries import NoAnswer, RequestRefused
from remuda_operations.queries import core as queries
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.forecasts import sentence
from remuda_operations.queries.rows import ExplainedAsk, Explanation, Rows, WhatIf
from remuda_proto import constants

from .. import limits
from ..client import past
from ..client.connections import answered
from ..errors import UserError
from ..terminal.output import console, table_of
from ..terminal.units import at, number
from .wait_reasons import (
    alike,
    earlier,
    elapsed,
    holders_of,
    in_words,
    position_of,
    reasons_of,
    waiting_time,
    with_units,
)

_META = constants.DOMAIN_K8S + constants.GROUP_META
NAMESPACE = _META + constants.KEY_NAMESPACE
POD_NAME = _META + constants.KEY_POD_NAME


@dataclass(frozen=True, slots=True)
class Result:
    """`last`: the newest fact about an application or ask that is not pending. `changes`: what would let it run.
    `not_forecast`: why nothing is known of when asks without a forecast start."""

    explanation: Explanation
    last: StoryLine | None = None
    changes: WhatIf | None = None
    not_forecast: str = ""

    @property
    def waiting(self) -> list[ExplainedAsk]:
        return [ask for ask in self.explanation.asks if ask.pending]


def explain(url: str, rm: str, application: str | None, key: str | None, as_json: bool, what_if: bool = False) -> None:
    found = answered(url, lambda bus: _ask(bus, rm, application, key, what_if))
    if as_json:
        last = {"at_ms": found.last.at_ms, "text": found.last.text} if found.last else None
        document = {**msgspec.to_builtins(found.explanation), "last": last}
        if what_if:
            document["what_if"] = msgspec.to_builtins(found.changes)
        print(msgspec.json.encode(document).decode())
    elif application is None:
        _show_waiting(rm, found.explanation)
    else:
        _show_explanation(f"{application} {key}" if key else application, found)


async def _ask(bus: Bus, rm: str, application: str | None, key: str | None, what_if: bool) -> Result:
    try:
        found = Result(await queries.explain(bus, rm, application, key))
    except RequestRefused as unknown:
        if unknown.code != NOT_FOUND:
            raise
        last = await _last(bus, rm, application, key)
        if last is None:
            raise UserError(f"{unknown}, and the log of {rm} has no fact about it") from None
        return Result(Explanation(), last)
    if found.waiting or application is None:
        if application is not None:
            found = await _forecast(bus, rm, application, key, found)
        if not (what_if and application and key):
            return found
        changes = await queries.what_if(bus, rm, application, key, found.waiting[0].partition)
        return replace(found, changes=changes)
    last = await _last(bus, rm, application, key)
    if last is None and key is not None:
        raise UserError(f"{application} has no ask {key!r}, and the log of {rm} has no fact about one")
    return Result(found.explanation, last)


async def _forecast(bus: Bus, rm: str, application: str, key: str | None, found: Result) -> Result:
    """Forecasts are made once somebody has looked: wait for them if there are none yet."""
    if past.is_selected() or all(ask.forecast is not None for ask in found.waiting):
        return found
    try:
        async with asyncio.timeout(limits.FORECAST_WITHIN_S):
            made = await queries.eta(bus, rm, application, key or "")
    except (RequestRefused, NoAnswer, TimeoutError) as error:
        return replace(found, not_forecast=str(error) or "they are still being made, ask again")
    known = {(one.partition, one.key): one for one in made.forecasts}
    for ask in found.explanation.asks:
        ask.forecast = known.get((ask.partition, ask.key))
    return found


async def _last(bus: Bus, rm: str, application: str | None, key: str | None) -> StoryLine | None:
    """The newest fact about an application or ask."""
    sought = StoryTarget(application or "" if key is None else f"{application}/{key}")
    last = None
    async for line in lines(bus, rm, sought):
        last = line
    return last


def _show_waiting(rm: str, found: Explanation) -> None:
    """One line for each application and reason, with the longest time that an ask has been pending."""
    if not found.asks:
        console.print(f"{rm}: nothing is pending", markup=False)
        return
    pieces: Counter[tuple[str, str, str]] = Counter()
    since_ms: dict[tuple[str, str, str], int] = {}
    for ask in found.asks:
        row = (ask.queue, ask.application, reasons_of(ask)[0])
        pieces[row] += max(1, ask.pending)
        since_ms[row] = min(ask.since_ms, since_ms.get(row, ask.since_ms))
    now_ms = past.now_ms()
    table = table_of("queue", "application", "waiting", "longest", "first reason", numbers=("waiting", "longest"))
    table.columns[3].no_wrap = True
    for row, count in sorted(pieces.items()):
        queue, application, reason = row
        longest = elapsed((now_ms - since_ms[row]) / 1_000) if since_ms[row] else "-"
        table.add_row(Text(queue), Text(application), number(count), longest, Text(reason))
    console.print(table)


def _show_explanation(what: str, found: Result) -> None:
    if not found.waiting:
        console.print(f"{what}: nothing is pending", markup=False, soft_wrap=True)
        if found.last is not None:
            console.print(
                f"  last: {at(found.last.at_ms)}  {with_units(found.last.text)}", markup=False, soft_wrap=True
            )
    now_ms = past.now_ms()
    for ask, *others in alike(found.waiting):
        more = f" ({ask.pending} pending)" if ask.pending > 1 else ""
        console.print(Text.assemble((f"{ask.key}{more}", "bold")))
        if others:
            _print_indented(_waiting_alike(others), "dim")
        for reason, held_by in zip_longest(reasons_of(ask), holders_of(ask, now_ms)):
            _print_indented(reason)
            if held_by:
                _print_indented(held_by, "dim", "    ")
        for line in (waiting_time(ask, now_ms), position_of(ask)):
            _print_indented(line, "dim")
        if ask.forecast is not None:
            _print_indented(sentence(ask.forecast, now_ms), "dim")
        for line in earlier(ask, now_ms):
            _print_indented(line, "dim")
    if found.not_forecast:
        _print_indented(f"no forecast of when they start: {found.not_forecast}", "dim", "")
    if found.changes is not None:
        _show_changes(found.changes)


def _waiting_alike(others: Sequence[ExplainedAsk]) -> str:
    """The asks that wait like the one that is shown, by their keys."""
    keys = [ask.key for ask in others[: limits.ASKS_ALIKE_NAMED]]
    more = len(others) - len(keys)
    named = ", ".join(keys) + (f" and {number(more)} more" if more else "")
    one = len(others) == 1
    return f"{number(len(others))} other ask{'' if one else 's'} of it wait{'s' if one else ''} alike: {named}"


def _show_changes(found: WhatIf) -> None:
    if found.runs:
        _print_indented(f"runs in the next {found.passes} s without a change", indent="")
        return
    for place, change in enumerate(found.changes):
        _print_indented("or if" if place else "would run if", "bold", "")
        for step in change.steps:
            _print_indented(in_words(step))
        if not change.exact:
            _print_indented("found by halving: somewhat less may do", "dim")
    if not found.changes:
        _print_indented("no change of these kinds would let it run", indent="")
    if not found.complete:
        _print_indented(f"given up after {found.trials} trials: there may be other changes", "dim", "")


def _print_indented(line: str, style: str = "", indent: str = "  ") -> None:
    """With lines that go on behind the indent."""
    console.print(Padding(Text(line, style), (0, 0, 0, len(indent)), expand=False))


def explain_pod(url: str, rm: str, pod: str, as_json: bool, what_if: bool = False) -> None:
    """`pod`: namespace and name, with a slash. Raises UserError for a pod that the scheduler does not know."""
    namespace, _, name = pod.partition("/")
    found = answered(url, lambda bus: ask_of(bus, rm, namespace, name))
    if found is None:
        raise UserError(
            f"{rm} has no ask or allocation of pod {pod}: it has ended, waits for its gang, claims or gates, or "
            f"is another scheduler's; `kubectl describe pod -n {namespace} {name}` says more"
        )
    explain(url, rm, *found, as_json, what_if)


async def ask_of(bus: Bus, rm: str, namespace: str, name: str) -> tuple[str, str] | None:
    """Application and key of the ask of a pod that waits or runs. O(asks and allocations)."""
    for kind in ("asks", "allocations"):
        async for page in pages_of(bus, kind, Rows, rm=rm):
            for row in getattr(page, kind):
                tags = row["tags"]
                if tags.get(POD_NAME) == name and tags.get(NAMESPACE) == namespace:
                    return str(row["application"]), str(row["key"])
    return None
