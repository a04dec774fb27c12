"""`remuda story ID`: everything that ever happened to an application, an ask, an allocation or a node, and why.

Reads the log itself, so it needs no core, and knows what no core remembers any more."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime

from rich.text import Text

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.log import LogEntry, LogReader
from remuda_events.story import Line, Sought, Story

from . import loop
from .entries import registered
from .errors import UserError
from .look import bus_at
from .reasons import shortened
from .terminal import console


def story(url: str, what: str, rm: str | None, as_json: bool) -> None:
    """Of one RM, or of all that are registered. UserError when none has ever heard of it."""
    try:
        sought = Sought.parse(what)
        rms = None if rm is None else [subjects.check_rm_id(rm)]
    except ValueError as error:
        raise UserError(str(error)) from None
    loop.run(lambda: _story(url, sought, rms, as_json))


async def _story(url: str, sought: Sought, rms: list[str] | None, as_json: bool) -> None:
    silent = []
    async with bus_at(url) as bus:
        asked = rms if rms is not None else [subjects.rm_of_key(entry.key) for entry in await registered(bus)]
        for rm in asked:
            told = 0
            async for line in lines(bus, rm, sought):
                told += 1
                _print(rm, line, as_json)
            reach = await _reach(bus, rm)
            if not told:
                silent.append(reach)
            elif not as_json:
                console.print(Text(f"{told} fact{'s' if told > 1 else ''} in {reach}", style="dim"), soft_wrap=True)
    if len(silent) == len(asked):
        raise UserError(f"nothing tells of {str(sought)!r}: {'; '.join(silent) or 'no resource manager is registered'}")


async def lines(bus: Bus, rm: str, sought: Sought) -> AsyncIterator[Line]:
    """Reads up to where the name appears first, which shows whether it is an allocation's; then from the beginning, for
    its story has begun with its ask."""
    first = Story(sought)
    async with aclosing(_told(bus, rm, first)) as told:
        async for _ in told:
            break
        else:
            return
    async for line in _told(bus, rm, Story(first.whole or sought)):
        yield line


async def _told(bus: Bus, rm: str, story: Story) -> AsyncGenerator[Line]:
    async with aclosing(_entries(bus, rm)) as entries:
        async for entry in entries:
            for line in story.tell(entry.seq, entry.commit):
                yield line


async def _entries(bus: Bus, rm: str) -> AsyncGenerator[LogEntry]:
    reader = await LogReader.open(bus, rm, None)  # from the first commit that is kept
    try:
        async for entries in reader.to_end():
            for entry in entries:
                yield entry
    finally:
        await reader.close()


async def _reach(bus: Bus, rm: str) -> str:
    """How far back the log goes."""
    async with aclosing(_entries(bus, rm)) as entries:
        async for first in entries:
            before = ", its beginning" if first.commit.parent == 0 else "; what was before is gone"
            return f"the log of {rm}, kept since {_time(first.commit.now_ms)}{before}"
    return f"the log of {rm} is empty"


def _print(rm: str, line: Line, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"rm": rm, **asdict(line), "cause": line.cause}))
        return
    trace = f", trace {line.trace_id}" if line.trace_id else ""
    text = Text(f"{_time(line.at_ms)}  {shortened(line.text)}")
    console.print(text.append(f"  [{line.cause}{trace}]", style="dim"), soft_wrap=True)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
