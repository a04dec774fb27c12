"""This process as a NATS micro service: it answers pings, says what it serves, and serves it until that is closed.

The endpoints of nats-py cannot be taken away again, so they are subscriptions of our own; the rest is nats-py's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.micro.service import EndpointInfo, Service, ServiceConfig, ServiceInfo

from remuda_bus import limits, subjects
from remuda_bus.bus import Handler, Message, Refused, Reply
from remuda_bus.nats.connection import FastClient
from remuda_bus.nats.jetstream import NO_HEADERS

log = structlog.get_logger()

VERSION = "0.1.0"
BUSY = 503
QUEUE_GROUP = "q"  # as micro services have it by custom: one of those that serve a subject gets the request


class MicroService(Service):
    def __init__(self, client: FastClient, name: str) -> None:
        super().__init__(client, ServiceConfig(name=name, version=VERSION, description=f"remuda: {name}"))
        self.connection = client
        self._serving: list[Endpoint] = []
        self._requests: set[asyncio.Task[None]] = set()

    def info(self) -> ServiceInfo:
        found = super().info()
        found.endpoints = [EndpointInfo(one.name, one.subscription.subject, QUEUE_GROUP) for one in self._serving]
        return found

    async def serve(self, subject: str, handler: Handler, name: str) -> Endpoint:
        async def arrived(request: Msg) -> None:
            if len(self._requests) < limits.REQUESTS_AT_ONCE:
                self._start(self._answer(request, handler))
            else:
                await self._refuse(request, BUSY, f"{len(self._requests)} requests are being answered, try again")

        subscription = await self.connection.subscribe(subject, QUEUE_GROUP, cb=arrived)
        await self.connection.flush()
        endpoint = Endpoint(name, subscription, self)
        self._serving.append(endpoint)
        return endpoint

    def withdraw(self, endpoint: Endpoint) -> None:
        self._serving.remove(endpoint)

    def cancel(self) -> None:
        """Requests that are being answered stay without an answer."""
        for task in self._requests:
            task.cancel()

    def _start(self, answering: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(answering)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _answer(self, request: Msg, handler: Handler) -> None:
        try:
            answer = await handler(Message(request.subject, request.data, request.headers or NO_HEADERS))
        except Refused as refusal:
            await self._refuse(request, refusal.code, refusal.reason)
        except Exception as error:
            log.exception("a request could not be answered", subject=request.subject)
            await self._refuse(request, 500, f"{type(error).__name__}: {error}")
        else:
            reply = answer if isinstance(answer, Reply) else Reply(answer, NO_HEADERS)
            await self._respond(request, reply.payload, dict(reply.headers) or None)

    async def _refuse(self, request: Msg, code: int, reason: str) -> None:
        one_line = " ".join(reason.split())
        headers = {subjects.SERVICE_ERROR: one_line, subjects.SERVICE_ERROR_CODE: str(code)}
        await self._respond(request, b"", headers)

    async def _respond(self, request: Msg, payload: bytes, headers: dict[str, str] | None) -> None:
        if not request.reply:
            log.warning("a request without a reply subject", subject=request.subject)
            return
        try:
            await self.connection.publish(request.reply, payload, headers=headers)
        except nats.errors.Error as error:
            log.warning("an answer was not sent", subject=request.subject, error=repr(error))


class Endpoint:
    """`remuda_bus.bus.Serving`."""

    def __init__(self, name: str, subscription: Subscription, service: MicroService) -> None:
        self.name = name
        self.subscription = subscription
        self._service = service

    async def close(self) -> None:
        self._service.withdraw(self)
        connection = self._service.connection
        try:
            if connection.is_connected:
                with suppress(nats.errors.Error, TimeoutError, OSError):
                    async with asyncio.timeout(limits.DRAIN_WITHIN_S):
                        await self.subscription.drain()  # type: ignore[no-untyped-call]
        finally:
            connection.forget(self.subscription)
