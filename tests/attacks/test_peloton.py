"""Clients of Peloton's resource manager that take what they can. A job manager beside them has its tasks placed, and an
RM of the same system its asks."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from remuda_operations.queries.front_ends import front_ends
from remuda_peloton import limits
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2
from tests.patience import PATIENCE
from tests.tenants.side import Side, side_rm
from tests.tenants.watched import Watched, watched

from .ground import GROWS_MB

DEPLOY = Path(__file__).parents[2] / "deploy"
RESMGR = "/peloton.private.resmgr.ResourceManagerService"
RESPOOL = "/peloton.api.v0.respool.ResourceManager"
HOSTS = "/remuda.resmgr.v1.Hosts"
CLIENTS = "jobmgr=jobs,hostmgr=hosts,respool=pools,placement=placement,stranger=jobs:/stranger,stranger=pools:/stranger"
WITHIN_S = 60.0
# No task waits so long to be placed: an engine looks every 0.5 s.
TASK_WITHIN_S = 3.0 * PATIENCE
ATTACK_S = 3.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Client:
    """A client with the certificate of this name, on a connection of its own."""

    def __init__(self, tls: Path, port: int, name: str) -> None:
        ca, key, pem = ((tls / file).read_bytes() for file in ("ca.pem", f"client-{name}.key", f"client-{name}.pem"))
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
        credentials = grpc.ssl_channel_credentials(ca, key, pem)
        self.channel = grpc.aio.secure_channel(f"localhost:{port}", credentials, options)

    async def __call__(self, path: str, request: Any, response: Any, timeout_s: float = WITHIN_S) -> Any:
        rpc = self.channel.unary_unary(path, lambda one: one.SerializeToString(), response.FromString)
        return await rpc(request, timeout=timeout_s)


class Field:
    """A system under attack. `tls`: the directory of certificates."""

    def __init__(self, system: Watched, tls: Path, port: int, side: Side) -> None:
        self.system, self.tls, self.port, self.side = system, tls, port, side

    def client(self, name: str) -> Client:
        return Client(self.tls, self.port, name)

    @asynccontextmanager
    async def attack(self, pool: str) -> AsyncIterator[Client]:
        """Yields a stranger. Meanwhile a job manager has tasks placed; the verdict follows at the end."""
        before_mb, began = self.system.memory_mb(), time.monotonic()
        working = asyncio.create_task(self._work(pool))
        yield self.client("stranger")
        working.cancel()
        waits_s = await working
        assert waits_s and max(waits_s) < TASK_WITHIN_S, f"tasks waited {waits_s}"
        assert await self.side.settled(WITHIN_S)
        assert max(self.side.waits_s(began)) < TASK_WITHIN_S
        assert not self.system.ended()
        grown = {name: mb - before_mb.get(name, mb) for name, mb in self.system.memory_mb().items()}
        assert all(mb <= GROWS_MB for mb in grown.values()), f"memory in MB grew by {grown}"

    async def _work(self, pool: str) -> list[float]:
        """Enqueue a task, and wait for its placement, again and again. Returns how long each waited."""
        jobmgr, waits_s = self.client("jobmgr"), list[float]()
        try:
            while True:
                began = time.monotonic()
                answer = await jobmgr(f"{RESMGR}/EnqueueGangs", gangs(pool, 1), pb.EnqueueGangsResponse)
                assert not answer.HasField("error"), answer
                placed = 0
                while not placed:
                    request = pb.GetPlacementsRequest(limit=10, timeout=5_000)
                    answer = await jobmgr(f"{RESMGR}/GetPlacements", request, pb.GetPlacementsResponse)
                    placed = len(answer.placements)
                waits_s.append(time.monotonic() - began)
                tasks = [task.pelotonTaskID for one in answer.placements for task in one.taskIDs]
                await jobmgr(f"{RESMGR}/KillTasks", pb.KillTasksRequest(tasks=tasks), pb.KillTasksResponse)
        except asyncio.CancelledError:
            return waits_s


def gangs(pool: str, count: int, payload: str = "") -> pb.EnqueueGangsRequest:
    """Gangs of one task each. `payload`: a label of each."""
    request = pb.EnqueueGangsRequest()
    request.resPool.value = pool
    for _ in range(count):
        task, name = request.gangs.add().tasks.add(type=1), f"{uuid.uuid4()}-0"
        task.id.value, task.taskId.value, task.jobId.value = name, f"{name}-1", name[:36]
        task.resource.cpuLimit = 0.1
        if payload:
            task.labels.labels.add(key="k", value=payload)
    return request


def pool_request(name: str, parent: str) -> respool_pb2.CreateRequest:
    request = respool_pb2.CreateRequest()
    request.config.name, request.config.parent.value = name, parent
    for kind in ("cpu", "gpu", "memory", "disk"):
        request.config.resources.add(kind=kind, reservation=1.0, limit=8.0, share=1.0)
    return request


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    names = ("jobmgr", "hostmgr", "respool", "stranger")
    subprocess.run([DEPLOY / "tls/make-ca.sh", directory, "2", *names], check=True, capture_output=True)
    return directory


async def port_of(system: Watched) -> int:
    async with asyncio.timeout(WITHIN_S):
        while True:
            for one in await front_ends(system.bus, service="resmgr"):
                if one.port:
                    return one.port


Pools = dict[str, str]


@asynccontextmanager
async def field(tls: Path) -> AsyncIterator[tuple[Field, Pools]]:
    """With a host, an engine, and the pools /side and /stranger."""
    files = {"certificate": "resmgr.pem", "key": "resmgr.key", "client_ca": "ca.pem"}
    engine = {"ca": "ca.pem", "certificate": "client-placement.pem", "key": "client-placement.key"}
    assignments = (
        *(f"resmgr.{name}={tls / file}" for name, file in files.items()), f"resmgr.clients={CLIENTS}",
        *(f"placement.{name}={tls / file}" for name, file in engine.items()), "resmgr.host=localhost",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="remuda-peloton-") as data:
        async with (
            watched(
                Path(data), cores=1, rmproxies=1, peloton_port=0, peloton_engines=1, assignments=assignments
            ) as system,
            side_rm(system.url, "side", 0.1) as side,
        ):
            attacked = Field(system, tls, await port_of(system), side)
            host = hosts_pb2.PutHostsRequest()
            host.hosts.add(hostname="h1", capacity=[64.0, 8.0, 1e6, 1e6])
            async with asyncio.timeout(WITHIN_S):
                while True:
                    try:
                        await attacked.client("hostmgr")(f"{HOSTS}/PutHosts", host, hosts_pb2.PutHostsResponse)
                        break
                    except grpc.aio.AioRpcError as error:
                        if error.code() != grpc.StatusCode.UNAVAILABLE:
                            raise
            respool, pools = attacked.client("respool"), {}
            for name in ("side", "stranger"):
                answer = await respool(
                    f"{RESPOOL}/CreateResourcePool", pool_request(name, "root"), respool_pb2.CreateResponse
                )
                pools[name] = answer.result.value
            yield attacked, pools


async def for_a_while(do: Callable[[], Awaitable[object]], at_once: int) -> dict[str, int]:
    """Call it again and again, so many at once. Returns the codes with their numbers."""
    codes: dict[str, int] = {}
    end = time.monotonic() + ATTACK_S

    async def one() -> None:
        while time.monotonic() < end:
            try:
                await do()
                code = "OK"
            except grpc.aio.AioRpcError as error:
                code = error.code().name
            codes[code] = codes.get(code, 0) + 1

    await asyncio.gather(*(one() for _ in range(at_once)))
    return codes


async def test_a_stranger_takes_what_it_can(tls: Path) -> None:
    """Huge requests, more RPCs than a caller may have, pools without end, answers that are not read, a flood of tasks,
    and the pools of others."""
    async with field(tls) as (attacked, pools):
        side, stranger = pools["side"], pools["stranger"]

        async with attacked.attack(side) as client:
            raw = client.channel.unary_unary(f"{RESPOOL}/Query")
            huge = bytes(limits.REQUEST_BYTES + 1)
            assert set(await for_a_while(lambda: raw(huge, timeout=WITHIN_S), 2)) == {"RESOURCE_EXHAUSTED"}

        async with attacked.attack(side):
            clients = [attacked.client("stranger") for _ in range(4)]
            polls = [
                asyncio.ensure_future(one.channel.unary_unary(f"{RESMGR}/GetPreemptibleTasks")(b"\x08\x01\x10\xff\xff\x7f"))
                for one in clients for _ in range(limits.RPCS_OF_CONNECTION)
            ]  # fmt: skip
            done, _ = await asyncio.wait(polls, timeout=ATTACK_S)
            assert {one.exception().code().name for one in done} <= {"RESOURCE_EXHAUSTED"}
            assert len(done) >= len(polls) - limits.RPCS_OF_CALLER
            for one in polls:
                one.cancel()

        async with attacked.attack(side) as client:
            count = 0

            async def create() -> None:
                nonlocal count
                count += 1
                request = pool_request(f"p{count}", stranger)
                request.config.description = "x" * 10_000
                await client(f"{RESPOOL}/CreateResourcePool", request, respool_pb2.CreateResponse)

            assert set(await for_a_while(create, 8)) == {"OK"}

        async with attacked.attack(side) as client:
            unread = [client.channel.stream_stream(f"{RESPOOL}/Query")() for _ in range(limits.RPCS_OF_CONNECTION)]
            for call in unread:
                await call.write(b"")
            await asyncio.sleep(ATTACK_S)
            for call in unread:
                call.cancel()

        async with attacked.attack(side) as client:
            enqueue = f"{RESMGR}/EnqueueGangs"
            flood = await for_a_while(
                lambda: client(enqueue, gangs(stranger, 100, "x" * 1_000), pb.EnqueueGangsResponse), 4
            )
            assert set(flood) <= {"OK", "UNAVAILABLE"}
            for pool in (side, "root", "nowhere"):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await client(enqueue, gangs(pool, 1), pb.EnqueueGangsResponse)
                assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
