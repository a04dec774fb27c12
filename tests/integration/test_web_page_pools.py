"""The view of Peloton's pools in a real Chromium."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvicorn

from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_bus.operator_api.callers import Caller
from remuda_bus.operator_subjects import peloton_query
from remuda_resmgr import commands
from remuda_resmgr.core import Core
from remuda_resmgr.explain import pool_rows
from remuda_resmgr.rules.pools import KindConfig, PoolConfig
from remuda_resmgr.rules.task import Task
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.callers import set_caller
from tests.examples.node_packages import installed_packages
from tests.integration.browser import AXE, needs_chromium, tab
from tests.integration.running import until

pytestmark = [needs_chromium, pytest.mark.timeout(120)]


def core_with_pools() -> Core:
    """/batch-2 and /batch with /batch/nightly, where a task waits that is too large."""
    core = Core()
    core.handle(commands.SetCapacity((40.0, 4.0, 65_536.0, 0.0)), 1)
    for pool_id, parent, reservation in (("batch", "root", 10.0), ("nightly", "batch", 4.0), ("batch-2", "root", 0.0)):
        cpu, memory = KindConfig("cpu", reservation, 20.0), KindConfig("memory", 0.0, 32_768.0)
        assert core.handle(commands.CreatePool(PoolConfig(pool_id, pool_id, parent, (cpu, memory))), 1)[1] == pool_id
    for number, wanted in enumerate((12.0, 10.0)):
        task = Task(f"t{number}", f"t{number}-1", (wanted, 0.0, 1_024.0, 0.0), preemptible=True)
        core.handle(commands.EnqueueGangs("nightly", ((task,),)), 1)
    core.handle(commands.CalculateEntitlements(), 1)
    core.handle(commands.Admit(), 1)
    return core


@asynccontextmanager
async def page() -> AsyncIterator[str]:
    bus, core = MemoryBus(), core_with_pools()
    app = Application(BusSource(bus), "1", 0, "info", bus)

    async def with_caller(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, Caller(reads_all=True))
        await app(scope, receive, send)

    async def pools(message: Message) -> bytes:
        """Two on a page."""
        after = json.loads(message.payload).get("after", "")
        rows = pool_rows(core.state, after, 2)
        return msgspec.json.encode({"pools": rows, **({"next": rows[-1].path} if len(rows) == 2 else {})})

    await bus.serve(peloton_query("default", "pools"), pools, "pools")
    server = uvicorn.Server(uvicorn.Config(with_caller, "127.0.0.1", 0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await until(lambda: _started(server))
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    await serving


async def _started(server: uvicorn.Server) -> bool:
    return server.started


async def test_pools_are_a_tree_with_what_they_hold_of_their_limits() -> None:
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with page() as url:
        async with tab(url) as found:
            await found.open("pools")
            await found.shows(
                "Pools of default", "nightly", "cpu 12 of 20", "cpu 20, memory 32 GiB", "cpu 10, memory 1 GiB"
            )
            rows = await found.page.locator("tbody tr td:first-child").all_inner_texts()
            assert [one.strip() for one in rows] == ["root", "batch", "nightly", "batch-2"]
            assert await found.accessibility(axe) == []
            await found.page.get_by_label("Resource").select_option("memory")
            await found.shows("memory 1 GiB of 32 GiB")
            await found.page.get_by_label("Search pools").fill("nightly")
            await found.shows("1 of 4")
        async with tab(url, "dark", width=360, height=740) as found:
            await found.open("pools//default")
            await found.shows("nightly")
            assert await found.overflow() <= 0 and await found.accessibility(axe) == []
