"""A reflector: the objects of one kind as the API server has them, by a list and a watch.

An object that went while no watch ran is found by the next list. Each change is passed on once, in order. Where the API
server can, the watch itself begins with all objects: it has them in memory, and a list in pages is read from etcd.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Generic, TypeVar

import structlog

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import DELETED, INITIAL_END, ApiError, Change, Client, Expired, Rejected, Resource
from remuda_kubernetes.api.objects import Object

log = structlog.get_logger()

T = TypeVar("T", bound=Object)


class Reflector(Generic[T]):
    """Follows the objects of one kind. `changed`: called with each new or changed object. `gone`: called with the last
    observation of each object that is gone. `listed`: called after each list, behind the calls for its objects.
    `streams`: the API server can begin a watch with all objects; if it refuses, they are listed. `synced`: set after
    the first list. `served`: called when the API server has no such objects or gives no right to them, and when it has;
    then that is looked at again after OPTIONAL_RETRY_S. None: they are always there."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        changed: Callable[[T], None],
        gone: Callable[[T], None],
        listed: Callable[[], None] = lambda: None,
        *,
        streams: bool = False,
        served: Callable[[bool], None] | None = None,
    ) -> None:
        self.synced = asyncio.Event()
        self._streams = streams
        self._listed = listed
        self._client = client
        self._resource = resource
        self._changed = changed
        self._gone = gone
        self._known: dict[str, T] = {}  # by UID
        self._version = ""  # empty: list first
        self._served = served
        self._retry_s = limits.REFLECTOR_FIRST_RETRY_S

    async def run(self) -> None:
        """Runs until cancelled. Raises only what the functions raise that it calls."""
        while True:
            try:
                if not self._version:
                    await self._stream() if self._streams else await self._list()
                else:
                    await self._watch()
                    self._retry_s = limits.REFLECTOR_FIRST_RETRY_S
            except Expired:
                self._version = ""
            except ApiError as error:
                if self._served is not None and error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                    await self._unserved()
                    continue
                log.warning("the Kubernetes API does not answer", of=self._resource.path, error=str(error))
                if error.code:
                    self._version = ""
                await self._pause()

    async def _unserved(self) -> None:
        assert self._served is not None
        self._have([], "")
        self._served(False)
        await asyncio.sleep(limits.OPTIONAL_RETRY_S)

    async def _pause(self) -> None:
        await asyncio.sleep(self._retry_s * random.uniform(0.5, 1.0))
        self._retry_s = min(self._retry_s * 2, limits.REFLECTOR_LONGEST_RETRY_S)

    async def _list(self) -> None:
        items, version = await self._client.list(self._resource)
        self._have(items, version)

    async def _stream(self) -> None:
        """All objects, and then their changes, by one watch. Without its mark behind the objects, they are listed from
        now on."""
        found: dict[str, T] = {}
        try:
            async for change in self._client.watch(self._resource, ""):
                if self._version:
                    self._take(change)
                elif change.type == INITIAL_END:
                    self._have(found.values(), change.version)
                elif change.type == DELETED and change.value is not None:
                    found.pop(change.value.metadata.uid, None)
                elif change.value is not None:
                    found[change.value.metadata.uid] = change.value
        except Rejected:
            if self._version:
                raise
        self._streams = bool(self._version)

    def _have(self, items: Iterable[T], version: str) -> None:
        """Take `items` as all objects. Objects that are not among them are gone."""
        listed = {item.metadata.uid: item for item in items}
        for uid in [uid for uid in self._known if uid not in listed]:
            self._gone(self._known.pop(uid))
        for uid, item in listed.items():
            before = self._known.get(uid)
            if before is None or before.metadata.resource_version != item.metadata.resource_version:
                self._known[uid] = item
                self._changed(item)
        self._listed()
        if self._served is not None and version:
            self._served(True)
        self._version = version
        self._retry_s = limits.REFLECTOR_FIRST_RETRY_S
        self.synced.set()

    async def _watch(self) -> None:
        async for change in self._client.watch(self._resource, self._version):
            self._take(change)

    def _take(self, change: Change[T]) -> None:
        value = change.value
        if value is not None and change.type == DELETED:
            self._known.pop(value.metadata.uid, None)
            self._gone(value)
        elif value is not None:
            self._known[value.metadata.uid] = value
            self._changed(value)
        self._version = change.version
