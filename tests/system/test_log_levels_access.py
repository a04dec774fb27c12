"""Who changes log levels of processes, over a server with keys: administrators, and operators who are named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from remuda_bus import subjects
from remuda_bus.bus import BusError
from remuda_bus.nats import NatsBus, connect
from remuda_operations.operators import Operator
from remuda_replication.process.logs import LogLevels
from tests.system.guarded import GuardedServer

REQUEST = json.dumps({"level": "debug", "for_s": 0.1, "logger": "some.library"}).encode()
SERVICES = ("core", "rmproxy", "grpc", "web", "resmgr")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GuardedServer]:
    directory: Path = tmp_path_factory.mktemp("levels")
    server = GuardedServer(directory, operators=(Operator("alice", ("ops",)), Operator("bob")))
    server.keys.set_log_levels([Operator("alice")])
    async with server, AsyncExitStack() as stack:
        admin = await connect(server.url, "remuda-cli", access=server.access("admin"), timeout_s=5)
        stack.push_async_callback(admin.close)
        await admin.declare()
        for service in (*SERVICES, "core"):
            bus = await connect(server.url, f"remuda-{service}", access=server.access(service), timeout_s=5)
            stack.push_async_callback(bus.close)
            await LogLevels(service).serve(bus, service)
        name = subjects.callback_consumer("rm-1")
        rm = await connect(server.url, name, access=server.access("rm-1"), timeout_s=5)
        stack.push_async_callback(rm.close)
        await LogLevels("kubernetes").serve_on(rm, subjects.question("rm-1", "log_level"))
        yield server


async def answers(server: GuardedServer, role: str, subject: str) -> list[str]:
    """The instances that have changed their level; [refused]: the server lets the request through to nobody."""
    bus: NatsBus = await connect(server.url, "remuda-cli", access=server.access(role), timeout_s=5)
    try:
        found = await bus.request_all(subject, REQUEST, within_s=0.5)
    except BusError:
        return ["refused"]
    finally:
        await bus.close()
    return [json.loads(one.payload)["instance"] for one in found] or ["refused"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("role", ["admin", "alice"])
async def test_all_processes_of_each_service_answer_those_who_may(server: GuardedServer, role: str) -> None:
    for service in SERVICES:
        expected = [service] * (2 if service == "core" else 1)
        assert await answers(server, role, subjects.log_level(service)) == expected


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("role", ["bob", "operator", "core", "rm-1"])
async def test_nobody_answers_others(server: GuardedServer, role: str) -> None:
    assert await answers(server, role, subjects.log_level("rmproxy")) == ["refused"]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_front_end_that_is_an_rm_answers_administrators(server: GuardedServer) -> None:
    subject = subjects.question("rm-1", "log_level")
    assert await answers(server, "admin", subject) == ["kubernetes"]
    for role in ("alice", "rmproxy", "rm-2"):
        assert await answers(server, role, subject) == ["refused"]
