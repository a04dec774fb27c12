"""`remuda load`: run a workload against a system and report."""

from __future__ import annotations

import asyncio
import contextlib
import json as jsonlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from remuda_bus.bus import BusError
from remuda_bus.subjects import check_rm_id
from remuda_sdk import RegistrationFailed

from ...client.connections import bus_at
from ...errors import Stopped, UserError
from ...local.system import Layout, System
from ...terminal import event_loop
from ...terminal.output import console, is_live, print_line
from ..driver import Driver, drive
from ..pending_reasons import by_reason
from ..rm_state import Record
from .plot import check_file, file_plot, terminal_plot
from .progress import shown
from .replay import NoAnswer
from .report import Report, figures, report
from .workload import Workload, workload

CLEAN_WITHIN_S = 10.0
PLOT_ROWS = 14


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `remuda load`, as on the command line."""

    nats: str | None
    nodes: int
    apps: int
    asks: int
    rate: float | None
    duration_s: float | None
    trace: tuple[str, Path, Path] | None
    speed: float | None
    queue: str
    devices: bool
    rm: str | None
    keep: bool
    plot: Path | None
    json: Path | None
    record: Path | None
    plain: bool


def load(options: Options) -> None:
    """Submits a workload and prints a report. Raises UserError if a callback was wrong."""
    if options.queue and options.nats is None:
        raise UserError("--queue needs --nats: a system of its own has no such queue")
    work = workload(
        options.nodes, options.apps, options.asks, options.rate, options.duration_s, options.trace, options.speed,
        options.queue, options.devices,
    )  # fmt: skip
    rm = _rm_id(options)
    if options.plot:
        check_file(options.plot)
    with contextlib.ExitStack() as stack:
        record = _recorder(stack, options.record)
        stopped: list[Report] = []
        try:
            found = event_loop.run(lambda: _load(options, work, rm, record, stopped))
        except (NoAnswer, BusError) as error:
            raise UserError(f"the load was not completed: {error}") from None
        except Stopped:
            if stopped:
                _show(options, work, stopped[0])
            raise
    _show(options, work, found)
    if found.faults:
        raise UserError(f"{len(found.faults)} wrong callbacks, the first: {found.faults[0]}")


async def _load(options: Options, work: Workload, rm: str, record: Record | None, stopped: list[Report]) -> Report:
    """If it is cancelled, the report up to then is in `stopped`."""
    plain = not is_live(options.plain)
    async with contextlib.AsyncExitStack() as stack:
        url = options.nats or (await stack.enter_async_context(_own_system(plain))).url
        bus = await stack.enter_async_context(bus_at(url))
        temporary = options.nats is not None and not options.keep
        driving = drive(url, rm, config=work.config, record=record, placed=work.placed, temporary=temporary)
        driver = await stack.enter_async_context(driving)
        try:
            async with shown(work, driver.rm_state, plain):
                await work.run(driver, bus)
        except asyncio.CancelledError:
            waiting = len(driver.rm_state.waiting)
            why = Counter({"unknown: the load was stopped": waiting} if waiting else {})
            stopped.append(report(rm, work, driver.rm_state, why))
            if options.nats and not options.keep:
                with contextlib.suppress(BusError, RegistrationFailed):
                    await _clean_up(driver)
            raise
        pending: Counter[str] = Counter()
        for (_, reason), count in (await by_reason(bus, driver)).items():
            pending[reason] += count
        found = report(rm, work, driver.rm_state, pending)
        if options.nats and not options.keep:
            await _clean_up(driver)
        return found


@contextlib.asynccontextmanager
async def _own_system(plain: bool) -> AsyncIterator[System]:
    """Started for this load, on a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="remuda-load-") as data, contextlib.ExitStack() as starting:
        if not plain:
            starting.enter_context(console.status("starting a system"))
        async with System(Layout(Path(data), log_level="warning")) as system:
            await system.ready()
            starting.close()
            if plain:
                print_line("load", f"own system ready at {system.url}")
            yield system


async def _clean_up(driver: Driver) -> None:
    """Remove everything that the load has added to the system."""
    rm_state = driver.rm_state
    await driver.remove([name for name, state in rm_state.application_states.items() if state != "Rejected"])
    await driver.until(lambda: not rm_state.running, CLEAN_WITHIN_S)
    await driver.decommission(rm_state.node_names())


def _rm_id(options: Options) -> str:
    try:
        return check_rm_id(options.rm or f"load-{int(time.time()):x}-{os.getpid()}")
    except ValueError as error:
        raise UserError(f"--rm: {error}") from None


def _recorder(stack: contextlib.ExitStack, path: Path | None) -> Record | None:
    if path is None:
        return None
    try:
        file = stack.enter_context(path.open("w", encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--record {path}: {error.strerror}") from None

    def write(entry: dict[str, Any]) -> None:
        file.write(jsonlib.dumps(entry, separators=(",", ":")) + "\n")

    return write


def _show(options: Options, work: Workload, found: Report) -> None:
    to_stdout = options.json is not None and str(options.json) == "-"
    if options.plot:
        file_plot(work.samples, work.unit, f"{found.workload}: {found.placed:,} placed", options.plot)
    if options.json is not None:
        text = msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"
        if to_stdout:
            print(text, end="")
            return
        try:
            options.json.write_text(text)
        except OSError as error:
            raise UserError(f"--json {options.json}: {error.strerror}") from None
    colour = console.is_terminal
    plot = terminal_plot(work.samples, work.unit, min(console.width, 120), PLOT_ROWS, colour)
    if plot:
        print(plot)
    console.print(figures(found))
    for option, path in (("plot", options.plot), ("report", options.json), ("record", options.record)):
        if path is not None:
            console.print(f"{option} written to {path}", style="dim", markup=False)
