"""`remuda up`: the whole system on this machine until Ctrl-C, with a table of its processes or plain lines."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from rich.live import Live

from . import terminal
from .errors import UserError
from .loop import Stopped, run
from .screens.processes import Usage, screen
from .supervise import Process, State
from .system import NATS, Layout, System

REDRAW_EVERY_S = 0.5


def up(*, data: Path, port: int, config: Path | None, cores: int, rmproxies: int, plain: bool) -> None:
    """Runs until a signal; everything is stopped, in order, when this returns."""
    if config is not None and not config.is_file():
        raise UserError(f"--config {config}: no such file")
    _check_port(port)
    layout = Layout(data.resolve(), port, config, cores, rmproxies)
    try:
        run(lambda: _live(layout) if terminal.live(plain) else _plain(layout))
    except Stopped:
        terminal.console.print("remuda: stopped.")


async def _plain(layout: Layout) -> None:
    async with System(layout, say, terminal.line) as system:
        terminal.line("remuda", f"nats {system.url}, data and logs in {layout.data}")
        await _until_ready(system)
        terminal.line("remuda", f"ready: {', '.join(p.name for p in system.processes)}; Ctrl-C stops")
        await asyncio.Event().wait()


async def _until_ready(system: System) -> None:
    """However long it takes: whoever runs a system wants it kept running. What it waits for is said now and then."""
    while True:
        try:
            return await system.ready()
        except UserError as late:
            terminal.line("remuda", str(late))


async def _live(layout: Layout) -> None:
    usage = Usage()
    with Live(console=terminal.console, auto_refresh=False, screen=True) as view:
        redraw = asyncio.Event()
        async with System(layout, lambda process: redraw.set()) as system:
            try:
                await _paint(view, system, usage, redraw)
            finally:
                view.update(screen(system, usage.of(system.processes), "stopping ..."), refresh=True)


async def _paint(view: Live, system: System, usage: Usage, redraw: asyncio.Event) -> None:
    """At every change of state, and at least every half second."""
    while True:
        view.update(screen(system, usage.of(system.processes)), refresh=True)
        try:
            async with asyncio.timeout(REDRAW_EVERY_S):
                await redraw.wait()
        except TimeoutError:
            pass
        redraw.clear()


def say(process: Process) -> None:
    """A change of state as a line."""
    text = {
        State.STARTING: f"started, process {process.pid}",
        State.READY: f"ready, process {process.pid}" if process.name == NATS else "ready",
        State.WAITING: f"ended ({process.ended or 'gone'}), is started again; restarts so far: {process.restarts}",
        State.STOPPING: "stopping",
        State.STOPPED: "stopped",
    }[process.state]
    terminal.line(process.name, text)


def _check_port(port: int) -> None:
    """nats-server would only say so in its log."""
    if port == 0:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"--port {port}: {error.strerror}; is another remuda running? --port 0 takes any free one"
            ) from None
