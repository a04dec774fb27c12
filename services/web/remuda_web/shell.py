"""The process of the web service: a client of the bus that reads, and a server of HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import time
from importlib.metadata import version

import structlog
from starlette.types import ASGIApp

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, Handler, Message
from remuda_bus.settings import shown_host
from remuda_operations.ledger.prices import Prices
from remuda_operations.system_user import local_operator
from remuda_proto.access_list import AccessList
from remuda_web import limits
from remuda_web.access.certificates import Certificates
from remuda_web.access.guard import EVERYBODY, ByConnection, ByToken, Guard, LocalOnly, Unguarded, Ways
from remuda_web.access.tokens import Tokens
from remuda_web.api_v1.routes import Welcome
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.kept_answers import KeptAnswers
from remuda_web.kept_source import KeptSource
from remuda_web.queue_history import sample_devices, sample_queues
from remuda_web.server import Server
from remuda_web.settings import WebSettings
from remuda_web.source import Unreadable
from remuda_web.ws_v1.answers import Answers

log = structlog.get_logger()


async def main(bus: Bus, settings: WebSettings) -> None:
    """A process of its own: `serve` behind the services that schedule."""
    os.nice(limits.NICENESS)
    await serve(bus, settings)


async def serve(bus: Bus, settings: WebSettings) -> None:
    """Runs until cancelled. Raises OSError when the port is taken, ValueError for a wrong file of tokens or prices."""
    source = BusSource(bus)
    kept = KeptSource(source)
    started_ms = time.time_ns() // 1_000_000
    welcome = Welcome.of(settings.nats_url, keys=settings.nats_seed is not None)
    prices = _prices(settings)
    app = Application(
        kept, version("remuda-scheduler"), started_ms, settings.log_level, bus, fresh=source, welcome=welcome,
        prices=prices,
    )  # fmt: skip
    server = Server(settings, _guarded(KeptAnswers(app, kept), app, settings))
    tasks = [
        asyncio.create_task(source.watch(), name="RMs"),
        asyncio.create_task(_sample(app.answers), name="history"),
        asyncio.create_task(sample_queues(source, app.queue_history, app.rates), name="history of queues"),
        asyncio.create_task(sample_devices(source, app.device_history), name="history of devices"),
        asyncio.create_task(_check(app.answers), name="health check"),
    ]
    try:
        await server.start()
        await bus.serve(subjects.front_end(settings.instance, "web"), _about(server, settings), "web")
        log.info("listens for HTTP", host=settings.host, port=server.port)
        health.PROCESS_HEALTH.set_status(f"listens for HTTP on port {server.port}")
        ended, _ = await asyncio.wait(
            [*tasks, asyncio.create_task(server.serve())], return_when=asyncio.FIRST_COMPLETED
        )
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await server.stop()


def _prices(settings: WebSettings) -> Prices | None:
    """Raises ValueError."""
    if settings.prices is None:
        return None
    try:
        return Prices.read(settings.prices.read_text())
    except ValueError as error:
        raise ValueError(f"web.prices {str(settings.prices)!r}: {error}") from None


def _guarded(answers: ASGIApp, app: Application, settings: WebSettings) -> ASGIApp:
    """Raises ValueError."""
    if not settings.knows_clients:
        if settings.open:
            return Unguarded(answers)
        return LocalOnly(answers, local_operator(settings.host, settings.nats_seed is not None))
    by_token: list[ByToken] = []
    by_connection: list[ByConnection] = []
    logins = None
    if settings.tokens is not None:
        by_token.append(Tokens(settings.tokens).operator)
    if settings.openid_issuer is not None:
        from remuda_web.access.login import Logins  # they import what only logins need, a fifth of a start
        from remuda_web.access.openid import Provider

        provider = Provider(settings)
        logins = Logins(provider, settings)
        logins.add_to(app)
        by_token.append(provider.operator)
        by_connection.append(logins.operator)
    if settings.client_ca is not None:
        by_connection.append(Certificates(settings.operators).operator)
    read_all = AccessList.read(settings.scheduler_acl) if settings.restricted else EVERYBODY
    guarded = Guard(answers, Ways(by_token, by_connection, logins is not None, settings.url), read_all)
    return guarded if logins is None else logins.around(guarded)


async def _sample(answers: Answers) -> None:
    while True:
        try:
            await answers.sample(time.time_ns())
        except Unreadable:
            pass  # the next sample shows the state again
        except KeyError as error:
            log.warning("no sample: an answer of a core lacks a field, is it older?", field=str(error))
        await asyncio.sleep(limits.SAMPLE_EVERY_S)


async def _check(answers: Answers) -> None:
    """Check the data again and again, and log what is wrong."""
    while True:
        await asyncio.sleep(limits.CHECK_EVERY_S)
        try:
            found = await answers.check_health()
        except Unreadable:
            continue
        except KeyError as error:
            log.warning("no check: an answer of a core lacks a field, is it older?", field=str(error))
            continue
        if not found["Healthy"]:
            wrong = [one["DiagnosisMessage"] for one in found["HealthChecks"] if not one["Succeeded"]]
            log.error("the data of the scheduler is inconsistent", checks=wrong)


def _about(server: Server, settings: WebSettings) -> Handler:
    async def about(_: Message) -> bytes:
        return json.dumps({"host": shown_host(settings.host), "port": server.port, "scheme": settings.scheme}).encode()

    return about
