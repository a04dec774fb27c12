"""Find running services: sends `$SRV.PING` to the NATS micro services `remuda-<service>`.

Every service registers as one when it has connected and declared its streams (`remuda_replication.process`). This
module knows nothing of processes. It talks to NATS directly because a ping has many answers, and a request of the bus
has one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

from remuda_bus.nats import Access, Msg, NatsError
from remuda_bus.nats.patched_client import PatchedClient, servers
from remuda_operations.queries.services import PING, ServiceInstance, in_order, instance_of


async def plain_client(url: str, name: str) -> PatchedClient:
    """Connects without JetStream, and reconnects for ever."""
    client = PatchedClient(Access.from_environment())
    await client.connect(
        servers(url),
        name=name,
        connect_timeout=2,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        error_cb=_ignore,
        inbox_prefix="_INBOX.remuda-cli",
    )
    return client


class Pinger:
    """Asks which services run: `async with Pinger(url) as pinger: await pinger.ping()`. It reconnects for ever."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Pinger:
        self._client = await plain_client(self._url, "remuda cli")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ping(self, wait_s: float = 0.25) -> list[ServiceInstance]:
        """Returns the services that answer within `wait_s`, ordered by service and instance."""
        found: list[ServiceInstance | None] = []

        async def arrived(message: Msg) -> None:
            found.append(instance_of(message.data))

        inbox = self._client.new_inbox()
        with suppress(NatsError):
            subscription = await self._client.subscribe(inbox, cb=arrived)
            await self._client.publish(PING, b"", reply=inbox)
            await asyncio.sleep(wait_s)
            await subscription.unsubscribe()
        return in_order(found)


async def _ignore(error: Exception) -> None:
    """A lost connection shows as missing answers."""
