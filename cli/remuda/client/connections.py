"""Connections of commands to a running system. An outage, a refusal or a wrong setting raises UserError with the server
and what was expected."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from remuda_bus.bus import Bus, BusError, Unanswered
from remuda_bus.nats import Access, NatsError, connect
from remuda_bus.nats.connection import Connection
from remuda_bus.nats.jetstream import JetStream
from remuda_operations.queries import NoAnswer, RequestRefused

from .. import limits
from ..errors import UserError
from ..terminal import arguments

NO_SYSTEM = (
    "`remuda up` starts a system, --nats selects another; a secured one needs REMUDA_NATS_CA and REMUDA_NATS_SEED"
)


@contextlib.asynccontextmanager
async def bus_at(url: str) -> AsyncIterator[Bus]:
    """A connection to a running system. UserError if there is none."""
    arguments.url(url)
    with _connecting():
        bus = await connect(url, "remuda-cli", timeout_s=limits.CONNECT_WITHIN_S)
    try:
        with _talking(url):
            yield bus
    finally:
        await bus.close()


@contextlib.asynccontextmanager
async def jetstream_at(url: str) -> AsyncIterator[JetStream]:
    """The JetStream API of a running system. UserError if there is none."""
    arguments.url(url)
    with _connecting():
        connection = Connection(url, "remuda-cli", Access.from_environment())
        await connection.open(limits.CONNECT_WITHIN_S)
    try:
        with _talking(url):
            yield JetStream(connection)
    finally:
        await connection.close()


@contextlib.contextmanager
def _connecting() -> Iterator[None]:
    try:
        yield
    except (Unanswered, OSError) as error:
        raise UserError(f"{error}. {NO_SYSTEM}") from None
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
