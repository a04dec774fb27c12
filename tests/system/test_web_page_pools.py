"""The view of Peloton's pools in a real Chromium."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import uvicorn

from remuda_bus.bus import BusError, Message
from remuda_bus.memory import MemoryBus
from remuda_bus.subjects import front_end, peloton_query, peloton_rpc
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_operations.queries.peloton import change_pools
from remuda_peloton import commands
from remuda_peloton.core import Core
from remuda_peloton.explain import pool_rows
from remuda_peloton.rules.pools import KindConfig, PoolConfig
from remuda_peloton.rules.task import Task
from remuda_peloton.shell.main import main
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.callers import set_caller
from tests.system.browser import AXE, needs_chromium, tab
from tests.system.node_packages import installed_packages
from tests.system.running import until

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
    """Of a core that only answers."""
    bus, core = MemoryBus(), core_with_pools()

    async def pools(message: Message) -> bytes:
        """Two on a page."""
        after = json.loads(message.payload).get("after", "")
        rows = pool_rows(core.state, after, 2)
        return msgspec.json.encode({"pools": rows, **({"next": rows[-1].path} if len(rows) == 2 else {})})

    await bus.serve(peloton_query("default", "pools"), pools, "pools")
    async with web(bus, Caller(reads_all=True)) as url:
        yield url


@asynccontextmanager
async def page_of_resmgr(operator: str) -> AsyncIterator[str]:
    """Of a resource manager that leads; ann administers it."""
    bus = MemoryBus()
    await bus.declare()
    resmgr = asyncio.create_task(main(bus, ResmgrSettings(instance="resmgr", port=0, scheduler_acl="ann")))

    async def leads() -> bool:
        with suppress(BusError):
            return bool(json.loads((await bus.request(front_end("resmgr", "resmgr"))).payload)["leads"])
        return False

    await until(leads)
    capacity = hosts_pb2.SetCapacityRequest(cpu=40.0, memory=65_536.0)
    await bus.request(peloton_rpc("default", "hosts", "SetCapacity"), capacity.SerializeToString())
    await change_pools(bus, "default", {"path": "/batch", "set": {"cpu.limit": "20"}})
    async with web(bus, Caller(Operator(operator), reads_all=True)) as url:
        yield url
    resmgr.cancel()
    await asyncio.wait([resmgr])


@asynccontextmanager
async def web(bus: MemoryBus, caller: Caller) -> AsyncIterator[str]:
    app = Application(BusSource(bus), "1", 0, "info", bus)

    async def with_caller(scope: Any, receive: Any, send: Any) -> None:
        set_caller(scope, caller)
        await app(scope, receive, send)

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
            assert [one.split()[0] for one in rows] == ["root", "batch", "nightly", "batch-2"]
            assert await found.accessibility(axe) == []
            await found.page.get_by_label("Resource").select_option("memory")
            await found.shows("memory 1 GiB of 32 GiB")
            await found.page.get_by_label("Search pools").fill("nightly")
            await found.shows("1 of 4")
        async with tab(url, "dark", width=360, height=740) as found:
            await found.open("pools//default")
            await found.shows("nightly")
            assert await found.overflow() <= 0 and await found.accessibility(axe) == []


async def test_an_operator_makes_changes_and_deletes_pools() -> None:
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with page_of_resmgr("ann") as url, tab(url) as found:
        found.page.on("dialog", lambda dialog: dialog.accept())
        await found.open("pools")
        await found.shows("batch")
        await found.page.get_by_label("Resource").select_option("cpu")
        await found.page.get_by_role("button", name="New pool below /batch", exact=True).click()
        await found.shows("New pool below /batch")
        await found.page.get_by_label("Name").fill("nightly")
        await found.page.get_by_label("limit of cpu").fill("8")
        await found.page.get_by_label("reservation of memory is static").check()
        assert await found.accessibility(axe) == []
        await found.page.get_by_role("button", name="Create").click()
        await found.shows("/batch/nightly: created", "cpu 0 of 8")
        await found.page.get_by_role("button", name="nightly", exact=True).click()
        assert await found.page.get_by_label("reservation of memory is static").is_checked()
        await found.page.get_by_label("limit of cpu").fill("9")
        await found.page.get_by_label("Description").fill("jobs of the night")
        slack, controllers = (found.page.get_by_label(one) for one in ("Slack limit", "Limit of controllers"))
        await slack.fill("150")
        await controllers.fill("101")
        await found.page.get_by_role("button", name="Change").click()
        await found.shows("controller_limit is 101.0, expected at most 100")
        assert await controllers.get_attribute("aria-invalid") == "true"
        assert await slack.get_attribute("aria-invalid") is None
        assert await found.accessibility(axe) == []
        await controllers.fill("25")
        await found.page.get_by_label("reservation of cpu", exact=True).fill("10")
        await found.page.get_by_role("button", name="Change").click()
        await found.shows("cpu.reservation is 10.0, expected at most the limit 9.0")
        reservation = found.page.get_by_label("reservation of cpu", exact=True)
        assert await reservation.get_attribute("aria-invalid") == "true"
        assert await controllers.get_attribute("aria-invalid") is None
        await reservation.fill("0")
        await found.page.get_by_role("button", name="Change").click()
        await found.shows("/batch/nightly: changed", "cpu 0 of 9")
        await found.page.get_by_role("button", name="nightly", exact=True).click()
        assert await found.page.get_by_label("Description").input_value() == "jobs of the night"
        assert (await slack.input_value(), await controllers.input_value()) == ("150", "25")
        await slack.fill("")
        await found.page.get_by_label("limit of cpu").fill("7")
        await found.page.get_by_role("button", name="Change").click()
        await found.shows("cpu 0 of 7")
        await found.page.get_by_role("button", name="nightly", exact=True).click()
        assert (await slack.input_value(), await controllers.input_value()) == ("", "25")
        await found.page.get_by_role("button", name="Delete").click()
        await found.shows("/batch/nightly: deleted")
        found.problems = [one for one in found.problems if "400" not in one]


async def test_a_text_is_applied_as_a_whole() -> None:
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with page_of_resmgr("ann") as url, tab(url) as found:
        found.page.on("dialog", lambda dialog: dialog.accept())
        await found.open("pools")
        await found.page.get_by_text("Apply a file").click()
        await found.page.get_by_label("All pools, in YAML").fill("pools: [{name: new, cpu: {limit: 7}}]")
        await found.page.reload()
        assert "limit: 7" in await found.page.get_by_label("All pools, in YAML").input_value(), "it is kept"
        await found.page.get_by_role("button", name="Preview").click()
        await found.shows("/batch deleted", "/new created: cpu.limit 7", "/new: cpu 0 → 7", "/batch: cpu 20 → 0")
        assert await found.accessibility(axe) == []
        await found.page.get_by_role("button", name="Apply").click()
        await found.shows("/batch deleted", "/new created")
        await found.page.get_by_role("button", name="new", exact=True).click()
        assert await found.page.get_by_label("limit of cpu").input_value() == "7"
        await found.page.get_by_role("button", name="Cancel").click()
        assert await found.accessibility(axe) == []
        await found.page.get_by_label("All pools, in YAML").fill("pools: [{name: new, cpu: {limit: x}}]")
        for name in ("Apply", "Preview"):
            await found.page.get_by_role("button", name=name).click()
            await found.shows("line 1: cpu.limit is 'x', expected a number")
        found.problems = [one for one in found.problems if "400" not in one]


async def test_others_are_told_that_they_may_not() -> None:
    async with page_of_resmgr("eve") as url, tab(url, "dark", width=360, height=740) as found:
        await found.open("pools")
        await found.page.get_by_role("button", name="batch", exact=True).click()
        assert await found.overflow() <= 0
        await found.page.get_by_label("limit of cpu").fill("1")
        await found.page.get_by_role("button", name="Change").click()
        await found.shows("eve may not change pools: expected a member of scheduler.acl")
        found.problems = [one for one in found.problems if "403" not in one]
