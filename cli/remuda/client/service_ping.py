"""Find running services: sends `$SRV.PING` to the NATS micro services `remuda-<service>`.

Every service registers as one when it has connected and declared its streams (`remuda_bus.process`). Knows nothing of
processes; talks to NATS directly because a ping has many found and a request of the bus has one.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from remuda_bus.nats import Access
from remuda_bus.nats.patched_client import PatchedClient, servers

PREFIX = "remuda-"


@dataclass(frozen=True, slots=True)
class ServiceInstance:
    """One running instance of a service: `service` without the prefix, `id` its micro service ID."""

    service: str
    id: str
    version: str
    instance: str
    pid: int


async def plain_client(url: str, name: str) -> PatchedClient:
    """A connection without JetStream, which reconnects for ever."""
    client = PatchedClient()
    await client.connect(
        servers(url),
        name=name,
        connect_timeout=2,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        error_cb=_ignore,
        inbox_prefix="_INBOX.remuda-cli",
        **Access.from_environment().options(),
    )
    return client


class Pinger:
    """`async with Pinger(url) as pinger: await pinger.ping()`. Reconnects for ever."""

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
        """The services that answer within `wait_s`, ordered by service and instance."""
        found: list[ServiceInstance] = []

        async def arrived(message: Msg) -> None:
            one = _instance_of(message.data)
            if one is not None:
                found.append(one)

        inbox = self._client.new_inbox()
        with suppress(NatsError):
            subscription = await self._client.subscribe(inbox, cb=arrived)
            await self._client.publish("$SRV.PING", b"", reply=inbox)
            await asyncio.sleep(wait_s)
            await subscription.unsubscribe()
        return sorted(found, key=lambda one: (one.service, one.instance, one.id))


async def _ignore(error: Exception) -> None:
    """A lost connection shows as missing answers."""


def _instance_of(data: bytes) -> ServiceInstance | None:
    try:
        reply = json.loads(data)
        name = str(reply.get("name", ""))
        metadata = reply.get("metadata") or {}
        if not name.startswith(PREFIX):
            return None
        pid = int(metadata.get("pid", 0) or 0)
        service = name.removeprefix(PREFIX)
        return ServiceInstance(
            service, str(reply.get("id", "")), str(reply.get("version", "")), str(metadata.get("instance", "")), pid
        )
    except (ValueError, TypeError, AttributeError):
        return None
