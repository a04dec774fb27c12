"""`remuda up`: the whole system on this machine until Ctrl-C, with a table of its processes or plain lines."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.live import Live

from ..errors import Stopped, UserError
from ..terminal import arguments
from ..terminal.event_loop import run
from ..terminal.output import console, is_live, print_line, print_log_line
from .process_table import Usage, screen
from .services import STARTED, check_extras, check_settings
from .supervisor import Process, State
from .system import NATS, Layout, System

if TYPE_CHECKING:
    from remuda_grpc.settings import GrpcSettings
    from remuda_web.settings import WebSettings

REDRAW_EVERY_S = 0.5


def up(given: Layout, plain: bool) -> None:
    """Run until a signal. All processes are stopped when this returns. `given`: ports that are None are those of the
    settings, but for Peloton's."""
    if given.config is not None:
        arguments.readable("--config", given.config)
    elif Path("queues.yaml").exists():
        console.print("remuda: queues.yaml is not in use; `--config queues.yaml` uses it", style="dim", markup=False)
    more = (
        *(("resmgr", "placement") if given.peloton_port is not None else ()),
        *(("archive", "history") if given.archive else ()),
    )
    loaded = check_settings((*STARTED, *more), given.settings, given.assignments)
    check_extras(loaded)
    layout = replace(
        given,
        data=given.data.resolve(),
        archive=given.archive and _absolute(given.archive),
        settings=given.settings and given.settings.resolve(),
        grpc_port=_or(given.grpc_port, cast("GrpcSettings", loaded["grpc"].settings).port),
        web_port=_or(given.web_port, cast("WebSettings", loaded["web"].settings).port),
    )
    if layout.peloton_engines and layout.peloton_port is None:
        raise UserError("--peloton-engines needs --peloton-port")
    _check_port("--port", layout.port)
    _check_port("--grpc-port", layout.grpc_port)
    _check_port("--web-port", layout.web_port)
    _check_port("--peloton-port", layout.peloton_port)
    try:
        run(lambda: _live(layout) if is_live(plain) else _plain(layout))
    except Stopped:
        console.print("remuda: stopped.")


def _or(port: int | None, other: int) -> int:
    return other if port is None else port


def _absolute(archive: str) -> str:
    """A directory is the same for every process, wherever it was started."""
    return archive if "://" in archive else str(Path(archive).resolve())


async def _plain(layout: Layout) -> None:
    async with System(layout, print_state, print_log_line) as system:
        print_line("remuda", f"nats {system.url}, data and logs in {layout.data}")
        await _until_ready(system)
        print_line("remuda", f"ready: {', '.join(p.name for p in system.processes)}; Ctrl-C stops")
        print_line("remuda", f"web page {system.web_page}")
        await asyncio.Event().wait()


async def _until_ready(system: System) -> None:
    """Wait without time-out, and print now and then which services are not ready."""
    while True:
        try:
            return await system.ready()
        except UserError as late:
            print_line("remuda", str(late))


async def _live(layout: Layout) -> None:
    usage = Usage()
    with Live(console=console, auto_refresh=False, screen=True) as view:
        redraw = asyncio.Event()
        async with System(layout, lambda process: redraw.set()) as system:
            try:
                await _paint(view, system, usage, redraw)
            finally:
                view.update(screen(system, usage.of(system.processes), "stopping ..."), refresh=True)


async def _paint(view: Live, system: System, usage: Usage, redraw: asyncio.Event) -> None:
    """Redraw at every change of state, and at least every half second."""
    while True:
        view.update(screen(system, usage.of(system.processes)), refresh=True)
        try:
            async with asyncio.timeout(REDRAW_EVERY_S):
                await redraw.wait()
        except TimeoutError:
            pass
        redraw.clear()


def print_state(process: Process) -> None:
    """Print a change of state as one line."""
    text = {
        State.STARTING: f"started, process {process.pid}",
        State.READY: f"ready, process {process.pid}" if process.name == NATS else "ready",
        State.WAITING: f"ended ({process.ended or 'gone'}), restarting; restarts: {process.restarts}",
        State.STOPPING: "stopping",
        State.STOPPED: "stopped",
    }[process.state]
    print_line(process.name, text)


def _check_port(option: str, port: int | None) -> None:
    """Check the port first, because a child process reports it in its log only."""
    if not port:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"{option} {port}: {error.strerror}; is another remuda running? {option} 0 selects a free port"
            ) from None
