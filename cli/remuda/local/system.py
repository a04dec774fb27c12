"""A whole system on this machine: an embedded NATS server, and every service as a supervised process.

Defines the order of start and stop and when the system is ready. Screens read `system.processes`.
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

from remuda.embedded.storage import StorageEndpoint
from remuda_bus.bus import BusError
from remuda_operations.queries.front_ends import front_ends

from .. import limits
from ..client.connections import bus_at
from ..client.service_ping import Pinger
from ..embedded import NatsServer, ServerError
from ..embedded.storage import Level, Storage, StorageWatch
from ..errors import UserError
from .supervisor import OnChange, OnLine, Process, Program, State, Supervisor

NATS = "nats-server"
# The order of stop: first no new requests, then no more decisions, then the rest.
STOP_ORDER = (("grpc", "rmproxy", "web"), ("core", "resmgr", "placement"), ("events", "archive", "history", "config"))


# The server of this system has neither keys nor certificates, whatever the file says of the one it is written for.
OWN_SERVER = [
    argument for name in ("ca", "cert", "key", "seed", "domain") for argument in ("--set", f"nats.{name}=")
] + ["--set", "nats.replicas=1"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a local system. `port` and those of services: 0 for any free one; None: without that service.
    `config`: the queues.yaml, None for that of the settings. `archive`: where the archive is kept; None: nowhere.
    `settings`, `assignments`: as `remuda run` takes them."""

    data: Path
    port: int = 0
    config: Path | None = None
    cores: int = 1
    rmproxies: int = 1
    grpc_port: int | None = None
    web_port: int | None = None
    peloton_port: int | None = None
    peloton_engines: int = 0
    archive: str | None = None
    log_level: str | None = None
    settings: Path | None = None
    assignments: tuple[str, ...] = ()

    def services(self) -> list[tuple[str, str]]:
        """(process name, service), in the order of their start."""
        counts = (
            ("config", 1), ("core", self.cores), ("events", 1), ("rmproxy", self.rmproxies),
            ("grpc", int(self.grpc_port is not None)), ("web", int(self.web_port is not None)),
            ("resmgr", int(self.peloton_port is not None)), ("placement", self.peloton_engines),
            ("archive", int(self.archive is not None)), ("history", int(self.archive is not None)),
        )  # fmt: skip
        return [
            (service if count == 1 else f"{service}-{number}", service)
            for service, count in counts
            for number in range(1, count + 1)
        ]


class System:
    """`async with System(layout) as system:` ... `await system.ready()`; leaving it stops everything, in order."""

    def __init__(self, layout: Layout, changed: OnChange | None = None, printed: OnLine | None = None) -> None:
        self.layout = layout
        self._changed: OnChange = changed or (lambda process: None)
        self._server = NatsServer(layout.data, layout.port)
        self._nats = Process(NATS, self._server.log_file)
        self._printed: OnLine = printed or (lambda name, line: None)
        self._supervisor = Supervisor(self._changed, printed)
        self.storage: Storage | None = None  # as it was a moment ago
        self.web_page = ""  # the address of the web page, once the system is ready
        self._storage_watch = StorageWatch(self._server.data_dir, self._server.log_file)
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
        """Returns when every service has answered once, and the address of the web page is known if there is to be one.
        Raises UserError with the names of the others."""
        try:
            async with asyncio.timeout(within_s):
                await self._all_ready.wait()
        except TimeoutError:
            raise UserError(self._why_not_ready(within_s)) from None

    async def __aenter__(self) -> System:
        try:
            await self._server.start()
        except (ServerError, OSError) as error:
            raise UserError(f"nats-server cannot be started: {error}{self._storage_as_reason()}") from None
        self._set_nats(State.READY)
        for name, service in self._services.items():
            self._supervisor.start(self._program(name, service))
        watches = (self._watch_nats, self._watch_services, self._watch_storage)
        self._watchers = [asyncio.create_task(watch()) for watch in watches]
        self._write_address_file()
        self._ignore_in_git()
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
        (self.layout.data / "remuda.json").unlink(missing_ok=True)

    def _storage_as_reason(self) -> str:
        try:
            found = self._storage_watch.check()
        except OSError:
            return ""
        return f". Storage: {found.describe()}" if found.level is Level.FULL else ""

    def _program(self, name: str, service: str) -> Program:
        argv = [sys.executable, "-m", "remuda", "run", service, "--nats", self.url]
        if service == "config" and self.layout.config is not None:
            argv += ["--file", str(self.layout.config.resolve())]
        for assignment in self.layout.assignments:
            argv += ["--set", assignment]
        if self.layout.settings is not None:
            argv += ["--settings", str(self.layout.settings), *OWN_SERVER]
        if service == "grpc":
            argv += ["--set", f"grpc.port={self.layout.grpc_port}"]
        if service == "web":
            argv += ["--set", f"web.port={self.layout.web_port}"]
        if service in ("archive", "history"):
            argv += ["--set", f"archive.store={self.layout.archive}"]
        if service == "resmgr":
            argv += ["--set", f"resmgr.port={self.layout.peloton_port}"]
        argv += ["--set", f"instance={name}"]
        env = {"PYTHONUNBUFFERED": "1"}
        if self.layout.log_level is not None:
            env["REMUDA_LOG_LEVEL"] = self.layout.log_level
        return Program(name, tuple(argv), self.log_dir / f"{name}.log", env)

    async def _watch_nats(self) -> None:
        """Restart the server when it has ended, or when it has failed to write and there is space again. Services
        reconnect by themselves."""
        while True:
            await asyncio.sleep(limits.LOOK_EVERY_S)
            if self._server.running and not self._storage_recovered():
                continue
            self._nats.restarts += 1
            self._nats.ended = "" if not self._server.running else "storage was full and has space again"
            self._set_nats(State.WAITING)
            await self._server.stop(limits.JAMMED_SERVER_STOPS_WITHIN_S)  # also releases the lock of its directory
            try:
                await self._server.start()
            except (ServerError, OSError) as error:
                self._nats.ended = str(error)
            else:
                self._storage_watch.restarted()
                self._set_nats(State.READY)

    def _storage_recovered(self) -> bool:
        return self.storage is not None and self.storage.failed and self.storage.level is not Level.FULL

    async def _watch_storage(self) -> None:
        """Report changes of the level on the terminal and on the bus."""
        before = Level.ENOUGH, False
        async with StorageEndpoint(self.url) as endpoint:
            while True:
                self.storage = self._storage_watch.check()
                endpoint.update(self.storage)
                if before != (now := (self.storage.level, self.storage.failed)):
                    before = now
                    self._printed("storage", self.storage.describe())
                    await endpoint.publish(self.storage)
                await asyncio.sleep(limits.STORAGE_EVERY_S)

    async def _watch_services(self) -> None:
        async with Pinger(self.url) as pinger:
            while True:
                if all(p.state is State.READY for p in self._supervisor.processes.values()):
                    if self.layout.web_port is not None and not self.web_page:
                        self.web_page = await self._web_address()  # a busy machine may have none in time
                    if self.layout.web_port is None or self.web_page:
                        self._all_ready.set()
                    await asyncio.sleep(limits.LOOK_EVERY_S)
                    continue
                self._mark_ready(await self._answering(pinger))
                await asyncio.sleep(0.05)

    async def _web_address(self) -> str:
        with contextlib.suppress(UserError, BusError):
            async with bus_at(self.url) as bus:
                for one in await front_ends(bus, service="web"):
                    if one.port:
                        return f"{one.scheme}://{one.host}:{one.port}/"
        return ""

    async def _answering(self, pinger: Pinger) -> set[int]:
        """Process IDs that answer. An answer without one counts when all of that service's processes answer."""
        answers = await pinger.ping()
        pids = {answer.pid for answer in answers if answer.pid}
        counts = Counter(answer.service for answer in answers)
        for service in set(self._services.values()):
            alive = [p.pid for p in self._processes_of(service) if p.pid is not None]
            if counts[service] >= len(alive) and not any(a.pid for a in answers if a.service == service):
                pids.update(alive)
        return pids

    def _mark_ready(self, pids: set[int]) -> None:
        for process in self._supervisor.processes.values():
            if process.pid in pids:
                self._supervisor.ready(process.name)

    def _processes_of(self, service: str) -> list[Process]:
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
        return f"not ready after {within_s:.0f} s: {names}. Last output of {late[0].name}: {says}. Logs: {self.log_dir}"

    def _write_address_file(self) -> None:
        """Write the address for other programs. A full disk is no reason to end."""
        with contextlib.suppress(OSError):
            (self.layout.data / "remuda.json").write_text(json.dumps({"nats": self.url, "pid": os.getpid()}) + "\n")

    def _ignore_in_git(self) -> None:
        """The data may be in a repository of the user. A full disk is no reason to end."""
        with contextlib.suppress(OSError):
            (self.layout.data / ".gitignore").write_text("*\n")
