"""`kill -9` of rmproxy, again and again, in the middle of a load: requests and callbacks take effect exactly once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

from remuda.embedded import NatsServer
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import RegistrationFailed, ResourceManager, application, ask, node
from tests.system.running import QUEUES, running

ASKS = 20_000
KILLS = 3


async def start(url: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", "run", "rmproxy", "--nats", url, stderr=asyncio.subprocess.DEVNULL
    )


async def register(rm: ResourceManager) -> None:
    """As soon as an rmproxy is up."""
    while True:
        try:
            return await rm.register()
        except RegistrationFailed as failure:
            if failure.code != 503:
                raise
            await asyncio.sleep(0.05)


async def test_every_ask_is_allocated_exactly_once(tmp_path: Path) -> None:
    placed: Counter[str] = Counter()
    uuids: set[str] = set()
    async with (
        NatsServer(tmp_path / "nats") as server,
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "core", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES, register=False) as rm,
    ):
        rmproxy = await start(server.url)
        try:
            async with asyncio.timeout(20):
                await register(rm)
            await rm.report_nodes([node(f"n{number}", vcore=ASKS // 100) for number in range(100)])
            await rm.submit(application("app-1", queue="root.a", user="u"))
            asking = asyncio.create_task(_ask(rm))
            kill_at = [ASKS * number // (KILLS + 1) for number in range(1, KILLS + 1)]
            async with asyncio.timeout(60):
                async for callback in rm.callbacks():
                    if isinstance(callback, si.AllocationResponse):
                        placed.update(one.allocationKey for one in callback.new)
                        uuids.update(one.UUID for one in callback.new)
                    if kill_at and len(placed) >= kill_at[0]:
                        kill_at.pop(0)
                        rmproxy.kill()
                        await rmproxy.wait()
                        rmproxy = await start(server.url)
                    if len(placed) == ASKS:
                        break
            await asking
        finally:
            rmproxy.kill()
            await rmproxy.wait()
    assert kill_at == [] and len(uuids) == ASKS
    assert set(placed.values()) == {1}


async def _ask(rm: ResourceManager) -> None:
    """In many small messages, so that a kill is always in the middle of some."""
    for start_ in range(0, ASKS, 50):
        await rm.ask([ask("app-1", f"k{number}", vcore=1) for number in range(start_, start_ + 50)])
