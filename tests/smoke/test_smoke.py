"""Each process and each transport once: an ask from an RM to its allocation, over NATS and over gRPC; answers of the
web service and of commands; a pool of Peloton. Folders named `system` hold what is tested of processes besides."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import httpx

from cli.tests.running import finished_each
from integrations.peloton.tests.test_server import HEADERS, RESMGR, create_pool, fields, message, set_capacity
from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.patience import READY_S
from tests.system.grpc_client import client, port_of
from tests.system.running import placed, until
from tests.system.web_client import address_of

PROCESSES = {
    "nats-server", "config", "core", "events", "rmproxy", "grpc", "web", "resmgr", "placement", "archive", "history",
}  # fmt: skip
WITHIN_S = 20.0


async def test_every_process_and_transport(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    layout = Layout(
        tmp_path, grpc_port=0, web_port=0, peloton_port=0, peloton_engines=1, log_level="warning",
        archive=str(archive), assignments=("archive.write=0.2",),
    )  # fmt: skip
    async with System(layout) as system:
        await system.ready(READY_S)
        assert {process.name for process in system.processes} == PROCESSES
        bus = await connect(system.url, "test", timeout_s=WITHIN_S)
        await over_nats(system.url)
        await over_grpc(await port_of(bus, "grpc"))
        await over_rest(bus)
        await asyncio.to_thread(pool_of_peloton, await peloton_port(bus))
        await by_commands(system.url)
        await in_the_archive(archive)
        await bus.close()


async def over_nats(url: str) -> None:
    async with ResourceManager.connect(url, "over-nats") as rm:
        await rm.report_nodes([node("n1", vcore=4_000)])
        await rm.submit(application("app-1", user="alice", tags={"namespace": "sandbox"}))
        await rm.ask([ask("app-1", "task-1", vcore=1_000)])
        [allocation] = await placed(rm, "task-1")
        assert allocation.nodeID == "n1"


async def over_grpc(port: int) -> None:
    async with client(port, "over-grpc") as rm, asyncio.timeout(WITHIN_S):
        await rm.register()
        nodes, applications, asks = rm.open("node"), rm.open("application"), rm.open("allocation")
        attributes = {"si/hostname": "n1"}
        resource = si.Resource(resources={"vcore": si.Quantity(value=4_000)})
        info = si.NodeInfo(nodeID="n1", action=si.NodeInfo.CREATE, schedulableResource=resource, attributes=attributes)
        await nodes.write(si.NodeRequest(nodes=[info], rmID="over-grpc"))
        assert (await nodes.read()).accepted[0].nodeID == "n1"
        new = application("app-1", user="alice", tags={"namespace": "sandbox"})
        await applications.write(si.ApplicationRequest(new=[new], rmID="over-grpc"))
        assert (await applications.read()).accepted[0].applicationID == "app-1"
        await asks.write(si.AllocationRequest(asks=[ask("app-1", "task-1", vcore=1_000)], rmID="over-grpc"))
        while not (response := await asks.read()).new:
            assert not response.rejected
        assert response.new[0].nodeID == "n1"


async def over_rest(bus: Bus) -> None:
    found = await address_of(bus)
    async with httpx.AsyncClient(
        base_url=f"{found['scheme']}://{found['host']}:{found['port']}", timeout=READY_S
    ) as web:
        page = await web.get("/")
        assert page.status_code == 200 and "remuda" in page.text
        (partition,) = [one for one in (await web.get("/ws/v1/partitions")).json() if "over-nats" in one["name"]]
        assert partition["totalNodes"] == 1, partition
        asked = await web.get("/api/v1/rms/over-nats/applications")
        assert asked.status_code == 200 and "app-1" in asked.text


async def peloton_port(bus: Bus) -> int:
    async def leader() -> dict[str, Any]:
        about = await bus.request(subjects.front_end("resmgr", "resmgr"))
        found: dict[str, Any] = json.loads(about.payload)
        return found

    async def leads() -> bool:
        return bool((await leader())["leads"])

    await until(leads)
    return int((await leader())["port"])


def pool_of_peloton(port: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:

        def call(rpc: str, service: str = RESMGR, /, **request: object) -> dict[int, list[object]]:
            method = channel.unary_unary(f"/{service}/{rpc}")
            return fields(method(message(**request), timeout=WITHIN_S, metadata=HEADERS))

        set_capacity(call, 10.0)
        assert create_pool(call)


async def in_the_archive(archive: Path) -> None:
    async def has_both() -> bool:
        return {one.parts[-4] for one in archive.rglob("*.segment")} == {"over-nats", "over-grpc"}

    await until(has_both, WITHIN_S)
    [(code, printed)] = await finished_each([["archive", "verify", str(archive)]])
    assert code == 0 and "no damage" in printed, printed


async def by_commands(url: str) -> None:
    expected = {
        ("status",): "over-nats",
        ("queues", "over-nats"): "sandbox",
        ("story", "task-1", "--rm", "over-nats"): "n1",
        ("pools",): "/pool",
    }
    wrong: list[object] = []

    async def right() -> bool:
        """On a busy machine, `status` may miss a service that runs at the lowest priority."""
        answers = await finished_each([*arguments, "--nats", url] for arguments in expected)
        wrong[:] = [
            (arguments, code, printed)
            for (arguments, said), (code, printed) in zip(expected.items(), answers, strict=True)
            if code or said not in printed
        ]
        return not wrong

    try:
        await until(right, 60.0)
    except TimeoutError:
        raise AssertionError(wrong) from None
