"""One remuda on this machine: an embedded NATS server and every service as a process of its own, kept running.

The composition of `remuda up` and `remuda demo`: what is started, in which order, when it is ready, in which order it
stops. Shows nothing: screens read `system.processes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from . import limits
from .embedded import NatsServer, ServerError
from .errors import UserError
from .ready import Pinger
from .supervise import Changed, Printed, Process, Program, State, Supervisor

NATS = "nats-server"
# Stopped in this order, each line together: first nobody comes in any more, then nothing is decided, then the rest.
STOP_ORDER = (("rmproxy",), ("core",), ("events", "config"))


@dataclass(frozen=True, slots=True)
class Layout:
    """What to start. `port` 0: any free one. `config`: the queues.yaml, None for the built-in default."""

    data: Path
    port: int = 0
    config: Path | None = None
    cores: int = 1
    rmproxies: int = 1
    log_level: str = "info"

    def services(self) -> list[tuple[str, str]]:
        """(process name, service), in the order of their start."""
        counts = (("config", 1), ("core", self.cores), ("events", 1), ("rmproxy", self.rmproxies))
        return [
            (service if count == 1 else f"{service}-{number}", service)
            for service, count in counts
            for number in range(1, count + 1)
        ]


class System:
    """`async with System(layout) as system:` ... `await system.ready()`; leaving it stops everything, in order."""

    def __init__(self, layout: Layout, changed: Changed | None = None, printed: Printed | None = None) -> None:
        self.layout = layout
        self._changed: Changed = changed or (lambda process: None)
        self._server = NatsServer(layout.data, layout.port)
        self._nats = Process(NATS, self._server.log_file)
        self._supervisor = Supervisor(self._changed, printed)
        self._services = dict(layout.services())
        self._all_ready = asyncio.Event()
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def processes(self) -> list[Process]:
        return [self._nats, *self._supervisor.processes.values()]

    @property
    def log_dir(self) -> Path:
        return self.layout.data / "logs"

    async def ready(self, within_s: float = limits.READY_WITHIN_S) -> None:
        """Returns when every service has answered once; UserError that names those that did not."""
        try:
            async with asyncio.timeout(within_s):
                await self._all_ready.wait()
        except TimeoutError:
            raise UserError(self._why_not_ready(within_s)) from None

    async def __aenter__(self) -> System:
        try:
            await self._server.start()
        except (ServerError, OSError) as error:
            raise UserError(f"cannot start nats-server: {error}") from None
        self._set_nats(State.READY)
        for name, service in self._services.items():
            self._supervisor.start(self._program(name, service))
        self._watchers = [asyncio.create_task(self._watch_nats()), asyncio.create_task(self._watch_services())]
        self._announce()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for together in STOP_ORDER:
            await self._supervisor.stop(name for name, service in self._services.items() if service in together)
        self._set_nats(State.STOPPING)
        await self._server.stop()
        self._set_nats(State.STOPPED)
        self._withdraw()

    def _program(self, name: str, service: str) -> Program:
        argv = [sys.executable, "-m", "remuda", "run", service, "--nats", self.url]
        if service == "config" and self.layout.config is not None:
            argv += ["--file", str(self.layout.config.resolve())]
        env = {"REMUDA_INSTANCE": name, "REMUDA_LOG_LEVEL": self.layout.log_level, "PYTHONUNBUFFERED": "1"}
        return Program(name, tuple(argv), self.log_dir / f"{name}.log", env)

    async def _watch_nats(self) -> None:
        """Starts the server again when it died. Its streams are on disk, and the services reconnect by themselves."""
        while True:
            await asyncio.sleep(limits.LOOK_EVERY_S)
            if self._server.running:
                continue
            self._nats.restarts += 1
            self._set_nats(State.WAITING)
            await self._server.kill()  # it is dead: this only lets go of its directory
            with contextlib.suppress(ServerError, OSError):
                await self._server.start()
                self._set_nats(State.READY)

    async def _watch_services(self) -> None:
        async with Pinger(self.url) as pinger:
            while True:
                if all(p.state is State.READY for p in self._supervisor.processes.values()):
                    self._all_ready.set()
                    await asyncio.sleep(limits.LOOK_EVERY_S)
                    continue
                self._mark_ready(await self._answering(pinger))
                await asyncio.sleep(0.05)

    async def _answering(self, pinger: Pinger) -> set[int]:
        """Process IDs that answer. An answer without one counts when all of that service's processes answer."""
        answers = await pinger.ping()
        pids = {answer.pid for answer in answers if answer.pid}
        counts = Counter(answer.service for answer in answers)
        for service in set(self._services.values()):
            alive = [p.pid for p in self._of(service) if p.pid is not None]
            if counts[service] >= len(alive) and not any(a.pid for a in answers if a.service == service):
                pids.update(alive)
        return pids

    def _mark_ready(self, pids: set[int]) -> None:
        for process in self._supervisor.processes.values():
            if process.pid in pids:
                self._supervisor.ready(process.name)

    def _of(self, service: str) -> list[Process]:
        return [self._supervisor.processes[name] for name, of in self._services.items() if of == service]

    def _set_nats(self, state: State) -> None:
        self._nats.state = state
        self._nats.pid = self._server.pid if self._server.running else None
        if state is State.READY:
            self._nats.since = time.monotonic()
        self._changed(self._nats)

    def _why_not_ready(self, within_s: float) -> str:
        late = [p for p in self._supervisor.processes.values() if p.state is not State.READY]
        if not late:
            return f"nats-server at {self.url} does not answer. Its log: {self._server.log_file}"
        says = " ".join((late[0].last_line or late[0].ended or "nothing").split())
        names = ", ".join(process.name for process in late)
        return (
            f"not ready after {within_s:.0f} s: {names}. The last words of {late[0].name}: {says}. Logs: {self.log_dir}"
        )

    def _announce(self) -> None:
        """Where it is, for people and for other commands run in the same directory."""
        (self.layout.data / "remuda.json").write_text(json.dumps({"nats": self.url, "pid": os.getpid()}) + "\n")

    def _withdraw(self) -> None:
        (self.layout.data / "remuda.json").unlink(missing_ok=True)
