"""`remuda demo`: an own system, the scene played on it, a screen or lines, a summary."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.live import Live

from remuda_bus.bus import Bus, BusError

from .. import loop, terminal
from ..driver import drive
from ..errors import UserError
from ..look import bus_at
from ..pending import by_reason
from ..screens.demo import screen
from ..supervise import Process, State
from ..system import Layout, System
from .scene import queues_file, sites
from .simulation import Simulation
from .summary import Outcome, outcome, table
from .watch import Counting, View, ask_core

DRAW_EVERY_S = 0.25
LINE_EVERY_S = 4.0
SHORTEST_PLAY_S = 2.0
STOPPING_TAKES_S = 0.7  # kept of the time for the end


def demo(*, seconds: float, plain: bool) -> None:
    """UserError when something went wrong on the way."""
    try:
        result = loop.run(lambda: _demo(seconds, not terminal.live(plain)))
    except BusError as error:
        raise UserError(f"demo: the bus failed: {error}") from None
    terminal.console.print(table(result, terminal.console.width))
    if result.faults:
        raise UserError(f"demo: {result.faults[0]}")


async def _demo(seconds: float, plain: bool) -> Outcome:
    started = time.monotonic()
    simulations = [Simulation(site) for site in sites()]
    async with contextlib.AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="remuda-demo-")))
        (data / "queues.yaml").write_text(queues_file())
        layout = Layout(data, config=data / "queues.yaml", log_level="warning")
        view = View("", seconds)
        changed = _say if plain else None
        system = System(layout, changed, terminal.line if plain else None)
        await stack.enter_async_context(_shown(system, view, simulations, started, plain))
        await stack.enter_async_context(system)
        await system.ready()
        view.url = system.url
        bus = await stack.enter_async_context(bus_at(system.url))
        return await _play(stack, bus, system, simulations, view, started)


async def _play(
    stack: contextlib.AsyncExitStack,
    bus: Bus,
    system: System,
    simulations: Sequence[Simulation],
    view: View,
    started: float,
) -> Outcome:
    view.doing = "registering"
    for simulation in simulations:
        site = simulation.site
        driver = await stack.enter_async_context(
            drive(system.url, site.rm_id, config=site.config, placed=simulation.placed)
        )
        await simulation.prepare(driver)
    view.doing = "running"
    asking = asyncio.create_task(ask_core(bus, simulations, view))
    left = max(SHORTEST_PLAY_S, view.seconds - STOPPING_TAKES_S - (time.monotonic() - started))
    try:
        async with asyncio.TaskGroup() as players:
            for simulation in simulations:
                assert simulation.driver is not None
                players.create_task(simulation.play(simulation.driver, left))
    except* UserError as errors:
        raise errors.exceptions[0] from None
    finally:
        asking.cancel()
    view.doing = "stopping"
    pending = await _pending(bus, simulations)
    result = outcome(simulations, left, pending, view.queues)
    result.faults += [f"{p.name} was restarted: {p.ended}: {p.last_line}" for p in system.processes if p.restarts]
    return result


async def _pending(bus: Bus, simulations: Sequence[Simulation]) -> Counter[tuple[str, str]]:
    """What waits at the end, and why."""
    reasons: Counter[tuple[str, str]] = Counter()
    for simulation in simulations:
        assert simulation.driver is not None
        for (application, reason), count in (await by_reason(bus, simulation.driver)).items():
            reasons[simulation.site.rm_id, f"{application}: {reason}"] += count
    return reasons


@contextlib.asynccontextmanager
async def _shown(
    system: System, view: View, simulations: Sequence[Simulation], started: float, plain: bool
) -> AsyncIterator[None]:
    """While the body runs: a live screen, or a line now and then."""
    counting = Counting(view, simulations)
    with contextlib.ExitStack() as stack:
        live = None if plain else stack.enter_context(Live(console=terminal.console, auto_refresh=False, screen=True))
        painter = asyncio.create_task(
            _lines(view, counting, started) if live is None else _paint(live, system, view, counting, started)
        )
        try:
            yield
        finally:
            painter.cancel()
            results = await asyncio.gather(painter, return_exceptions=True)
            if isinstance(results[0], Exception):
                raise results[0]


async def _paint(live: Live, system: System, view: View, counting: Counting, started: float) -> None:
    while True:
        counting.look(time.monotonic() - started)
        view.processes = [(p.name, str(p.state), p.restarts) for p in system.processes]
        # Drawing takes tens of milliseconds: in a thread it does not hold up the resource managers.
        await asyncio.to_thread(_draw, live, replace(view, queues=dict(view.queues), nodes=dict(view.nodes)))
        await asyncio.sleep(DRAW_EVERY_S)


def _draw(live: Live, view: View) -> None:
    live.update(screen(view, terminal.console.width, terminal.console.height), refresh=True)


async def _lines(view: View, counting: Counting, started: float) -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        counting.look(time.monotonic() - started)
        if view.doing == "running":
            rate = view.rates[-1] if view.rates else 0
            terminal.line(
                "demo",
                f"{view.placed:,} placed ({rate:,.0f}/s), {view.released:,} released, "
                f"{view.waiting:,} wait, {view.rejected} rejected",
            )


def _say(process: Process) -> None:
    """Only what is worth a line in a short demo."""
    if process.state is State.READY:
        terminal.line(process.name, f"ready, process {process.pid}")
    elif process.state is State.WAITING:
        terminal.line(process.name, f"ended ({process.ended}): {process.last_line}")
