"""The gRPC server: ResourceManagerService and the respool service, for plain gRPC clients and for those of YARPC.

YARPC's headers are not required. If a client sends `rpc-service`, the server echoes it in the trailers, as YARPC does.
A client that sends `rpc-encoding: json` is answered in protobuf-JSON.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2

from ..limits import MESSAGE_BYTES
from ..wire.pool_rpcs import pool_rpcs
from ..wire.rpcs import RPCS, Rpc, RpcError
from .host import Host, Stopped

RESMGR: Final = resmgrsvc_pb2.DESCRIPTOR.services_by_name["ResourceManagerService"].full_name
RESPOOL: Final = respool_pb2.DESCRIPTOR.services_by_name["ResourceManager"].full_name
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # two processes on one port would be a mistake
)

Handler = Callable[[bytes, Any], Awaitable[bytes]]


class Server:
    """`port`: the one it listens on, once it is started."""

    def __init__(self, host: Host, address: str) -> None:
        self._address = address
        self._server = grpc.aio.server(options=_OPTIONS)
        services = {RESMGR: RPCS, RESPOOL: pool_rpcs(lambda: str(uuid.uuid4()))}
        self._server.add_generic_rpc_handlers(tuple(
            grpc.method_handlers_generic_handler(name, {
                method: grpc.unary_unary_rpc_method_handler(_handler(host, rpc)) for method, rpc in rpcs.items()
            })
            for name, rpcs in services.items()
        ))  # fmt: skip
        self.port = 0

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        try:
            self.port = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address}: {error}") from None
        await self._server.start()

    async def stop(self, within_s: float | None = None) -> None:
        await self._server.stop(within_s)


def _handler(host: Host, rpc: Rpc[Any, Any]) -> Handler:
    async def handle(payload: bytes, context: Any) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        if (service := metadata.get("rpc-service")) is not None:
            context.set_trailing_metadata((("rpc-service", service),))
        as_json = metadata.get("rpc-encoding") == "json"
        try:
            request = _read(rpc, payload, as_json)
            response = await _answer(host, rpc, request)
        except RpcError as error:
            return await _abort(context, grpc.StatusCode[error.code], str(error))
        except Stopped:
            return await _abort(context, grpc.StatusCode.UNAVAILABLE, "this process does not lead, try again")
        return json_format.MessageToJson(response, indent=None).encode() if as_json else response.SerializeToString()

    return handle


async def _abort(context: Any, code: grpc.StatusCode, message: str) -> bytes:
    await context.abort(code, message)
    raise AssertionError("abort raises")


def _read(rpc: Rpc[Any, Any], payload: bytes, as_json: bool) -> Message:
    request: Message = rpc.request()
    try:
        if as_json:
            json_format.Parse(payload, request)
        else:
            request.ParseFromString(payload)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError) as error:
        raise RpcError("INVALID_ARGUMENT", f"the request is no {request.DESCRIPTOR.name}: {error}"[:500]) from None
    if not request.IsInitialized():  # an enumeration of Mesos is closed: an unknown state is a missing one
        missing = ", ".join(request.FindInitializationErrors())  # type: ignore[attr-defined]
        raise RpcError("INVALID_ARGUMENT", f"{request.DESCRIPTOR.name} lacks {missing}"[:500])
    return request


async def _answer(host: Host, rpc: Rpc[Any, Any], request: Any) -> Message:
    if (question := rpc.question) is not None:
        answered: Message = await host.ask(lambda state: question(state, request))
        return answered
    assert rpc.command is not None and rpc.answer is not None
    command, since = rpc.command(request), host.changes
    answer = await host.do(command)
    if rpc.waits and not answer and request.limit:
        until_s = host.time_s() + request.timeout / 1_000
        while not answer and (left_s := until_s - host.time_s()) > 0 and await host.moved(since, left_s):
            since = host.changes
            answer = await host.do(command)
    response: Message = rpc.answer(request, answer)
    return response
