"""Connections of commands to a running system. An outage, a refusal or a wrong setting raises UserError with the server
and what was expected."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from remuda_bus.bus import Bus, BusError, Unanswered
from remuda_bus.nats import Access, NatsError, connect
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.jetstream import JetStream
from remuda_bus.nats.patched_client import servers
from remuda_operations.queries import NoAnswer, RequestRefused

from .. import limits
from ..errors import NoSystem, UserError
from ..terminal import arguments, event_loop
from . import past

T = TypeVar("T")
NO_SYSTEM = (
    "`remuda up` starts a system, --nats selects another; a secured one needs REMUDA_NATS_CA and REMUDA_NATS_SEED"
)


def answered(url: str, ask: Callable[[Bus], Awaitable[T]]) -> T:
    """Returns what `ask` returns, which gets a connection of its own (`bus_at`). Raises UserError, Stopped."""

    async def asked() -> T:
        async with bus_at(url) as bus:
            return await ask(bus)

    return event_loop.run(asked)


@contextlib.asynccontextmanager
async def bus_at(url: str) -> AsyncIterator[Bus]:
    """Connects to a running system; with --at, its queries are about the past. Raises UserError if there is none."""
    arguments.url(url)
    moment = past.selected()
    if moment is not None and moment.archive is not None:
        async with past.archive_bus(moment) as bus:
            with _talking(moment.archive):
                yield bus
        return
    with _connecting():
        bus = await _soon(url, connect(url, "remuda-cli", timeout_s=limits.CONNECT_WITHIN_S))
    try:
        with _talking(url):
            yield bus if moment is None else past.of_past(moment, bus)
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def jetstream_at(url: str) -> AsyncIterator[JetStream]:
    """Connects to the JetStream API of a running system. Raises UserError if there is none."""
    arguments.url(url)
    with _connecting():
        connection = Connection(url, "remuda-cli", Access.from_environment())
        await _soon(url, connection.open(limits.CONNECT_WITHIN_S))
    try:
        with _talking(url):
            yield JetStream(connection)
    finally:
        await connection.close()


async def _soon(url: str, connecting: Coroutine[Any, Any, T]) -> T:
    """The connection. Raises Unanswered as soon as no server can be reached: a client of NATS would try again until its
    time is over, and a server that is far or busy needs that time."""
    task = asyncio.ensure_future(connecting)
    try:
        done, _ = await asyncio.wait({task}, timeout=limits.CONNECTED_USUALLY_S)
        if not done and (why := await _unreachable(url)) and not task.done():
            raise Unanswered(f"no NATS server answers at {url}: {why}")
        return await task
    finally:
        task.cancel()


async def _unreachable(url: str) -> str:
    """Why none of the servers takes a connection; "": one does."""
    refusals = await asyncio.gather(*(_refusal(server) for server in servers(url)))
    return "" if "" in refusals else "; ".join(dict.fromkeys(refusals))


async def _refusal(server: str) -> str:
    parts = urlsplit(server if "://" in server else f"nats://{server}")
    try:
        async with asyncio.timeout(limits.REACHED_WITHIN_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 4222)
        writer.close()
    except TimeoutError:
        return f"no connection within {limits.REACHED_WITHIN_S} s"
    except OSError as error:
        known = error.errno is not None and error.errno > 0
        return os.strerror(error.errno) if known else error.strerror or str(error)  # type: ignore[arg-type]
    return ""


@contextlib.contextmanager
def _connecting() -> Iterator[None]:
    try:
        yield
    except (Unanswered, OSError) as error:
        raise NoSystem(f"{error}. {NO_SYSTEM}") from None
    except (BusError, NatsError, ValueError) as error:
        raise UserError(str(error) or type(error).__name__) from None


@contextlib.contextmanager
def _talking(url: str) -> Iterator[None]:
    try:
        yield
    except (RequestRefused, NoAnswer) as error:
        raise UserError(str(error)) from None
    except (BusError, NatsError) as error:
        raise UserError(f"{url}: {error}") from None
