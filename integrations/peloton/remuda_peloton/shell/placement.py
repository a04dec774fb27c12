"""The process of a placement engine: a gRPC client of a resource manager."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message_factory import GetMessageClass

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_bus.health import PROCESS_HEALTH
from remuda_operations.queries.front_ends import front_ends
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_replication.lease import Lease

from .. import limits
from . import shared_metrics
from .engine import Engine
from .front import SERVICES
from .partition import NotReady, Partition
from .settings import PlacementSettings
from .shared_engine import Behind, Followed, SharedEngine

log = structlog.get_logger()

TYPES: Final = {name.lower(): number for name, number in resmgr_pb2.TaskType.items()} | {"any": 0}


CAUSES: Final[dict[type[Exception], str]] = {Followed: "followed", Behind: "behind", NotReady: "not_ready"}


class Calls:
    """The RPCs of a resource manager."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._rpcs = {
            name: channel.unary_unary(
                f"/{service}/{name}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=GetMessageClass(described.methods_by_name[name].output_type).FromString,
            )
            for service, (described, table) in SERVICES.items()
            for name in table
        }

    async def __call__(self, name: str, request: Any) -> Any:
        return await self._rpcs[name](request, timeout=limits.ENGINE_RPC_S)


async def main(bus: Bus, settings: PlacementSettings) -> None:
    """Runs without end. Of the engines of a shared partition, the one that holds the lease works."""
    if settings.rm:
        await _share(bus, settings)
    else:
        engine = Engine(settings.instance, TYPES[settings.task_type], settings.refresh_s, settings.hold_s)
        await _work(bus, settings, engine)


async def _share(bus: Bus, settings: PlacementSettings) -> None:
    """Raises BusError when the lease is lost."""
    partition = Partition(bus, settings.rm, settings.partition, settings.queue, settings.cluster)
    engine = SharedEngine(
        partition, settings.cluster, settings.queue, TYPES[settings.task_type], settings.refresh_s, settings.hold_s,
        settings.port_range,
    )  # fmt: skip
    key = subjects.engine_lease(settings.cluster, settings.rm, settings.partition)
    lease = Lease(bus, key, settings.instance)
    PROCESS_HEALTH.set_status("stands by: another engine places there")
    await lease.acquire()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_work(bus, settings, engine))
            group.create_task(lease.work_until_lost())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await lease.release()


async def _work(bus: Bus, settings: PlacementSettings, engine: Engine | SharedEngine) -> None:
    """Runs without end. When the resource manager is not there any more, another one is looked for."""
    while True:
        address = settings.address or await _found(bus)
        async with channel(address, settings) as connected:
            try:
                async with asyncio.timeout(limits.ENGINE_RPC_S):
                    await connected.channel_ready()
                log.info("places for", resmgr=address)
                PROCESS_HEALTH.set_status(f"places for {address}")
                await engine.run(Calls(connected))
            except (BusError, NotReady, Followed, Behind) as error:
                log.warning("the shared partition waits", rm=settings.rm, reason=str(error))
                _interrupted(settings, CAUSES.get(type(error), "bus"))
            except TimeoutError:
                log.warning("the resource manager cannot be reached", resmgr=address)
                _interrupted(settings, "timeout")
            except grpc.aio.AioRpcError as error:
                log.warning("the resource manager does not answer", error=f"{error.code().name}: {error.details()}")
                _interrupted(settings, "rpc")
        PROCESS_HEALTH.set_status("looks for a resource manager", ready=False)
        await asyncio.sleep(limits.ENGINE_RETRY_S)


def _interrupted(settings: PlacementSettings, cause: str) -> None:
    if settings.rm:
        shared_metrics.INTERRUPTIONS.labels(cause).inc()


def channel(address: str, settings: PlacementSettings) -> grpc.aio.Channel:
    """A gRPC channel to a resource manager. Raises OSError when a file cannot be read."""
    options = [("grpc.max_receive_message_length", limits.RESPONSE_BYTES)]
    if settings.ca is None:
        return grpc.aio.insecure_channel(address, options)
    pair = [one.read_bytes() if one is not None else None for one in (settings.key, settings.certificate)]
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(settings.ca.read_bytes(), *pair), options)


async def _found(bus: Bus) -> str:
    """The address of a resource manager on the bus."""
    while True:
        try:
            found = [one for one in await front_ends(bus, service="resmgr") if not one.error and one.port]
        except BusError:
            found = []
        if found:
            one = found[0]
            return f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
        await asyncio.sleep(limits.ENGINE_RETRY_S)
