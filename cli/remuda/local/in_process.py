"""The scheduler in this process, without servers: its services as tasks, on a bus in memory. Nothing is stored."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Unanswered
from remuda_bus.memory import MemoryBus
from remuda_bus.settings import load

from .. import limits
from .services import main_of, settings_of

log = structlog.get_logger()

# One core, no one to take over, and no process of its own for snapshots: they end with this process.
CORE: Final = ("core.standbys=0", "core.snapshots.in_child=false", "core.replay_horizon=0s")


@dataclass(slots=True)
class InProcessScheduler:
    """A running scheduler. `connect()`: a connection to its bus."""

    server: MemoryBus = field(default_factory=MemoryBus)
    users: int = 0
    services: list[asyncio.Task[None]] = field(default_factory=list)

    def connect(self) -> Bus:
        return self.server.connect()

    def start(self) -> None:
        for name, service in _services().items():
            work = _keep_running(name, service, self.server)
            self.services.append(asyncio.get_running_loop().create_task(work, name=name))

    async def ready(self) -> None:
        """Wait until registrations are answered. Raises TimeoutError."""
        async with asyncio.timeout(limits.IN_PROCESS_READY_S):
            for subject in (subjects.RESOLVE_CONFIGURATION, subjects.register("_")):
                while not await self._is_answered(subject):  # noqa: ASYNC110 - services announce nothing on this bus
                    await asyncio.sleep(limits.IN_PROCESS_CHECK_S)

    async def _is_answered(self, subject: str) -> bool:
        try:
            await self.server.request(subject)  # no valid request of its kind: the answer is a refusal
        except Unanswered:
            return False
        except BusError:
            return True
        return True

    async def stop(self) -> None:
        for task in self.services:
            task.cancel()
        await asyncio.gather(*self.services, return_exceptions=True)
        await self.server.close()


_named: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, InProcessScheduler]] = WeakKeyDictionary()


@asynccontextmanager
async def scheduler(name: str = "") -> AsyncIterator[InProcessScheduler]:
    """A scheduler until the block is left. All users of one name (and event loop) share a scheduler, and the last of
    them ends it. Without a name it is this user's alone.

    The services have default settings, whatever the environment says. Unless the program has configured structlog, only
    warnings are logged."""
    if not structlog.is_configured():
        _log_warnings()
    named = _named.setdefault(asyncio.get_running_loop(), {}) if name else {}
    shared = named.get(name)
    if shared is None:
        shared = named[name] = InProcessScheduler()
        shared.start()
    shared.users += 1
    try:
        await shared.ready()
        yield shared
    finally:
        shared.users -= 1
        if not shared.users:
            del named[name]
            await shared.stop()


def _services() -> dict[str, Callable[[Bus], Awaitable[None]]]:
    def of(service: str, *assignments: str) -> Callable[[Bus], Awaitable[None]]:
        settings = load(settings_of(service), None, (f"instance=local-{service}", *assignments), environment=False)
        return lambda bus: main_of(service)(bus, settings.settings)

    from remuda_events.shell import serve  # the `main` of the service lowers the priority of the process

    return {
        "config": of("config"),
        "rmproxy": of("rmproxy"),
        "core": of("core", *CORE),
        "events": lambda bus: serve(bus, "local-events"),
    }


async def _keep_running(name: str, service: Callable[[Bus], Awaitable[None]], server: MemoryBus) -> None:
    """Start the service again whenever it ends, as `remuda up` does. A program that holds up the event loop for
    seconds costs services their leases."""
    while True:
        bus = server.connect()
        try:
            await service(bus)
        except BusError as error:
            log.warning("a service ended and is started again", service=name, error=str(error))
        except Exception:
            log.exception("a service failed and is started again", service=name)
        finally:
            await bus.close()
        await asyncio.sleep(limits.IN_PROCESS_RESTART_S)


def _log_warnings() -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
