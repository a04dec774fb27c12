"""Serve the storage status on the bus and publish each change of level.

Uses plain NATS, because JetStream may not answer."""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType

from remuda_bus import subjects
from remuda_bus.nats import Msg, NatsError

from ..client.service_ping import plain_client
from .storage import Storage


class StorageEndpoint:
    """`async with StorageEndpoint(url) as endpoint`: `update` sets the answer, `publish` also publishes it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._latest = b"{}"

    async def __aenter__(self) -> StorageEndpoint:
        self._client = await plain_client(self._url, "remuda up")
        await self._client.subscribe(subjects.STORAGE, cb=self._answer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    def update(self, storage: Storage) -> None:
        self._latest = json.dumps(storage.as_dict()).encode()

    async def publish(self, storage: Storage) -> None:
        self.update(storage)
        with suppress(NatsError):  # the server is away
            await self._client.publish(subjects.STORAGE_CHANGED, self._latest)

    async def _answer(self, message: Msg) -> None:
        with suppress(NatsError):
            await message.respond(self._latest)
