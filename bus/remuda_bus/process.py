"""What every service process does around its `main`: settings, logging, traces, the bus, signals, the exit code.

Knows nothing of what the service is for.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import structlog
import uvloop
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from remuda_bus import health, limits, telemetry
from remuda_bus.bus import Bus, BusError
from remuda_bus.nats import NatsBus, connect

log = structlog.get_logger()

GC_THRESHOLDS = (100_000, 50, 50)  # allocations are mostly acyclic, so looking for cycles is mostly a waste of time


class Settings(BaseSettings):
    """Environment variables REMUDA_NATS_URL and so on. A service adds its own in a subclass."""

    model_config = SettingsConfigDict(env_prefix="REMUDA_", extra="ignore")

    nats_url: str = Field("nats://127.0.0.1:4222", description="servers of the bus, separated by commas")
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    instance: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="name of this process, as people see it in leases, logs and traces",
    )
    health_port: int = Field(
        0, ge=0, le=65535, description="where to say over HTTP how it is: /livez, /readyz; 0: nowhere"
    )
    replicas: int = Field(1, ge=1, le=5, description="servers of a NATS cluster that keep each stream")


S = TypeVar("S", bound=Settings)


def run(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> None:
    """Run `main(bus, settings)` until it returns, or until SIGTERM or SIGINT cancels it: then this returns. Raises
    SystemExit(1), after one log line that says why, when `main` fails or the bus throws us out."""
    configure_logging(service, settings)
    telemetry.setup(service, settings.instance)
    try:
        failed = uvloop.run(_run(service, main, settings))
    finally:
        telemetry.shutdown()
    if failed:
        raise SystemExit(1)


def configure_logging(service: str, settings: Settings) -> None:
    """structlog to stderr; what libraries say by the standard logging goes there as well, from warnings up."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.log_format == "json":
        rendering: list[structlog.types.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        plain = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    structlog.contextvars.bind_contextvars(service=service)
    libraries = logging.StreamHandler(sys.stderr)
    last = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    libraries.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=shared))
    logging.basicConfig(level=logging.WARNING, handlers=[libraries])


async def _run(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> bool:
    """Whether it failed."""
    work: asyncio.Future[Any] = asyncio.get_running_loop().create_task(_serve(service, main, settings))
    asked_to_stop = _signal()
    await asyncio.wait([work, asked_to_stop], return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("stopping", signal=asked_to_stop.result())
        work.cancel()
        await asyncio.wait({work}, timeout=limits.STOP_WITHIN_S)
    if not work.done():
        log.error("did not stop in time", within_s=limits.STOP_WITHIN_S)
        os._exit(1)  # what does not let itself be cancelled would not let the loop end either
    error = None if work.cancelled() else work.exception()
    if error is None:
        log.info("stopped")
        return False
    notes: list[str] = getattr(error, "__notes__", [])  # whom it is about: then it is a fault of ours
    expected = isinstance(error, BusError | ValueError | OSError) and not notes
    said = "; ".join((f"{type(error).__name__}: {error}", *notes))
    log.error("failed", error=said, exc_info=None if expected else error)
    return True


async def _serve(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> None:
    bus = await connect(settings.nats_url, f"remuda-{service}", replicas=settings.replicas)
    try:
        await bus.declare()
        await bus.announce()
        log.info("started", instance=settings.instance, url=settings.nats_url)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        async with health.served(bus, settings.health_port):
            await _unless_closed(bus, main(bus, settings))
    finally:
        await bus.close()


async def _unless_closed(bus: NatsBus, main: Awaitable[None]) -> None:
    """Await `main`; raise BusError when the connection ends for good meanwhile."""
    work = asyncio.ensure_future(main)
    closed = asyncio.ensure_future(bus.closed())
    try:
        await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise BusError(f"the server has closed the connection: {closed.result()}")
        work.result()
    finally:
        closed.cancel()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _signal() -> asyncio.Future[Any]:
    """Resolves to the name of the signal that asks to stop."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def ask(name: str) -> None:
        if not asked.done():
            asked.set_result(name)

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, ask, sign.name)
    return asked
