"""`remuda_sdk.api` over gRPC: front ends that end, and requests that were sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from remuda.admin.rebuild import delete_and_request_report
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_grpc.scheduler import ACKNOWLEDGE
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api import RegistrationFailed, Unanswered, connect
from remuda_sdk.resource_manager.registration import ReportRequested
from tests.system.grpc_client import client, details, failure
from tests.system.grpc_system import System, front_end, grpc_system
from tests.system.recording_rm import Recording, asks, in_service, nodes, registration, submission
from tests.system.running import QUEUES


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


async def test_rm_goes_on_at_another_front_end(system: System) -> None:
    async with front_end(system.url, system.bus, "grpc-2") as second:
        rm = Recording()
        async with front_end(system.url, system.bus, "grpc-3") as third:
            scheduler = connect(f"grpc://127.0.0.1:{third},127.0.0.1:{second}")
            await scheduler.__aenter__()
            await in_service(scheduler, rm, QUEUES, "n1")
            await scheduler.update_allocation(asks("k1"))
            await rm.until(lambda: "k1" in rm.running())
        await scheduler.update_allocation(asks("k2"))
        await rm.until(lambda: "k2" in rm.running())
        assert rm.running().keys() == {"k1", "k2"}
        await scheduler.__aexit__(None, None, None)


async def test_requests_are_stored_once_while_front_ends_end(system: System) -> None:
    """The front end of the RM ends while requests are under way."""
    count = 160
    rm = Recording()
    async with front_end(system.url, system.bus, "grpc-0") as first:
        scheduler = connect(f"grpc://127.0.0.1:{first},127.0.0.1:{system.port}")
        await scheduler.__aenter__()
        await in_service(scheduler, rm, QUEUES, "n1", "n2", "n3", "n4", "n5")

        async def ask_all() -> None:
            for number in range(count):
                await scheduler.update_allocation(asks(f"k{number}", vcore=10))

        asking = asyncio.create_task(ask_all())
        await rm.until(lambda: len(rm.running()) > count // 8)
    await asking
    await rm.until(lambda: len(rm.running()) == count)
    assert len(rm.allocations) == count, "no ask was allocated twice"
    await scheduler.__aexit__(None, None, None)


async def test_request_with_a_known_number_is_stored_once(system: System) -> None:
    async with client(system.port) as rm:
        await rm.register()
        for _ in range(2):
            stream = rm.open("node", remuda_acknowledge="token:7")
            await stream.write(nodes("n1"))
            while (await stream.read()).ByteSize():  # callbacks, until the acknowledgement
                pass
            stream.cancel()
        last = await system.bus.last_sequence(subjects.REQUESTS.name)
        stream = rm.open("node", remuda_acknowledge="token:8")
        await stream.write(nodes("n2"))
        while (await stream.read()).ByteSize():
            pass
        assert await system.bus.last_sequence(subjects.REQUESTS.name) == last + 1


@pytest.mark.parametrize("given", ["", "token", "token:", "token:x", "to.ken:1", "t" * 33 + ":1", "token:-1"])
async def test_malformed_number_is_refused(system: System, given: str) -> None:
    async with client(system.port) as rm:
        await rm.register()
        error = await failure(rm.open("node", remuda_acknowledge=given).read())
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert ACKNOWLEDGE in error.details()


async def test_rm_reports_after_its_log_was_removed(system: System, tmp_path: Path) -> None:
    """Its allocations go on, its nodes and applications are known again, and an ask of before is placed."""

    class Reporting(Recording):
        async def report_requested(self) -> None:
            request = nodes("n1", vcore=1_000)
            request.nodes[0].existingAllocations.extend(self.running().values())
            await scheduler.update_application(submission())
            await scheduler.update_node(request)
            await scheduler.update_allocation(asks("k2"))

    rm = Reporting()
    async with connect(f"grpc://127.0.0.1:{system.port}") as scheduler:
        await in_service(scheduler, rm, QUEUES, "n1")
        await scheduler.update_allocation(asks("k1"))
        await rm.until(lambda: "k1" in rm.running())
        before = rm.running()["k1"].UUID
        await delete_and_request_report(system.bus, "rm-1", tmp_path)
        await rm.until(lambda: "k2" in rm.running())
        assert before == rm.running()["k1"].UUID
        assert rm.nodes == ["n1", "n1"]


async def test_rm_that_cannot_report_ends(system: System, tmp_path: Path) -> None:
    rm = Recording()
    async with connect(f"grpc://127.0.0.1:{system.port}") as scheduler:
        await scheduler.register_resource_manager(registration(QUEUES), rm)
        await delete_and_request_report(system.bus, "rm-1", tmp_path)
        with pytest.raises(ReportRequested, match="rm-1"):
            async with asyncio.timeout(20):
                await scheduler.wait()
        error = await failure(streams_of(system))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert details(error)["ErrorInfo"].reason == "REPORT_REQUESTED"


async def streams_of(system: System) -> None:
    async with client(system.port) as rm:
        await rm.open("node").read()


async def test_missing_front_end_is_an_outage() -> None:
    async with connect("grpc://127.0.0.1:1", register_within_s=0.5) as scheduler:
        with pytest.raises(RegistrationFailed) as failed:
            await scheduler.register_resource_manager(registration(), Recording())
    assert failed.value.code == 503


async def test_update_is_given_up_after_a_while(system: System) -> None:
    rm = Recording()
    async with front_end(system.url, system.bus, "grpc-2") as port:
        scheduler = connect(f"grpc://127.0.0.1:{port}", retry_for_s=0.5)
        await scheduler.__aenter__()
        await scheduler.register_resource_manager(registration(QUEUES), rm)
    with pytest.raises(Unanswered, match=r"within 0.5 s"):
        await scheduler.update_node(nodes("n1"))
    await scheduler.__aexit__(None, None, None)


async def test_callback_may_send_updates(system: System) -> None:
    """More of them than wait in the client."""

    class Answering(Recording):
        async def update_node(self, response: si.NodeResponse) -> None:  # type: ignore[override]
            super().update_node(response)
            for one in response.accepted:
                if len(one.nodeID) < 4:
                    await scheduler.update_node(nodes(f"{one.nodeID}-more"))

    async with connect(f"grpc://127.0.0.1:{system.port}") as scheduler:
        rm = Answering()
        await scheduler.register_resource_manager(registration(QUEUES), rm)
        await scheduler.update_node(nodes(*(f"n{number}" for number in range(50))))
        await rm.until(lambda: len(rm.nodes) >= 100)
        assert len(set(rm.nodes)) == 100


@pytest.mark.parametrize("url", ["grpc://", "grpc://host:port", "grpc://a:1,", "grpc://a:1/x"])
def test_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        connect(url)
