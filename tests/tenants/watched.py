"""A whole system of real processes, and its invariants for any actions of an RM: no process ends, memory stays
bounded, and no RM is halted but one that deserves it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from tests.patience import READY_S

MB = 1024 * 1024


class Watched:
    """`bus`: a connection of the test's own."""

    def __init__(self, system: System, bus: Bus) -> None:
        self.system = system
        self.bus = bus
        self._began = self.pids()

    @property
    def url(self) -> str:
        return self.system.url

    def pids(self) -> dict[str, int | None]:
        return {process.name: process.pid for process in self.system.processes}

    def ended(self) -> dict[str, str]:
        """Of each process that has ended: its last words."""
        return {
            process.name: f"{process.ended}: {self.last_words(process.log)}"
            for process in self.system.processes
            if process.restarts or process.pid != self._began[process.name]
        }

    def last_words(self, log: Path) -> str:
        """The lines of a log that show the cause of a failure."""
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        told = [line for line in lines if "Error" in line or "error" in line or "exception" in line]
        return " | ".join(line[:400] for line in told[-3:])

    def memory_mb(self) -> dict[str, float]:
        """Resident, by process."""
        found = {}
        for name, pid in self.pids().items():
            if pid is not None and psutil.pid_exists(pid):
                found[name] = round(psutil.Process(pid).memory_info().rss / MB, 1)
        return found

    async def halted(self) -> set[str]:
        return {
            json.loads(entry.value)["rm_id"] for entry in await self.bus.entries(subjects.HALTS.name) if entry.value
        }


@asynccontextmanager
async def watched(
    data: Path,
    *,
    cores: int = 2,
    rmproxies: int = 2,
    grpc_port: int | None = None,
    peloton_port: int | None = None,
    peloton_engines: int = 0,
    assignments: tuple[str, ...] = (),
) -> AsyncIterator[Watched]:
    """Up and ready. `grpc_port`, `peloton_port`: of its gRPC front end and of Peloton's resource manager, 0 for any;
    None: it has none. The rest as of `Layout`."""
    layout = Layout(
        data, cores=cores, rmproxies=rmproxies, grpc_port=grpc_port, peloton_port=peloton_port,
        peloton_engines=peloton_engines, log_level="info", assignments=assignments,
    )  # fmt: skip
    async with System(layout) as system:
        await system.ready(READY_S)
        bus = await connect(system.url, "watching", timeout_s=10)
        try:
            yield Watched(system, bus)
        finally:
            await bus.close()
