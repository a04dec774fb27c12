"""A gRPC client of si.v1 in the test's own process and loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError
from remuda_proto.si.v1 import si_pb2 as si
from tests.system.running import until

SERVICE = "/si.v1.Scheduler"
STREAMS: dict[str, tuple[str, Any]] = {
    "application": ("UpdateApplication", si.ApplicationResponse),
    "allocation": ("UpdateAllocation", si.AllocationResponse),
    "node": ("UpdateNode", si.NodeResponse),
}


class Client:
    """An RM's channel to one front end."""

    def __init__(self, channel: Any, rm_id: str) -> None:
        self._channel = channel
        self.rm_id = rm_id

    async def register(self, metadata: tuple[tuple[str, str], ...] = (), **fields: Any) -> int:
        """The number of the registration."""
        method = self._channel.unary_unary(
            f"{SERVICE}/RegisterResourceManager",
            request_serializer=si.RegisterResourceManagerRequest.SerializeToString,
            response_deserializer=si.RegisterResourceManagerResponse.FromString,
        )
        call = method(si.RegisterResourceManagerRequest(**{"rmID": self.rm_id, **fields}), metadata=metadata)
        await call
        return int(dict(await call.initial_metadata())["remuda-registration"])

    def open(self, kind: str, **metadata: str) -> Any:
        """The stream of one kind. Requests are messages or bytes."""
        name, response = STREAMS[kind]
        method = self._channel.stream_stream(
            f"{SERVICE}/{name}", request_serializer=_serialized, response_deserializer=response.FromString
        )
        said = {"remuda-rm": self.rm_id, **{key.replace("_", "-"): value for key, value in metadata.items()}}
        return method(metadata=tuple(said.items()))


@asynccontextmanager
async def client(port: int, rm_id: str = "rm-1", credentials: Any = None) -> AsyncIterator[Client]:
    address = f"localhost:{port}"
    options = (("grpc.use_local_subchannel_pool", 1),)  # a connection of its own, as another process has
    if credentials is None:
        channel = grpc.aio.insecure_channel(address, options)
    else:
        channel = grpc.aio.secure_channel(address, credentials, options)
    async with channel:
        yield Client(channel, rm_id)


def _serialized(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


async def told(call: Any, enough: Callable[[Any], object], within_s: float = 10.0) -> list[Any]:
    """The responses up to the first with which there are enough."""
    responses = []
    async with asyncio.timeout(within_s):
        while True:
            responses.append(await call.read())
            assert responses[-1] is not grpc.aio.EOF, await call.details()
            if enough(responses):
                return responses


def details(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """The `google.rpc` details of an error, by the name of their type."""
    packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
    found: dict[str, Any] = {}
    for detail in status_pb2.Status.FromString(packed).details:
        kind = getattr(error_details_pb2, detail.type_url.rsplit(".", 1)[1])
        found[kind.DESCRIPTOR.name] = unpacked = kind()
        detail.Unpack(unpacked)
    return found


async def port_of(bus: Bus, instance: str = "grpc") -> int:
    """The port of a front end, once it answers."""
    found: list[int] = []

    async def answers() -> bool:
        try:
            reply = await bus.request(subjects.front_end(instance), timeout_s=1)
        except BusError:
            return False
        found.append(json.loads(reply.payload)["port"])
        return True

    await until(answers)
    return found[-1]


async def failure(awaited: Awaitable[Any]) -> grpc.aio.AioRpcError:
    """The error with which an RPC ends."""
    try:
        async with asyncio.timeout(10):
            await awaited
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the RPC did not fail")
