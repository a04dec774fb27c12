"""`remuda top [RM]`: queues, nodes and reasons to wait of resource managers, live."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from remuda_bus.bus import Bus, BusError
from remuda_operations.queries import core as queries
from remuda_operations.queries.core import ask_core
from remuda_operations.queries.records import rm_ids
from remuda_operations.queries.rows import Explanation, Nodes, Queues

from .. import limits
from ..client.connections import bus_at
from ..errors import Stopped, UserError
from ..terminal import event_loop
from ..terminal.output import console, is_live
from ..terminal.units import number, shares
from .node_blocks import cut, node_line
from .queue_tree import applications, tree
from .wait_reasons import reasons_of


@dataclass(slots=True)
class Moment:
    """An RM as it is now. `reasons`: those of its first asks that wait, `counted` of them; None: of all. `made`: all
    allocations that were ever made, at `at_s`; `rate`: those a second since the moment before, None: there was none.
    `error`: why the core has not answered."""

    rm: str
    queues: Queues = field(default_factory=Queues)
    nodes: Nodes = field(default_factory=Nodes)
    reasons: Counter[str] = field(default_factory=Counter)
    counted: int | None = None
    made: int = 0
    at_s: float = 0.0
    rate: float | None = None
    error: str = ""


def top(url: str, rm: str | None, plain: bool) -> None:
    """Shows what happens until Ctrl-C; once where there is no terminal."""
    with contextlib.suppress(Stopped):
        event_loop.run(lambda: _top(url, rm, is_live(plain)))


async def _top(url: str, rm: str | None, live: bool) -> None:
    async with bus_at(url) as bus:
        if not live:
            before = {one.rm: one for one in await _look(bus, rm, {})}
            await asyncio.sleep(limits.RATE_OVER_S)
            found = await _look(bus, rm, before)
            if all(one.error for one in found):
                raise UserError(found[0].error if found else "no resource manager is registered")
            console.print(screen(found, console.width, None))
            return
        before = {}
        with Live(console=console, auto_refresh=False, screen=True) as view:
            while True:
                moments = await _look(bus, rm, before)
                before = {one.rm: one for one in moments}
                view.update(screen(moments, console.width, console.height), refresh=True)
                await asyncio.sleep(limits.WATCH_EVERY_S)


async def _look(bus: Bus, rm: str | None, before: dict[str, Moment]) -> list[Moment]:
    rms = [rm] if rm is not None else await rm_ids(bus)
    found: list[Moment] = []
    for start in range(0, len(rms), limits.ASKED_AT_ONCE):
        some = rms[start : start + limits.ASKED_AT_ONCE]
        found += await asyncio.gather(*(_moment(bus, one, before.get(one)) for one in some))
    return sorted(found, key=lambda one: one.rm)


async def _moment(bus: Bus, rm: str, before: Moment | None) -> Moment:
    moment = Moment(rm)
    try:
        moment.queues, moment.nodes = await queries.queues(bus, rm), await queries.nodes(bus, rm)
        waiting = await ask_core(bus, "explain", Explanation, rm=rm, limit=limits.TOP_ASKS)
        moment.made = int((await ask_core(bus, "stats", dict, rm=rm))["allocations_ever"])
    except (UserError, BusError) as error:
        moment.error = str(error)
        return moment
    moment.at_s = time.monotonic()
    if waiting.next is not None:
        moment.counted = len(waiting.asks)
    for ask in waiting.asks:
        moment.reasons[reasons_of(ask)[0]] += max(1, ask.pending)
    if before is not None and before.at_s:
        moment.rate = (moment.made - before.made) / (moment.at_s - before.at_s)
    return moment


def screen(moments: Sequence[Moment], width: int, height: int | None) -> RenderableType:
    """Draws a screen of at most `height` - 1 rows; None: as many as there are. Pure."""
    if not moments:
        return Text("no resource manager is registered", style="dim")
    rows = None if height is None else max(4, (height - 1) // len(moments))
    lines = [line for moment in moments for line in _of_rm(moment, width, rows)]
    return Group(*lines)


def _of_rm(moment: Moment, width: int, rows: int | None) -> list[RenderableType]:
    """The head, the queues, the nodes, and with what is left the reasons."""
    if moment.error:
        return [cut(Text.assemble((moment.rm, "bold"), ("  " + moment.error, "red")), width)]
    parts: list[RenderableType] = [_head(moment, width)]
    partitions = moment.queues.partitions
    reasons = [cut(Text.assemble((f"{number(count):>6} wait  ", "yellow"), reason), width)
               for reason, count in moment.reasons.most_common(limits.TOP_REASONS)]  # fmt: skip
    if moment.counted is not None:
        note = f"why the first {number(moment.counted)} of the asks wait; `remuda explain {moment.rm}` counts all"
        reasons.insert(0, cut(Text(note, style="dim"), width))
    if rows is not None:
        reasons = reasons[: max(0, rows // 4)]
    for partition in partitions:
        left = None if rows is None else max(2, (rows - 2 - len(reasons)) // len(partitions) - 1)
        parts.append(tree(partition, width, left, title="queue" if len(partitions) == 1 else partition.name))
    return [*parts, node_line(moment.rm, moment.nodes, width), *reasons]


def _head(moment: Moment, width: int) -> Text:
    """With as many resources as have room, the fullest first."""
    partitions = moment.queues.partitions
    used: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for partition in partitions:
        used.update(partition.allocated)
        total.update(partition.total)
    count = sum(applications(partition.queues) for partition in partitions)
    state = "green" if moment.queues.state == "Running" else "yellow"
    rate = "" if moment.rate is None else f"{number(round(moment.rate, 1))} allocations/s  "
    plural = "" if count == 1 else "s"
    head = Text.assemble(
        (moment.rm, "bold"), "  ", (moment.queues.state, state), "  ", rate, f"{number(count)} application{plural}"
    )
    found = shares(used, total)
    for index, share in enumerate(found):
        more = ", …" if index + 1 < len(found) else ""
        if head.cell_len + 2 + len(share) + len(more) > width:
            return cut(head.append(", …" if index else ""), width)
        head.append(("  " if index == 0 else ", ") + share)
    return head
