"""The process of a placement engine: a gRPC client of a resource manager."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import structlog
from google.protobuf.message_factory import GetMessageClass
from pydantic import model_validator

from remuda_bus.bus import Bus, BusError
from remuda_bus.health import PROCESS_HEALTH
from remuda_bus.process import Settings
from remuda_bus.queries.front_ends import front_ends
from remuda_bus.settings import ReadableFile, Seconds, setting
from remuda_proto.peloton.private.resmgr import resmgr_pb2

from .. import limits
from .engine import Engine
from .front import SERVICES

log = structlog.get_logger()

TYPES: Final = {name.lower(): number for name, number in resmgr_pb2.TaskType.items()} | {"any": 0}


class PlacementSettings(Settings):
    """Several engines share the work: each takes what the others have not taken."""

    address: str = setting(
        "placement.resmgr", "", "HOST:PORT of a resource manager; empty: one that runs on the same bus"
    )
    ca: ReadableFile = setting("placement.ca", None, "file: CA certificates that sign that of the resource manager")
    certificate: ReadableFile = setting("placement.certificate", None, "file: client certificate chain")
    key: ReadableFile = setting("placement.key", None, "file: private key of the certificate")
    task_type: str = setting(
        "placement.task_type", "any", "which tasks: any, batch, stateless, stateful or daemon",
        pattern="^(any|batch|stateless|stateful|daemon)$",
    )  # fmt: skip
    refresh_s: Seconds = setting("placement.refresh", 0.2, "so old may be what the engine knows of hosts", ge=0)
    hold_s: Seconds = setting(
        "placement.hold", 10.0, "a gang without room is tried again for so long, and then reported", ge=0
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> PlacementSettings:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("placement.certificate and placement.key: expected both or neither")
        if self.certificate is not None and self.ca is None:
            raise ValueError("placement.certificate: expected placement.ca, too")
        return self


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
    """Runs without end. When the resource manager is not there any more, another one is looked for."""
    engine = Engine(settings.instance, TYPES[settings.task_type], settings.refresh_s, settings.hold_s)
    while True:
        address = settings.address or await _found(bus)
        async with channel(address, settings) as connected:
            try:
                async with asyncio.timeout(limits.ENGINE_RPC_S):
                    await connected.channel_ready()
                log.info("places for", resmgr=address)
                PROCESS_HEALTH.set_status(f"places for {address}")
                await engine.run(Calls(connected))
            except TimeoutError:
                log.warning("the resource manager cannot be reached", resmgr=address)
            except grpc.aio.AioRpcError as error:
                log.warning("the resource manager does not answer", error=f"{error.code().name}: {error.details()}")
        PROCESS_HEALTH.set_status("looks for a resource manager", ready=False)
        await asyncio.sleep(limits.ENGINE_RETRY_S)


def channel(address: str, settings: PlacementSettings) -> grpc.aio.Channel:
    """Raises OSError when a file cannot be read."""
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
