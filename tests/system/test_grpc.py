"""`si.v1.Scheduler` over gRPC, with a real nats-server, rmproxy and core."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_grpc import limits
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.grpc_client import Client, client, details, failure, told
from tests.system.grpc_system import System, front_end, grpc_system
from tests.system.running import until

ROOT = Path(__file__).resolve().parents[2]
SPECIFICATION = Path(os.environ.get("REMUDA_SPEC", ROOT.parent / "shared" / "spec"))


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


def some_nodes(count: int, vcore: int = 1_000) -> si.NodeRequest:
    size = si.Resource(resources={"vcore": si.Quantity(value=vcore), "memory": si.Quantity(value=2**30)})
    create = si.NodeInfo.CREATE
    nodes = [si.NodeInfo(nodeID=f"n{n}", action=create, schedulableResource=size) for n in range(count)]
    return si.NodeRequest(nodes=nodes)


def app_1() -> si.ApplicationRequest:
    return si.ApplicationRequest(new=[application("app-1", user="alice", tags={"namespace": "sandbox"})])


def asks(*keys: str, vcore: int = 1) -> si.AllocationRequest:
    return si.AllocationRequest(asks=[ask("app-1", key, vcore=vcore) for key in keys])


def never(responses: list[object]) -> bool:
    """Enough responses only when the RPC ends."""
    return False


def keys_of(responses: list[si.AllocationResponse]) -> list[str]:
    return [one.allocationKey for response in responses for one in response.new]


async def in_service(rm: Client) -> None:
    """Registers the RM, with a node and an application; its streams end."""
    await rm.register()
    nodes, applications = rm.open("node"), rm.open("application")
    await nodes.write(some_nodes(1))
    await told(nodes, lambda responses: responses[-1].accepted)
    await applications.write(app_1())
    await told(applications, lambda responses: responses[-1].accepted)
    nodes.cancel()
    applications.cancel()


# Any client


def proto_of_the_specification(tmp_path: Path) -> Path:
    files = sorted(SPECIFICATION.glob("000_*.txt"))
    if not files:
        pytest.skip(f"no specification (000_*.txt) in {SPECIFICATION}; set REMUDA_SPEC to its directory")
    text = re.sub(r"^\| ?(.*?) ?\|$", r"\1", files[0].read_text(), flags=re.MULTILINE)
    target = tmp_path / "specification.proto"
    target.write_text("\n".join(re.findall(r"^```protobuf\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)))
    return target


async def run_as_process(proto: Path, system: System) -> dict[str, object]:
    script = Path(__file__).with_name("grpc_rm.py")
    argv = (sys.executable, "-I", str(script), str(proto), f"127.0.0.1:{system.port}", "over-grpc", "100", "10000")
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, object] = json.loads(output)
    return found


async def run_over_nats(system: System) -> dict[str, object]:
    """The same as `grpc_rm.py` does, with the SDK."""
    async with ResourceManager.connect(system.url, "over-nats") as rm:
        await rm.report_nodes([node(f"n{number:04}", vcore=10_000, memory=10_000) for number in range(100)])
        await rm.submit(application("app-1", user="alice", tags={"namespace": "sandbox"}))
        await rm.ask([ask("app-1", f"k{number}", vcore=10, memory=10) for number in range(10_000)])
        seen: dict[str, object] = {"nodes": 0, "applications": [], "released": 0, "states": []}
        placed: dict[str, str] = {}
        by_node: dict[str, int] = {}
        on: list[str] = []
        async for callback in rm.callbacks():
            if isinstance(callback, si.NodeResponse):
                seen["nodes"] += len(callback.accepted)  # type: ignore[operator]
            if isinstance(callback, si.ApplicationResponse):
                seen["applications"] += [one.applicationID for one in callback.accepted]  # type: ignore[operator]
                seen["states"] += [one.state for one in callback.updated]  # type: ignore[operator]
            if not isinstance(callback, si.AllocationResponse):
                continue
            for one in callback.new:
                if one.allocationKey == "last":
                    on.append(one.nodeID)
                else:
                    placed[one.allocationKey] = one.UUID
                    by_node[one.nodeID] = by_node.get(one.nodeID, 0) + 1
            if callback.new and len(placed) == 10_000 and not on:
                await rm.update_nodes([si.NodeInfo(nodeID="n0000", action=si.NodeInfo.DRAIN_NODE)])
                await rm.release([si.AllocationRelease(applicationID="app-1", UUID=uuid) for uuid in placed.values()])
            seen["released"] += len(callback.released)  # type: ignore[operator]
            if callback.released and seen["released"] == 10_000:
                await rm.ask([ask("app-1", "last", vcore=9_000, memory=9_000, count=99)])
            if len(on) == 99:
                break
    return {**seen, "allocated": len(placed), "by_node": sorted(by_node.values()), "after_drain": sorted(on)}


async def test_client_from_the_text_of_the_specification_gets_the_same_as_over_nats(system, tmp_path):
    over_grpc = await run_as_process(proto_of_the_specification(tmp_path), system)
    assert over_grpc == await run_over_nats(system)


async def test_client_from_our_proto(system):
    assert (await run_as_process(ROOT / "proto/si/v1/si.proto", system))["allocated"] == 10_000


async def _serves(check, service: str) -> bool:
    answer = await check(health_pb2.HealthCheckRequest(service=service))
    return answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_health_and_reflection(system):
    async with grpc.aio.insecure_channel(f"localhost:{system.port}") as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        for service in ("", "si.v1.Scheduler"):
            await until(partial(_serves, check, service))
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = await call.read()
        assert "si.v1.Scheduler" in [one.name for one in listed.list_services_response.service]
        call.cancel()


# Bad input


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"rmID": "a b"}, "rmID", "rmID 'a b': expected"),
        ({"rmID": ""}, "rmID", "rmID '': expected"),
        ({"extraConfig": {"resync": "maybe"}}, "extraConfig.resync", "'maybe'"),
        ({"config": "partitions: []"}, "partitions", "partitions"),
    ],
)
async def test_registration_that_is_refused_names_the_field(system, fields, field, said):
    async with client(system.port) as rm:
        error = await failure(rm.register(**fields))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert said in error.details()
    assert details(error)["BadRequest"].field_violations[0].field.startswith(field)
    assert details(error)["ErrorInfo"].domain == "remuda"


async def test_stream_of_an_rm_that_is_not_registered(system):
    async with client(system.port) as rm:
        error = await failure(rm.open("node").read())
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "RegisterResourceManager" in error.details()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (si.NodeRequest(rmID="rm-2"), "rmID 'rm-2': this stream belongs to 'rm-1'"),
        (b"\xff\xff\xff", "NodeRequest: the 3 bytes are not one"),
    ],
)
async def test_request_that_is_wrong_ends_its_stream_alone(system, request_, said):
    async with client(system.port) as rm:
        await rm.register()
        nodes, applications = rm.open("node"), rm.open("application")
        await nodes.write(some_nodes(1))
        await told(nodes, lambda responses: responses[-1].accepted)
        await nodes.write(request_)
        error = await failure(nodes.read())
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert said in error.details()
        assert dict(error.trailing_metadata())["remuda-requests-stored"] == "1"
        await applications.write(app_1())
        assert (await told(applications, len))[0].accepted


# Connections


async def states_of(system: System, rm_id: str = "rm-1") -> list[str]:
    """The facts of the log on the connection to the RM, in order."""
    reader = await system.bus.read(subjects.LOG.name, subjects.log(rm_id))
    commits = [log_pb2.Commit.FromString(message.payload) for message in await reader.batch(10_000, timeout_s=1)]
    await reader.close()
    facts = (fact for commit in commits for decision in commit.decisions for fact in decision.facts)
    return [kind for fact in facts if (kind := fact.WhichOneof("fact")) in ("rm_paused", "rm_resumed", "rm_stopped")]


async def test_end_of_the_streams_is_connection_loss(system):
    async with client(system.port) as rm:
        await rm.register()
        nodes = rm.open("node")
        await nodes.write(some_nodes(1))
        await told(nodes, lambda responses: responses[-1].accepted)
        before = (await states_of(system)).count("rm_paused")
        nodes.cancel()

        async def paused() -> bool:
            return (await states_of(system)).count("rm_paused") > before

        await until(paused)
        nodes = rm.open("node")
        await nodes.write(some_nodes(0))

        async def resumed() -> bool:
            return (await states_of(system))[-1:] == ["rm_resumed"]

        await until(resumed)


async def test_callbacks_wait_for_the_next_stream_on_another_front_end(system):
    async with front_end(system.url, system.bus, "grpc-2") as second, client(second) as there:
        async with client(system.port) as here:
            await in_service(here)
            allocations = here.open("allocation")
            await allocations.write(asks(*(f"k{number}" for number in range(500))))
            await told(allocations, keys_of)
            allocations.cancel()
        allocations = there.open("allocation")
        keys = keys_of(await told(allocations, lambda responses: len(set(keys_of(responses))) == 500))
        assert sorted(set(keys)) == sorted(f"k{number}" for number in range(500))


async def test_newer_stream_on_another_front_end_ends_those_here(system):
    async with (
        front_end(system.url, system.bus, "grpc-2") as second,
        client(system.port) as here,
        client(second) as there,
    ):
        await in_service(here)
        first = here.open("node")
        await first.initial_metadata()
        other = there.open("node")
        error = await failure(told(first, never))
        assert error.code() == grpc.StatusCode.ABORTED
        assert "another front end" in error.details()
        await other.write(some_nodes(2))
        assert await told(other, lambda responses: any(one.nodeID == "n1" for one in responses[-1].accepted))


async def test_client_that_says_how_far_it_has_come_hears_nothing_again(system):
    async with client(system.port) as rm:
        await in_service(rm)
        allocations = rm.open("allocation")
        await allocations.write(asks("k1"))
        assert keys_of(await told(allocations, keys_of)) == ["k1"]
        allocations.cancel()
        last = await system.bus.last_message(subjects.CALLBACKS.name, subjects.callback("rm-1", "allocation"))
        allocations = rm.open("allocation", remuda_log_seq=last.headers[subjects.LOG_SEQ])
        await allocations.write(asks("k2"))
        assert keys_of(await told(allocations, keys_of)) == ["k2"]


async def test_registration_by_another_client_ends_the_streams_of_the_first(system):
    async with client(system.port) as first, client(system.port) as second:
        number = await first.register()
        nodes = first.open("node")
        await nodes.initial_metadata()
        assert await second.register() > number
        error = await failure(told(nodes, never))
        assert error.code() == grpc.StatusCode.ABORTED
        stale = await failure(second.open("node", remuda_registration=str(number)).read())
        assert stale.code() == grpc.StatusCode.ABORTED


async def test_streams_stay_open_when_their_client_registers_again(system):
    async with client(system.port) as rm:
        await rm.register()
        nodes = rm.open("node")
        await nodes.write(some_nodes(1))
        await told(nodes, lambda responses: responses[-1].accepted)
        await rm.register()
        await nodes.write(some_nodes(2))
        accepted = await told(nodes, lambda responses: any(one.nodeID == "n1" for one in responses[-1].accepted))
        assert {one.nodeID for one in accepted[-1].accepted} == {"n0", "n1"}, "the state of the former was discarded"


async def test_client_that_does_not_read_costs_bounded_memory_and_holds_up_nobody(system, monkeypatch):
    monkeypatch.setattr(limits, "UNCONFIRMED_MESSAGES", 50)
    monkeypatch.setattr(limits, "BATCH_MESSAGES", 10)
    async with client(system.port) as silent, client(system.port, "rm-2") as other:
        await in_service(silent)
        await in_service(other)
        unread = silent.open("allocation")
        for number in range(200):
            await unread.write(asks(f"{number:04}" + "x" * 200))
        durable = subjects.callback_consumer("rm-1")

        async def waits() -> bool:
            state = await system.bus.consumer_state(subjects.CALLBACKS.name, durable)
            return state is not None and state.waiting > 0

        await until(waits)
        read = other.open("allocation")
        await read.write(asks("k1"))
        assert keys_of(await told(read, keys_of)) == ["k1"]
