"""Runs a service process from its start to its exit code.

While a process runs, it compares the settings of all streams with the declared ones: an operator's limit may delete
messages that are acknowledged, and a service would notice only at its next start, when they are gone.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
import uvloop

from remuda_bus import metrics, subjects, tracing
from remuda_bus.bus import Bus, BusError, UnsuitableServer
from remuda_bus.health import PROCESS_HEALTH
from remuda_bus.nats import Access, NatsBus, connect
from remuda_bus.settings import Settings
from remuda_replication.process import health_pages
from remuda_replication.process.logs import LogLevels, configure_logging

# The least `max_payload` of a server for services, which is nats-server's default: every message that is not split,
# because of the bounds of its fields, is smaller. Configurations and commits use what there is.
LEAST_MAX_PAYLOAD_BYTES = 1024 * 1024
# A service that does not stop by then is ended by force.
STOP_TIMEOUT_S = 10.0
# Settings of streams are compared with what was declared: soon after an operator has changed one, which deletes
# messages at once only where they are over the new limit already.
STREAMS_CHECK_INTERVAL_S = 5.0
# Between two measurements of the round trip to NATS.
ROUND_TRIP_EVERY_S = 15.0
# How often the lag of the event loop is measured.
LOOP_LAG_EVERY_S = 1.0

log = structlog.get_logger()


# Objects are mostly acyclic, so a search for cycles is rarely worth its time: older objects are searched after five
# million new ones. A search among young objects stops the service for longer the more of them there are: 15 ms among
# 20,000 that lie far apart. Many short searches take as long as few long ones.
GC_THRESHOLDS = (5_000, 1_000, 50)


S = TypeVar("S", bound=Settings)


def run(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> None:
    """Run `main(bus, settings)` until it returns, or until SIGTERM or SIGINT cancels it. Without `settings.needs_bus`
    the bus is None. Raises SystemExit(1), after one log line with the reason, when `main` fails or the server closes
    the connection for good."""
    configure_logging(service, settings)
    tracing.setup(service, settings.instance, settings.traces_endpoint, settings.traces_part)
    try:
        failed = uvloop.run(_run(service, main, settings))
    finally:
        tracing.shutdown()
    if failed:
        raise SystemExit(1)


async def _run(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> bool:
    """Returns whether the service failed."""
    work: asyncio.Future[Any] = asyncio.get_running_loop().create_task(_serve(service, main, settings))
    asked_to_stop = _signal()
    await asyncio.wait([work, asked_to_stop], return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("stopping", signal=asked_to_stop.result())
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_TIMEOUT_S)
    if not work.done():
        log.error("did not stop in time", within_s=STOP_TIMEOUT_S)
        os._exit(1)  # a task that ignores its cancellation also keeps the loop from ending
    error = None if work.cancelled() else work.exception()
    if error is None:
        log.info("stopped")
        return False
    # The RM in whose work the error was raised (`Halts.guard`): then it is a fault, shown with its traceback.
    notes: list[str] = getattr(error, "__notes__", [])
    expected = isinstance(error, BusError | ValueError | OSError) and not notes
    said = "; ".join((f"{type(error).__name__}: {error}", *notes))
    log.error("failed", error=said, exc_info=None if expected else error)
    return True


async def _serve(service: str, main: Callable[[Bus, S], Awaitable[None]], settings: S) -> None:
    if not settings.needs_bus:
        log.info("started", instance=settings.instance)
        await _work(service, settings, None, lambda: main(None, settings))  # type: ignore[arg-type]
        return
    name = settings.connection_name(service)
    bus = await connect(settings.nats_url, name, replicas=settings.replicas, access=access_of(settings))
    try:
        _check_payload(bus)
        if not settings.is_rm:
            await bus.declare()
            await check_streams(bus, settings.keeps_logs)
            await bus.announce(settings.instance)
        log.info("started", instance=settings.instance, url=settings.nats_url)
        if not settings.is_rm:
            await LogLevels(settings.instance).serve(bus, service)
        elif rm_id := settings.rm_on_the_bus:
            await LogLevels(settings.instance).serve_on(bus, subjects.question(rm_id, "log_level"))
        probed = None if settings.is_rm else bus
        await _work(service, settings, probed, lambda: _unless_closed(bus, settings, main(bus, settings)))
    finally:
        await bus.close()


async def _work(service: str, settings: Settings, probed: NatsBus | None, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work of the process, with its pages. `probed`: the bus that readiness depends on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    metrics.PROCESS.info({"service": service, "instance": settings.instance})
    async with health_pages.served(probed, settings.health_port, host=settings.health_host):
        watching = asyncio.ensure_future(_measure_lag())
        try:
            await work()
        finally:
            watching.cancel()


def _check_payload(bus: Bus) -> None:
    least = LEAST_MAX_PAYLOAD_BYTES
    if bus.max_payload < least:
        raise UnsuitableServer(f"max_payload of the NATS server is {bus.max_payload} bytes, expected at least {least}")


def access_of(settings: Settings) -> Access:
    """The credentials that settings name."""
    return Access(settings.nats_ca, settings.nats_cert, settings.nats_key, settings.nats_seed, settings.nats_domain)


async def _unless_closed(bus: NatsBus, settings: Settings, main: Awaitable[None]) -> None:
    """Await `main`. Raises BusError when the connection is closed for good meanwhile, and when this process must not
    lead (`guard_streams`)."""
    work = asyncio.ensure_future(main)
    closed = asyncio.ensure_future(bus.closed())
    measuring = asyncio.ensure_future(_measure_round_trips(bus))
    watched: set[asyncio.Future[Any]] = {work, closed}
    if not settings.is_rm:
        watched.add(asyncio.ensure_future(guard_streams(bus, settings.keeps_logs)))
    try:
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if closed in done and not work.done():
            raise BusError(f"the server has closed the connection: {closed.result()}")
        (work if work.done() else done.pop()).result()
    finally:
        measuring.cancel()
        for task in watched:
            task.cancel()
        await asyncio.gather(*watched, return_exceptions=True)


async def _measure_lag() -> None:
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LOOP_LAG_EVERY_S
        await asyncio.sleep(LOOP_LAG_EVERY_S)
        metrics.LOOP_LAG.observe(max(0.0, clock() - due))


async def _measure_round_trips(bus: NatsBus) -> None:
    while True:
        took_s = await bus.round_trip_s()
        metrics.ROUND_TRIP_SECONDS.set(math.nan if took_s is None else took_s)
        await asyncio.sleep(ROUND_TRIP_EVERY_S)


def _signal() -> asyncio.Future[Any]:
    """A future that resolves to the name of the signal that stops this process."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def ask(name: str) -> None:
        if not asked.done():
            asked.set_result(name)

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, ask, sign.name)
    return asked


LOGS = {one.name for one in (subjects.LOG, subjects.INBOX, subjects.PELOTON_LOG, subjects.PELOTON_INBOX)}


class StreamChanged(BusError):
    """A stream from which states are restored may lose messages."""


async def guard_streams(bus: NatsBus, keeps_logs: bool) -> None:
    """Runs until cancelled. `keeps_logs`: the process leads logs. Raises StreamChanged when such a process could not
    put back a log's settings: it must not lead, because what it decides may be lost."""
    while True:
        try:
            await check_streams(bus, keeps_logs)
        except StreamChanged:
            raise
        except BusError as error:
            log.debug("the settings of streams were not compared", error=str(error))
        await asyncio.sleep(STREAMS_CHECK_INTERVAL_S)


async def check_streams(bus: NatsBus, keeps_logs: bool) -> None:
    """Compare once, and put back. Raises BusError."""
    found = await bus.keep_settings()
    if found != PROCESS_HEALTH.changed_streams:
        for name, how in found.items():
            log.error("somebody has changed a stream, run `remuda declare`", stream=name, settings=how)
        if not found:
            log.warning("all streams have their settings again")
    PROCESS_HEALTH.changed_streams = found
    metrics.CHANGED_STREAMS.set(len(found))
    if keeps_logs and (changed := sorted(found.keys() & LOGS)):
        raise StreamChanged(f"stream {changed[0]}: {found[changed[0]]}; run `remuda declare`")
