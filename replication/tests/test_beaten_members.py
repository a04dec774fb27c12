"""A core that is refused an RM because another core was faster."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.memory import MemoryBus
from remuda_replication.lease import Ownership
from remuda_replication.members import Members


class Beaten(MemoryBus):
    """The bus of a core that takes an RM when another core has just taken it. It is refused after it was told."""

    def __init__(self, server: MemoryBus, faster: Members) -> None:
        self.__dict__ = server.__dict__.copy()
        self._faster = faster

    async def put(self, bucket: str, key: str, *args, **options) -> int:
        if bucket == subjects.LEADERS.name:
            won = Ownership(self._faster.name, self._faster.lease.token, 0)
            await super().put(bucket, key, won.encode())
            await asyncio.sleep(0.05)
            raise Refused("another revision")
        return await super().put(bucket, key, *args, **options)


async def test_a_core_that_was_beaten_to_an_rm_stops_following_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remuda_replication.members.FOLLOWS_ON_S", 0.1)
    server = MemoryBus()
    faster = Members(server, "two", 0)
    beaten = Members(Beaten(server, faster), "one", 0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        faster.start(tasks)
        while not faster.lease.held:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        faster.know("a")
        beaten.start(tasks)
        beaten.know("a")
        await beaten.follows("a", True)
        beaten.hot("a")
        waiting = asyncio.create_task(beaten.elected("a"))
        await beaten.follows("a", False)
        assert beaten.leader_of("a") == "two"
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        for task in list(tasks._tasks):
            task.cancel()
