"""The screen of `remuda up`: a table of processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..embedded.storage import Level
from ..terminal.units import size
from .supervisor import Process, State
from .system import System

STYLES = {
    State.STARTING: "yellow",
    State.READY: "green",
    State.WAITING: "bold red",
    State.STOPPING: "yellow",
    State.STOPPED: "dim",
}


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one process: CPU in percent of one CPU core since the last sample, resident memory in bytes."""

    cpu_percent: float
    memory: int


class Usage:
    """Samples CPU and memory of processes. CPU is the difference between two samples."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def of(self, processes: Iterable[Process]) -> dict[str, Use]:
        """Usage by process name, of running processes."""
        pids = {process.pid: process.name for process in processes if process.pid is not None}
        self._known = {pid: known for pid, known in self._known.items() if pid in pids}
        uses = {}
        for pid, name in pids.items():
            try:
                known = self._known.get(pid) or psutil.Process(pid)
                self._known[pid] = known
                uses[name] = Use(known.cpu_percent(), known.memory_info().rss)
            except psutil.Error:
                continue
        return uses


def screen(system: System, uses: Mapping[str, Use], doing: str = "") -> RenderableType:
    """The whole screen: at most one row per process and nine more."""
    processes = system.processes
    down = [process for process in processes if process.state is State.WAITING]
    lines: list[RenderableType] = [
        Text.assemble(("remuda ", "bold"), (doing or _summary(processes), "yellow" if doing else "dim")),
        Text.assemble(
            ("nats ", "dim"),
            system.url,
            ("   data and logs ", "dim"),
            str(system.layout.data),
            overflow="ellipsis",
            no_wrap=True,
        ),
        Text(),
        table(processes, uses),
    ]
    if system.web_page:
        lines.insert(2, Text.assemble(("web page ", "dim"), system.web_page))
    lines += [
        Text(f"{process.name}: {why(process)}", style="red", overflow="ellipsis", no_wrap=True) for process in down
    ]
    if system.storage is not None and (system.storage.failed or system.storage.level is not Level.ENOUGH):
        style = "yellow" if system.storage.level is Level.LOW else "bold red"
        lines.append(Text(f"storage: {system.storage.describe()}", style=style))
    lines.append(Text("Ctrl-C stops all processes", style="dim"))
    return Group(*lines)


def why(process: Process) -> str:
    """How the process ended last, with its last output line if it exited by itself."""
    return f"{process.ended}: {process.last_line}" if process.ended.startswith("exit") else process.ended


def table(processes: Iterable[Process], uses: Mapping[str, Use]) -> Table:
    result = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    result.add_column("process", min_width=12)
    for name in ("pid", "state", "restarts", "cpu", "memory", "up"):
        result.add_column(name, justify="left" if name == "state" else "right", min_width=10 if name == "state" else 6)
    for process in processes:
        use = uses.get(process.name)
        result.add_row(
            process.name,
            str(process.pid or "-"),
            Text(process.state, style=STYLES[process.state]),
            Text(str(process.restarts), style="red" if process.restarts else "dim"),
            f"{use.cpu_percent:.0f}%" if use else "-",
            size(use.memory) if use else "-",
            _age(process),
        )
    return result


def _age(process: Process) -> str:
    if process.pid is None or not process.since:
        return "-"
    seconds = int(time.monotonic() - process.since)
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m{seconds % 60:02}s" if seconds < 3600 else f"{seconds // 3600}h{seconds % 3600 // 60:02}m"


def _summary(processes: Iterable[Process]) -> str:
    late = [process.name for process in processes if process.state is not State.READY]
    return f"waiting for {', '.join(late)}" if late else "ready"
