"""`remuda demo`: start a system, run the simulation on it, print a summary."""

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

from ...client.connections import bus_at
from ...errors import Stopped, UserError
from ...local.supervisor import Process, State
from ...local.system import Layout, System
from ...terminal import event_loop
from ...terminal.output import console, is_live, own_command, print_line
from ..driver import drive
from ..pending_reasons import by_reason
from .scene import Site, gpu_sites, queues_file, sites
from .screen import screen
from .simulation import Simulation
from .summary import Outcome, next_steps, outcome, table
from .watch import View, ViewUpdater, ask_core

DRAW_EVERY_S = 0.25
LINE_EVERY_S = 4.0
SHORTEST_PLAY_S = 2.0
STOPPING_TAKES_S = 0.7  # kept of the time for the end


def demo(*, seconds: float, plain: bool, web_port: int | None, gpu: bool = False) -> None:
    """Runs the demo. With a port, it serves the page, runs until a signal and prints no summary. `gpu`: a cluster of
    GPUs in racks. Raises UserError if there was a fault.
    """
    try:
        result = event_loop.run(lambda: _demo(seconds, not is_live(plain), web_port, gpu_sites() if gpu else sites()))
    except Stopped:
        if web_port is None:
            raise
        console.print("remuda demo: stopped.")
        console.print(next_steps(seen_page=True), markup=False, highlight=False, soft_wrap=True)
        return
    except BusError as error:
        raise UserError(f"demo: the NATS server does not answer any more: {error}") from None
    console.print(table(result, console.width))
    if result.faults:
        raise UserError(f"demo: {result.faults[0]}")
    console.print(next_steps(seen_page=False), markup=False, highlight=False, soft_wrap=True)


async def _demo(seconds: float, plain: bool, web_port: int | None, played: Sequence[Site]) -> Outcome:
    started = time.monotonic()
    simulations = [Simulation(site) for site in played]
    async with contextlib.AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="remuda-demo-")))
        (data / "queues.yaml").write_text(queues_file())
        layout = Layout(data, config=data / "queues.yaml", web_port=web_port, log_level="warning")
        view = View("", seconds)
        changed = _print_state if plain else None
        system = System(layout, changed, print_line if plain else None)
        await stack.enter_async_context(_shown(system, view, simulations, started, plain))
        await stack.enter_async_context(system)
        await system.ready()
        view.url = system.url
        view.page = system.web_page
        view.look = f"{own_command()} top --nats {system.url}"
        if plain and view.page:
            print_line("demo", f"web page {view.page}; Ctrl-C stops")
            print_line("demo", f"in another terminal: {view.look}")
        if plain and any(site.attributes for site in played):
            print_line("demo", f"in another terminal: {own_command()} topology --nats {system.url}")
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
    view.phase = "registering"
    for simulation in simulations:
        site = simulation.site
        driver = await stack.enter_async_context(
            drive(system.url, site.rm_id, config=site.config, placed=simulation.placed)
        )
        await simulation.prepare(driver)
    view.phase = "running"
    asking = asyncio.create_task(ask_core(bus, simulations, view))
    left = max(SHORTEST_PLAY_S, view.seconds - STOPPING_TAKES_S - (time.monotonic() - started))
    try:
        async with asyncio.TaskGroup() as players:
            for simulation in simulations:
                assert simulation.driver is not None
                players.create_task(simulation.play(simulation.driver, left, system.layout.web_port is not None))
    except* UserError as errors:
        raise errors.exceptions[0] from None
    finally:
        asking.cancel()
    view.phase = "stopping"
    pending = await _pending(bus, simulations)
    result = outcome(simulations, left, pending, view.queues)
    result.faults += [f"{p.name} was restarted: {p.ended}: {p.last_line}" for p in system.processes if p.restarts]
    return result


async def _pending(bus: Bus, simulations: Sequence[Simulation]) -> Counter[tuple[str, str]]:
    """Pending asks at the end, by reason."""
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
    updater = ViewUpdater(view, simulations)
    with contextlib.ExitStack() as stack:
        live = None if plain else stack.enter_context(Live(console=console, auto_refresh=False, screen=True))
        painter = asyncio.create_task(
            _lines(view, updater, started) if live is None else _paint(live, system, view, updater, started)
        )
        try:
            yield
        finally:
            painter.cancel()
            results = await asyncio.gather(painter, return_exceptions=True)
            if isinstance(results[0], Exception):
                raise results[0]


async def _paint(live: Live, system: System, view: View, updater: ViewUpdater, started: float) -> None:
    while True:
        updater.update(time.monotonic() - started)
        view.processes = [(p.name, str(p.state), p.restarts) for p in system.processes]
        # Drawing takes tens of milliseconds: in a thread it does not hold up the resource managers.
        await asyncio.to_thread(_draw, live, replace(view, queues=dict(view.queues), nodes=dict(view.nodes)))
        await asyncio.sleep(DRAW_EVERY_S)


def _draw(live: Live, view: View) -> None:
    live.update(screen(view, console.width, console.height), refresh=True)


async def _lines(view: View, updater: ViewUpdater, started: float) -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        updater.update(time.monotonic() - started)
        if view.phase == "running":
            rate = view.rates[-1] if view.rates else 0
            print_line(
                "demo",
                f"{view.placed:,} placed ({rate:,.0f}/s), {view.released:,} released, "
                f"{view.waiting:,} wait, {view.rejected} rejected",
            )


def _print_state(process: Process) -> None:
    """Only what is worth a line in a short demo."""
    if process.state is State.READY:
        print_line(process.name, f"ready, process {process.pid}")
    elif process.state is State.WAITING:
        print_line(process.name, f"ended ({process.ended}): {process.last_line}")
