"""RPCs over NATS: a real server, and a resource manager that leads."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, NoResponders, Refused
from remuda_bus.nats import connect
from remuda_bus.subjects import peloton_rpc
from remuda_peloton.rules.access import CHANGING, ROLES
from remuda_peloton.shell.bus_server import CONTENT_TYPE, JSON, roles_of
from remuda_peloton.shell.front import SERVICES
from remuda_peloton.shell.main import main
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from tests.system.running import running

WITHIN_S = 20.0


@pytest.fixture
async def served(server: NatsServer) -> AsyncIterator[Bus]:
    """A connection of a client, when the resource manager leads."""

    async def resmgr(bus: Bus, settings: ResmgrSettings) -> None:
        await main(bus, settings.model_copy(update={"port": 0}))

    async with running(server.url, "resmgr", resmgr, ResmgrSettings):
        bus = await connect(server.url, "client", timeout_s=5)
        async with asyncio.timeout(WITHIN_S):
            leads = False
            while not leads:
                with suppress(BusError):
                    found = await bus.request(subjects.front_end("resmgr", "resmgr"), timeout_s=0.2)
                    leads = json.loads(found.payload)["leads"]
        yield bus
        await bus.close()


def test_each_rpc_is_served_to_the_roles_that_may_call_it() -> None:
    names = {name for _, table in SERVICES.values() for name in table}
    for name in names:
        expected = {role for role, rpcs in ROLES.items() if name in rpcs} or {"read"}
        assert set(roles_of(name)) == expected, name
    assert names >= CHANGING


async def test_rpcs_over_the_bus(served: Bus) -> None:
    create = respool_pb2.CreateRequest()
    create.config.name, create.config.parent.value = "pool", "root"
    answer = await served.request(peloton_rpc("default", "pools", "CreateResourcePool"), create.SerializeToString())
    pool = respool_pb2.CreateResponse.FromString(answer.payload).result
    assert pool.value
    as_json = json.dumps({"resPool": {"value": pool.value}, "gangs": []}).encode()
    enqueue = peloton_rpc("default", "jobs", "EnqueueGangs")
    answer = await served.request(enqueue, as_json, {CONTENT_TYPE: JSON})
    assert (answer.headers[CONTENT_TYPE], json.loads(answer.payload)) == (JSON, {})
    dequeue = peloton_rpc("default", "placement", "DequeueGangs")
    answer = await served.request(dequeue, pb.DequeueGangsRequest(limit=1, timeout=1).SerializeToString())
    assert not pb.DequeueGangsResponse.FromString(answer.payload).gangs
    for rpc, payload, code in (
        (peloton_rpc("default", "read", "GetPendingTasks"), b"", 400), (enqueue, b"\xff", 400),
        (peloton_rpc("default", "read", "GetPendingTasks"), b"\x0a\x03\x0a\x01x", 404),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            await served.request(rpc, payload)
        assert refused.value.code == code, refused.value.reason
    with pytest.raises(NoResponders):  # nobody of the role `jobs` may take gangs
        await served.request(peloton_rpc("default", "jobs", "DequeueGangs"))


async def test_endpoints_are_listed(served: Bus) -> None:
    [found] = await served.request_all("$SRV.INFO.remuda-resmgr", within_s=1.0)
    listed = {one["subject"] for one in json.loads(found.payload)["endpoints"]}
    assert {"peloton.default.jobs.EnqueueGangs", "peloton.default.read.Query"} <= listed


async def test_whatever_comes_is_answered(served: Bus) -> None:
    """Random bytes, and requests that are cut, twisted or of another RPC, to every endpoint, in both forms."""
    chance = random.Random(1)
    task = resmgr_pb2.Task(name="x", numPorts=2**32 - 1, placementRetryCount=float("nan"), priority=2**32 - 1)
    task.id.value, task.taskId.value = "t" * 300, "\x00"
    report = hosts_pb2.RunsOfHost(run_ids=["a"] * 9)
    good = [
        pb.EnqueueGangsRequest(gangs=[pb.Gang(tasks=[task, task])], reason="r").SerializeToString(),
        hosts_pb2.ReconcileHostsRequest(as_of_ms=-(2**63), hosts=[report]).SerializeToString(),
        hosts_pb2.ReserveHostsRequest(reservations=[hosts_pb2.HostReservation(hostname="h")]).SerializeToString(),
        b'{"limit": 3, "timeout": 4294967295, "gangs": [{"tasks": [{}]}]}', b"[" * 50_000,
    ]  # fmt: skip
    endpoints = [(role, name) for _, table in SERVICES.values() for name in table for role in roles_of(name)]

    async def send(role: str, name: str, payload: bytes, headers: dict[str, str]) -> str:
        try:
            async with asyncio.timeout(WITHIN_S):
                await served.request(peloton_rpc("default", role, name), payload, headers, timeout_s=WITHIN_S)
        except Refused as refused:
            return str(refused.code)
        return "answered"

    def twisted() -> bytes:
        payload = bytearray(chance.choice(good))
        for _ in range(chance.randrange(4)):
            payload[chance.randrange(len(payload))] = chance.randrange(256)
        return bytes(payload[: chance.randrange(len(payload) + 1)])

    calls = []
    for role, name in endpoints:
        for headers in ({}, {CONTENT_TYPE: JSON}):
            payloads = [*good[:3], chance.randbytes(chance.randrange(200)), *(twisted() for _ in range(4))]
            calls += [send(role, name, one, headers) for one in payloads if not _waits(name, one)]
    said = Counter(await asyncio.gather(*calls))
    assert said.keys() <= {"answered", "400", "404", "429"} and said["400"] > 50 and said["answered"] > 50, said
    answer = await served.request(peloton_rpc("default", "read", "Query"))
    assert respool_pb2.QueryResponse.FromString(answer.payload).resourcePools


def _waits(name: str, payload: bytes) -> bool:
    """Whether the request asks to wait, which a test does not do."""
    if name not in ("DequeueGangs", "GetPlacements", "GetPreemptibleTasks"):
        return False
    request = getattr(pb, f"{name}Request")()
    with suppress(DecodeError):
        request.ParseFromString(payload)
        return bool(request.limit and request.timeout)
    return False
