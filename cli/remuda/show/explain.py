"""`remuda explain`: reasons why asks are pending; for others the newest fact in the log."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_bus.queries import RequestRefused
from remuda_bus.queries import core as queries
from remuda_bus.queries.rows import Ask, Explanation
from remuda_bus.queries.status_codes import NOT_FOUND
from remuda_events.stories.story import StoryLine, StoryTarget
from remuda_events.story_reader import lines

from ..client.connections import bus_at
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console
from ..terminal.units import number
from .story import at
from .wait_reasons import position_of, reasons_of, waiting_time, with_units


@dataclass(frozen=True, slots=True)
class Result:
    """`last`: the newest fact about an application or ask that is not pending."""

    explanation: Explanation
    last: StoryLine | None = None

    @property
    def waiting(self) -> list[Ask]:
        return [ask for ask in self.explanation.asks if ask.pending]


def explain(url: str, rm: str, application: str | None, key: str | None, as_json: bool) -> None:
    found = event_loop.run(lambda: _ask(url, rm, application, key))
    if as_json:
        last = {"at_ms": found.last.at_ms, "text": found.last.text} if found.last else None
        print(msgspec.json.encode({**msgspec.to_builtins(found.explanation), "last": last}).decode())
    elif application is None:
        _show_waiting(rm, found.explanation)
    else:
        _show_explanation(f"{application} {key}" if key else application, found)


async def _ask(url: str, rm: str, application: str | None, key: str | None) -> Result:
    async with bus_at(url) as bus:
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
            return found
        last = await _last(bus, rm, application, key)
        if last is None and key is not None:
            raise UserError(f"{application} has no ask {key!r}, and the log of {rm} has no fact about one")
        return Result(found.explanation, last)


async def _last(bus: Bus, rm: str, application: str | None, key: str | None) -> StoryLine | None:
    """The newest fact about an application or ask."""
    sought = StoryTarget(key, application or "") if key is not None else StoryTarget(application or "")
    last = None
    async for line in lines(bus, rm, sought):
        last = line
    return last


def _show_waiting(rm: str, found: Explanation) -> None:
    """One line for each application and reason."""
    if not found.asks:
        console.print(f"{rm}: nothing is pending", markup=False)
        return
    pieces: Counter[tuple[str, str, str]] = Counter()
    for ask in found.asks:
        pieces[ask.queue, ask.application, reasons_of(ask)[0]] += max(1, ask.pending)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("queue", "application"):
        table.add_column(name, overflow="fold")
    table.add_column("waiting", justify="right")
    table.add_column("first reason", overflow="fold")
    for (queue, application, reason), count in sorted(pieces.items()):
        table.add_row(Text(queue), Text(application), number(count), Text(reason))
    console.print(table)


def _show_explanation(what: str, found: Result) -> None:
    if not found.waiting:
        console.print(f"{what}: nothing is pending", markup=False, soft_wrap=True)
        if found.last is not None:
            console.print(
                f"  last: {at(found.last.at_ms)}  {with_units(found.last.text)}", markup=False, soft_wrap=True
            )
    for ask in found.waiting:
        more = f" ({ask.pending} pending)" if ask.pending > 1 else ""
        console.print(Text.assemble((f"{ask.key}{more}", "bold")))
        for reason in reasons_of(ask):
            console.print(Text.assemble("  ", reason))
        for line in (waiting_time(ask, time.time() * 1_000), position_of(ask)):
            console.print(Text.assemble("  ", (line, "dim")))
