"""`remuda story ID`: all facts about an application, ask, allocation, node or queue, with their causes.

Reads the log itself: it needs no core, and covers objects that are no longer in the state. Resource managers of Peloton
read their logs for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_events.stories.story import StoryLine, StoryTarget
from remuda_events.story_reader import first_commit, lines
from remuda_operations.queries import NoAnswer, peloton
from remuda_operations.queries.records import rm_ids

from ..client.connections import bus_at
from ..errors import UserError
from ..terminal import event_loop
from ..terminal.output import console, is_wide, print_entry
from ..terminal.units import at
from .peloton import cluster_of, print_story
from .wait_reasons import with_units


def story(url: str, what: str, rm: str | None, as_json: bool) -> None:
    """Print the story from one RM's log, or from all and those of Peloton. UserError if there is no fact."""
    try:
        sought = StoryTarget.parse(what)
        rms = None if rm is None else [subjects.check_rm_id(rm)]
    except ValueError as error:
        raise UserError(str(error)) from None
    event_loop.run(lambda: _story(url, what, sought, rms, as_json))


async def _story(url: str, what: str, sought: StoryTarget, rms: list[str] | None, as_json: bool) -> None:
    silent, found = list[str](), False
    async with bus_at(url) as bus:
        for rm in rms or await rm_ids(bus):
            count = 0
            async for alike in _groups(lines(bus, rm, sought), of_one=as_json or is_wide()):
                count += len(alike)
                _print(rm, alike, as_json)
            found |= _ended(count, await _reach(bus, rm), silent, as_json)
        for log_id in await _logs_of_peloton(bus) if rms is None else ():
            try:
                told = await peloton.story(bus, cluster_of(log_id), what)
            except NoAnswer as error:
                silent.append(str(error))
                continue
            print_story(cluster_of(log_id), told, as_json)
            found |= _ended(len(told), f"the log of {log_id}", silent, as_json)
    if not found:
        raise UserError(f"no fact about {what!r}: {'; '.join(silent) or 'no resource manager is registered'}")


async def _logs_of_peloton(bus: Bus) -> list[str]:
    """The logs of Peloton clusters that are led, or were."""
    led = [subjects.rm_of_key(entry.key) for entry in await bus.entries(subjects.LEADERS.name)]
    return [log_id for log_id in led if subjects.is_peloton(log_id)]


def _ended(count: int, reach: str, silent: list[str], as_json: bool) -> bool:
    """Print the number of facts, or note that `reach` has none. Return whether there was a fact."""
    if not count:
        silent.append(reach)
    elif not as_json:
        console.print(Text(f"{count} fact{'s' if count > 1 else ''} in {reach}", style="dim"), soft_wrap=True)
    return count > 0


async def _reach(bus: Bus, rm: str) -> str:
    """How far back the log goes."""
    first = await first_commit(bus, rm)
    if first is None:
        return f"the log of {rm} is empty"
    before = " (complete)" if first.commit.parent == 0 else " (older commits are deleted)"
    return f"the log of {rm}, kept since {at(first.commit.now_ms)}{before}"


async def _groups(found: AsyncIterator[StoryLine], of_one: bool) -> AsyncIterator[list[StoryLine]]:
    """Lines that follow each other and say the same of different things at the same time: a hundred alike asks read as
    one line. `of_one`: each line alone."""
    group: list[StoryLine] = []
    async for line in found:
        if group and (of_one or _said(line) != _said(group[0])):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _said(line: StoryLine) -> tuple[object, ...]:
    return line.at_ms, line.kind, line.cause, line.trace_id, line.text.partition(" ")[2]


def _print(rm: str, alike: list[StoryLine], as_json: bool) -> None:
    line = alike[0]
    if as_json:
        print(json.dumps({"rm": rm, **asdict(line), "cause": line.cause}))
        return
    trace = f", trace {line.trace_id}" if line.trace_id else ""
    where = f"{rm}  {line.log_seq}  {line.kind}  " if is_wide() else ""
    last = alike[-1].text.partition(" ")[0]
    more = f"; {len(alike) - 1} more alike, up to {last}" if len(alike) > 1 else ""
    text = Text(f"{where}{with_units(line.text)}{more}")
    print_entry(at(line.at_ms), text.append(f"  [{line.cause}{trace}]", style="dim"))
