"""The whole system at work under the shipped permissions: nothing that is needed is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.nats import connect
from remuda_config.shell import main as config
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve
from remuda_grpc.settings import GrpcSettings
from remuda_grpc.shell import main as grpc_main
from remuda_operations.ledger.reading import LedgerQuery, read_ledger
from remuda_operations.queries.core import explain, queues
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import Settings
from remuda_rmproxy.shell import main as rmproxy
from remuda_sdk import DeadLetter, ResourceManager, application, ask, node
from remuda_web.settings import WebSettings
from remuda_web.shell import serve as web_main
from tests.system.grpc_client import client, port_of, told
from tests.system.guarded import GuardedServer
from tests.system.running import running, until


class Eager(CoreSettings):
    """Snapshots at every occasion."""

    snapshot_facts: int = 1
    snapshot_s: float = 0.0
    snapshot_apart_s: float = 0.0
    replay_horizon_s: float = 0.0


class FreePort(GrpcSettings):
    port: int = 0


class WebFreePort(WebSettings):
    port: int = 0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    """With all services, each with its own key."""
    started = GuardedServer(tmp_path)
    async with started, AsyncExitStack() as services:
        admin = await connect_as(started, "remuda-cli", "admin")
        await admin.declare()
        await admin.close()
        for name, main, settings in (
            ("config", config, Settings),
            ("core", core, Eager),
            ("rmproxy", rmproxy, Settings),
            ("events", events, Settings),
            ("grpc", grpc_main, FreePort),
            ("web", web_main, WebFreePort),
        ):
            service = running(started.url, name, main, settings, started.access(name))
            await services.enter_async_context(service)
        yield started


async def events(bus: Bus, settings: object) -> None:
    await serve(bus, "events", ledger_tags=())


async def connect_as(server: GuardedServer, name: str, role: str) -> Bus:
    return await connect(server.url, name, access=server.access(role), timeout_s=5)


async def test_an_rm_of_every_kind_of_message_works(server: GuardedServer) -> None:
    rm = ResourceManager.connect(
        await connect_as(server, "rm-rm-1", "rm-1"), "rm-1", events=True, heartbeat_s=1.0,
        extra_config={"resync": "report"},
    )  # fmt: skip
    rm.on_predicates(lambda args: "not that one" if args.nodeID == "n1" else None)
    async with rm, asyncio.timeout(30):
        await rm.report_nodes([node("n1", vcore=2), node("n2", vcore=2)])
        await rm.submit(application("app", user="alice", tags={"namespace": "playground"}))
        await rm.ask([ask("app", "k", vcore=1), ask("app", "never", vcore=9)])
        seen: dict[str, object] = {}
        async for callback in rm.callbacks():
            if isinstance(callback, si.AllocationResponse) and callback.new:
                assert callback.new[0].nodeID == "n2"
                await rm.release(callback.new)
            seen[type(callback).__name__] = callback
            if isinstance(callback, si.AllocationResponse) and callback.released:
                seen["released"] = callback
            if seen.keys() >= {"released", "NodeResponse", "ApplicationResponse", "EventRecord"}:
                break
        people = await connect_as(server, "remuda-cli", "operator")
        assert [one.key for one in (await explain(people, "rm-1")).asks] == ["never"]
        assert (await queues(people, "rm-1")).partitions
        await until(lambda: has_ledger(people))
        await people.close()
        own = await connect_as(server, "remuda-cli", "rm-1")
        assert (await queues(own, "rm-1")).partitions
        with pytest.raises(Refused, match="may not publish"):
            await own.request(subjects.core_query("rm-2", "queues"), b"{}")
        await own.close()
        admin = await connect_as(server, "remuda-cli", "admin")

        async def saved() -> bool:
            return bool(await admin.object_names(subjects.SNAPSHOTS.name))

        await until(saved)
        await admin.close()
        await rm.deregister()
    violations = [line for line in server.log_file.read_text().splitlines() if "Violation" in line]
    assert len(violations) == 1 and "remuda.api.core.rm-2.queues" in violations[0]


async def has_ledger(people: Bus) -> bool:
    query = LedgerQuery(0, 2**40)
    return (await read_ledger(people, "rm-1", query)).begun_ms > 0


async def test_rm_over_grpc_works(server: GuardedServer) -> None:
    people = await connect_as(server, "remuda-cli", "operator")
    port = await port_of(people)
    await people.close()
    async with client(port) as rm:
        await rm.register()
        nodes, applications, allocations = (rm.open(kind) for kind in ("node", "application", "allocation"))
        create = si.NodeInfo(
            nodeID="n1", action=si.NodeInfo.CREATE, schedulableResource=node("n1", vcore=2).schedulableResource
        )
        await nodes.write(si.NodeRequest(nodes=[create]))
        await told(nodes, lambda responses: responses[-1].accepted)
        await applications.write(
            si.ApplicationRequest(new=[application("app", user="alice", tags={"namespace": "playground"})])
        )
        await told(applications, lambda responses: responses[-1].accepted)
        await allocations.write(si.AllocationRequest(asks=[ask("app", "k", vcore=1)]))
        await told(allocations, lambda responses: responses[-1].new)
        for stream in (nodes, applications, allocations):
            stream.cancel()
    assert not [line for line in server.log_file.read_text().splitlines() if "Violation" in line]


async def test_a_service_bears_streams_of_another_version(server: GuardedServer) -> None:
    """It may look and not change: in the middle of an upgrade that must not keep it from starting."""
    admin = await connect_as(server, "remuda-cli", "admin")
    found = json.loads((await admin.request("$JS.API.STREAM.INFO.LOG")).payload)["config"]
    changed = {**found, "description": "of another version"}
    await admin.request("$JS.API.STREAM.UPDATE.LOG", json.dumps(changed).encode())
    core = await connect_as(server, "remuda-core", "core")
    await core.declare()
    found = json.loads((await admin.request("$JS.API.STREAM.INFO.LOG")).payload)["config"]
    assert found["description"] == "of another version"
    await admin.declare()
    found = json.loads((await admin.request("$JS.API.STREAM.INFO.LOG")).payload)["config"]
    assert found["description"] == subjects.LOG.why
    for bus in (core, admin):
        await bus.close()


async def test_an_rm_hears_that_its_report_is_wanted(server: GuardedServer) -> None:
    """A plain message, without an answer, from the account of the services into that of the RM."""
    rm = ResourceManager.connect(await connect_as(server, "rm-rm-1", "rm-1"), "rm-1")
    asked = asyncio.Event()

    @rm.on_report_requested
    async def report() -> None:
        asked.set()

    async with rm, asyncio.timeout(30):
        proxy = await connect_as(server, "remuda-rmproxy", "rmproxy")
        await proxy.publish(subjects.report_request("rm-1"), b"")
        await asked.wait()
        await proxy.close()


async def test_a_forged_rm_id_is_refused_and_told(server: GuardedServer) -> None:
    """rm-1 claims to be rm-2 in what it sends: rm-2 hears and loses nothing, rm-1 and the operator are told."""
    bus = await connect_as(server, "rm-rm-1", "rm-1")
    other = ResourceManager.connect(await connect_as(server, "rm-rm-2", "rm-2"), "rm-2")
    async with other, ResourceManager.connect(bus, "rm-1") as rm, asyncio.timeout(30):
        forged = si.NodeRequest(rmID="rm-2", nodes=[si.NodeInfo(nodeID="n", action=si.NodeInfo.CREATE)])
        await bus.append(subjects.request("rm-1", "node"), forged.SerializeToString())
        async for callback in rm.callbacks():
            assert isinstance(callback, DeadLetter)
            assert "rm-2" in callback.reason
            break
        with pytest.raises(Refused, match="may not publish"):
            await bus.append(subjects.request("rm-2", "node"), forged.SerializeToString())
        with pytest.raises(Refused):
            await bus.request(
                subjects.register("rm-1"), si.RegisterResourceManagerRequest(rmID="rm-2").SerializeToString()
            )
    admin = await connect_as(server, "remuda-cli", "admin")
    letter = await admin.last_message(subjects.DEAD_LETTERS.name, subjects.dead_letter("rm-1"))
    assert letter is not None and letter.payload == forged.SerializeToString()
    await admin.close()
