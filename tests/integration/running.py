"""Services in tasks of the test, each with a connection of its own to a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from remuda_bus.bus import Bus
from remuda_bus.nats import Access, connect
from remuda_bus.process import Settings

Main = Callable[[Bus, Any], Awaitable[None]]


@asynccontextmanager
async def running(
    url: str, name: str, main: Main, settings: type[Settings] = Settings, access: Access | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A service until the block is left; raises what it failed with meanwhile."""
    bus = await connect(url, f"remuda-{name}", timeout_s=5, access=access)
    await bus.declare()
    await bus.announce()

    async def work() -> None:
        await main(bus, settings(nats_url=url, instance=name))

    task = asyncio.create_task(work())
    try:
        yield task
    finally:
        failed = task.done() and not task.cancelled() and task.exception()
        task.cancel()
        await asyncio.wait([task])
        await bus.close()
        if failed:
            raise failed


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 10.0) -> None:
    """Asks again and again; TimeoutError when it does not come to hold."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - nothing tells a test when a server has done its work
            await asyncio.sleep(0.02)
