"""This process as a NATS micro service: it answers pings and info requests, and serves endpoints until they are closed.

nats-py cannot remove an endpoint, so endpoints are subscriptions of this module; the rest is nats-py's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.micro.service import EndpointInfo, Service, ServiceConfig, ServiceInfo

from remuda_bus import limits, subjects
from remuda_bus.bus import Handler, Message, Refused, Reply
from remuda_bus.nats.jetstream import NO_HEADERS
from remuda_bus.nats.patched_client import PatchedClient
from remuda_bus.untrusted import shortened

log = structlog.get_logger()

VERSION = "0.1.0"
BUSY = 503
INTERNAL = 500
QUEUE_GROUP = "q"  # the default of micro services: one of the processes that serve a subject gets the request


class MicroService(Service):
    """The micro service of this process."""

    def __init__(self, client: PatchedClient, name: str, instance: str) -> None:
        metadata = {"instance": instance, "pid": str(os.getpid())}
        about = ServiceConfig(name=name, version=VERSION, description=f"remuda: {name}", metadata=metadata)
        super().__init__(client, about)
        self.connection = client
        self._serving: list[Endpoint] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._shared: set[asyncio.Task[None]] = set()  # those of endpoints without a bound of their own

    def info(self) -> ServiceInfo:
        found = super().info()
        found.endpoints = [one.info() for one in self._serving]
        return found

    async def serve(
        self,
        subject: str,
        handler: Handler,
        name: str,
        answers: Callable[[], bool] | None = None,
        mine: Callable[[str], bool] | None = None,
        at_once: int = 0,
    ) -> Endpoint:
        requests = set[asyncio.Task[None]]() if at_once else self._shared

        async def arrived(request: Msg) -> None:
            if (answers is not None and not answers()) or (mine is not None and not mine(request.subject)):
                return
            if len(requests) < (at_once or limits.REQUESTS_AT_ONCE):
                self._start(self._answer(request, handler, answers), requests)
            else:
                await self._refuse(request, BUSY, f"{len(requests)} requests are being answered, try again")

        group = QUEUE_GROUP if answers is None else ""
        subscription = await self.connection.subscribe(subject, group, cb=arrived)
        await self.connection.flush()
        endpoint = Endpoint(name, subscription, self)
        self._serving.append(endpoint)
        return endpoint

    def withdraw(self, endpoint: Endpoint) -> None:
        self._serving.remove(endpoint)

    def cancel(self) -> None:
        """Cancel the requests that are being answered. They get no answer."""
        for task in self._requests:
            task.cancel()

    def _start(self, answering: Coroutine[Any, Any, None], counted: set[asyncio.Task[None]]) -> None:
        """`counted`: the requests that share a bound with this one."""
        task = asyncio.get_running_loop().create_task(answering)
        for tasks in (self._requests, counted):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _answer(self, request: Msg, handler: Handler, answers: Callable[[], bool] | None) -> None:
        code, reason, reply = 0, "", Reply(b"", NO_HEADERS)
        try:
            answer = await handler(Message(request.subject, request.data, request.headers or NO_HEADERS))
            reply = answer if isinstance(answer, Reply) else Reply(answer, NO_HEADERS)
            self.connection.check_size("an answer", reply.payload, reply.headers)
        except Refused as refusal:
            code, reason = refusal.code, refusal.reason
        except Exception as error:
            log.exception("a request could not be answered", subject=request.subject)
            code, reason = INTERNAL, f"{type(error).__name__}: {error}"
        if answers is not None:
            await asyncio.sleep(0)  # so that the loop reads its clock: this process may have been stopped meanwhile
            if not answers():
                log.warning("an answer is not sent: another process answers by now", subject=request.subject)
                return
        if code:
            await self._refuse(request, code, reason)
        else:
            await self._respond(request, reply.payload, dict(reply.headers) or None)

    async def _refuse(self, request: Msg, code: int, reason: str) -> None:
        said = shortened(" ".join(reason.split()), limits.REASON_CHARACTERS)
        headers = {subjects.SERVICE_ERROR: said, subjects.SERVICE_ERROR_CODE: str(code)}
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
    """`remuda_bus.bus.Serving`: one endpoint of the micro service."""

    def __init__(self, name: str, subscription: Subscription, service: MicroService) -> None:
        self.name = name
        self.subscription = subscription
        self._service = service

    def info(self) -> EndpointInfo:
        group = self.subscription.queue
        about = {} if group else {"answers": "each process that may, the first answer counts"}
        return EndpointInfo(self.name, self.subscription.subject, group, about)

    async def close(self) -> None:
        self._service.withdraw(self)
        connection = self._service.connection
        try:
            if connection.is_connected:
                with suppress(nats.errors.Error, TimeoutError, OSError):
                    async with asyncio.timeout(limits.DRAIN_TIMEOUT_S):
                        await self.subscription.drain()  # type: ignore[no-untyped-call]
        finally:
            connection.forget(self.subscription)
