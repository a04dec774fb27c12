"""Peloton's resource manager and an engine in containers: a job is placed, and again after the process is killed that
has taken it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from tests.e2e.stack import PELOTON_PORTS, SECRETS, Stack, in_thread

RESMGR = "/peloton.private.resmgr.ResourceManagerService"
RESPOOL = "/peloton.api.v0.respool.ResourceManager"
WITHIN_S = 60.0

pytestmark = pytest.mark.timeout(200)


@asynccontextmanager
async def client(port: int, name: str) -> AsyncIterator[Any]:
    """Calls RPCs with the certificate of this name, again while the process has not caught up."""
    files = ("ca.pem", f"client-{name}.key", f"client-{name}.pem")
    ca, key, certificate = ((SECRETS / "tls" / file).read_bytes() for file in files)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:

        async def call(path: str, request: Any, response: Any) -> Any:
            rpc = channel.unary_unary(path, lambda one: one.SerializeToString(), response.FromString)
            async with asyncio.timeout(WITHIN_S):
                while True:
                    try:
                        return await rpc(request, timeout=35, wait_for_ready=True)
                    except grpc.aio.AioRpcError as error:
                        if error.code() != grpc.StatusCode.UNAVAILABLE:
                            raise
                        await asyncio.sleep(0.25)

        yield call


def job(pool: str) -> Any:
    """A gang of one task of a new job."""
    request, task = pb.EnqueueGangsRequest(), f"{uuid.uuid4()}-0"
    request.resPool.value = pool
    one = request.gangs.add().tasks.add(type=1)
    one.id.value, one.taskId.value, one.jobId.value = task, f"{task}-1", task[:36]
    one.resource.cpuLimit = 1.0
    return request


async def placed(call: Any, pool: str) -> set[str]:
    """Enqueue a job, and wait for its placement. Returns the hosts."""
    answer = await call(f"{RESMGR}/EnqueueGangs", job(pool), pb.EnqueueGangsResponse)
    assert not answer.HasField("error"), answer
    async with asyncio.timeout(WITHIN_S):
        while True:
            request = pb.GetPlacementsRequest(limit=10, timeout=5_000)
            answer = await call(f"{RESMGR}/GetPlacements", request, pb.GetPlacementsResponse)
            if answer.placements:
                return {one.hostname for one in answer.placements}


async def test_a_job_is_placed_and_again_after_a_process_is_killed(stack: Stack) -> None:
    first, second = PELOTON_PORTS
    async with client(PELOTON_PORTS[first], "hostmgr") as call:
        host = hosts_pb2.PutHostsRequest()
        host.hosts.add(hostname="h1", capacity=[8.0, 8.0, 1024.0, 1024.0])
        await call("/remuda.resmgr.v1.Hosts/PutHosts", host, hosts_pb2.PutHostsResponse)
    async with client(PELOTON_PORTS[first], "respool") as call:
        pool = respool_pb2.CreateRequest()
        pool.config.name, pool.config.parent.value = f"e2e-{uuid.uuid4()}", "root"
        for kind in ("cpu", "gpu", "memory", "disk"):
            # Both jobs are within the reservation: what a pool may have beyond is calculated once a minute.
            pool.config.resources.add(kind=kind, reservation=4.0, limit=8.0, share=1.0)
        created = await call(f"{RESPOOL}/CreateResourcePool", pool, respool_pb2.CreateResponse)
        assert not created.HasField("error"), created
    async with client(PELOTON_PORTS[first], "jobmgr") as call:
        assert await placed(call, created.result.value) == {"h1"}
    await in_thread(stack.kill, first)
    try:
        async with client(PELOTON_PORTS[second], "jobmgr") as call:
            assert await placed(call, created.result.value) == {"h1"}
    finally:
        await in_thread(stack.start, first)
        await in_thread(stack.until_well, first)
