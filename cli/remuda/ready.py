"""Which services answer: asks `$SRV.PING` of the NATS micro services `remuda-<service>`.

Every service registers as one when it has connected and declared its streams (`remuda_bus.process`). Knows nothing of
processes; talks to NATS directly because a ping has many answers and a request of the bus has one.
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
from remuda_bus.nats.connection import FastClient, servers

PREFIX = "remuda-"


@dataclass(frozen=True, slots=True)
class Answer:
    """One running instance of a service: `service` without the prefix, `id` its micro service ID."""

    service: str
    id: str
    version: str
    instance: str
    pid: int


class Pinger:
    """`async with Pinger(url) as pinger: await pinger.ping()`. Reconnects for ever; while it cannot, nobody answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = FastClient()

    async def __aenter__(self) -> Pinger:
        await self._client.connect(
            servers(self._url),
            name="remuda cli",
            connect_timeout=2,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            error_cb=_ignore,
            inbox_prefix="_INBOX.remuda-cli",
            **Access.from_environment().options(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ping(self, wait_s: float = 0.25) -> list[Answer]:
        """Who answers within `wait_s`, ordered by service and instance."""
        answers: list[Answer] = []

        async def arrived(message: Msg) -> None:
            answer = _answer(message.data)
            if answer is not None:
                answers.append(answer)

        inbox = self._client.new_inbox()
        with suppress(NatsError):
            subscription = await self._client.subscribe(inbox, cb=arrived)
            await self._client.publish("$SRV.PING", b"", reply=inbox)
            await asyncio.sleep(wait_s)
            await subscription.unsubscribe()
        return sorted(answers, key=lambda answer: (answer.service, answer.instance, answer.id))


async def _ignore(error: Exception) -> None:
    """Being disconnected shows as an absence of answers; there is nothing to add."""


def _answer(data: bytes) -> Answer | None:
    try:
        reply = json.loads(data)
        name = str(reply.get("name", ""))
        metadata = reply.get("metadata") or {}
        if not name.startswith(PREFIX):
            return None
        pid = int(metadata.get("pid", 0) or 0)
        service = name.removeprefix(PREFIX)
        return Answer(
            service, str(reply.get("id", "")), str(reply.get("version", "")), str(metadata.get("instance", "")), pid
        )
    except (ValueError, TypeError, AttributeError):
        return None
