"""`remuda load`: wires a workload, a system to drive and a report together."""

from __future__ import annotations

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

from .. import loop, terminal
from ..driver import Driver, drive
from ..errors import UserError
from ..ledger import Record
from ..look import bus_at
from ..pending import by_reason
from ..system import Layout, System
from .plot import check_file, file_plot, terminal_plot
from .progress import shown
from .replay import NoAnswer
from .report import Report, figures, report
from .workload import Workload, workload

CLEAN_WITHIN_S = 10.0
PLOT_ROWS = 14


@dataclass(frozen=True, slots=True)
class Options:
    """As on the command line."""

    nats: str | None
    nodes: int
    apps: int
    asks: int
    rate: float | None
    duration_s: float | None
    trace: tuple[str, Path, Path] | None
    speed: float | None
    rm: str | None
    keep: bool
    plot: Path | None
    json: Path | None
    record: Path | None
    plain: bool


def load(options: Options) -> None:
    """UserError when something came back that a correct scheduler would not have said."""
    work = workload(
        options.nodes, options.apps, options.asks, options.rate, options.duration_s, options.trace, options.speed
    )
    rm = _rm_id(options)
    if options.plot:
        check_file(options.plot)
    with contextlib.ExitStack() as stack:
        record = _recorder(stack, options.record)
        try:
            found = loop.run(lambda: _load(options, work, rm, record))
        except (NoAnswer, BusError) as error:
            raise UserError(f"the load was not finished: {error}") from None
    _show(options, work, found)
    if found.faults:
        raise UserError(f"{len(found.faults)} of the answers were wrong, the first: {found.faults[0]}")


async def _load(options: Options, work: Workload, rm: str, record: Record | None) -> Report:
    plain = not terminal.live(options.plain)
    async with contextlib.AsyncExitStack() as stack:
        url = options.nats or (await stack.enter_async_context(_own_system(plain))).url
        bus = await stack.enter_async_context(bus_at(url))
        driver = await stack.enter_async_context(drive(url, rm, config=work.config, record=record, placed=work.placed))
        async with shown(work, driver.ledger, plain):
            await work.run(driver, bus)
        pending: Counter[str] = Counter()
        for (_, reason), count in (await by_reason(bus, driver)).items():
            pending[reason] += count
        found = report(rm, work, driver.ledger, pending)
        if options.nats and not options.keep:
            await _clean_up(driver)
        return found


@contextlib.asynccontextmanager
async def _own_system(plain: bool) -> AsyncIterator[System]:
    """Started for this load, on a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="remuda-load-") as data, contextlib.ExitStack() as starting:
        if not plain:
            starting.enter_context(terminal.console.status("starting a system for this load"))
        async with System(Layout(Path(data), log_level="warning")) as system:
            await system.ready()
            starting.close()
            if plain:
                terminal.line("load", f"own system ready at {system.url}")
            yield system


async def _clean_up(driver: Driver) -> None:
    """Leave a system that is not ours as we found it."""
    ledger = driver.ledger
    await driver.remove([name for name, state in ledger.states.items() if state != "Rejected"])
    await driver.until(lambda: not ledger.running, CLEAN_WITHIN_S)
    await driver.decommission(ledger.node_names())


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
    colour = terminal.console.is_terminal
    plot = terminal_plot(work.samples, work.unit, min(terminal.console.width, 120), PLOT_ROWS, colour)
    if plot:
        print(plot)
    terminal.console.print(figures(found))
    for option, path in (("plot", options.plot), ("report", options.json), ("record", options.record)):
        if path is not None:
            terminal.console.print(f"{option} written to {path}", style="dim", markup=False)
