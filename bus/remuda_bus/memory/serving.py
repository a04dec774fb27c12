"""Requests and messages that reach a process over the bus in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from remuda_bus import health, metrics
from remuda_bus.bus import Handler, Listener, Message, Refused, Reply

log = structlog.get_logger()


@dataclass(eq=False)
class MemoryServing:
    """`remuda_bus.bus.Serving`. `start`: starts a task of the connection that serves."""

    subject: str
    handler: Handler
    handlers: list[MemoryServing]
    start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]
    answers: Callable[[], bool] | None = None
    mine: Callable[[str], bool] | None = None

    def is_asked(self, subject: str) -> bool:
        """Whether this process takes the request."""
        return (self.answers is None or self.answers()) and (self.mine is None or self.mine(subject))

    async def close(self) -> None:
        if self in self.handlers:
            self.handlers.remove(self)


async def listen(subject: str, queue: asyncio.Queue[Message], listener: Listener) -> None:
    """Call the listener with each message on the subject, without end."""
    kind = metrics.listener_label(subject)
    while True:
        message = await queue.get()
        try:
            await listener(message)
        except Exception as error:
            log.exception("a listener failed", subject=message.subject)
            metrics.LISTENER_ERRORS.labels(kind).inc()
            health.PROCESS_HEALTH.listener_failed(kind, message.subject, error)


async def handle_request(handler: Handler, message: Message) -> bytes | Reply:
    """The answer of a handler. Raises Refused."""
    try:
        return await handler(message)
    except Refused:
        raise
    except Exception as error:
        log.exception("a request could not be answered", subject=message.subject)
        raise Refused(f"{type(error).__name__}: {error}", 500) from error
