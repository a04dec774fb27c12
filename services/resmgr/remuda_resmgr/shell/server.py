"""The gRPC server: ResourceManagerService, the respool service and Hosts, for plain gRPC clients and those of YARPC.

YARPC's headers are not required. If a client sends `rpc-service`, the server echoes it in the trailers, as YARPC does.
A client that sends `rpc-encoding: json` is answered in protobuf-JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

from ..limits import MESSAGE_BYTES
from ..wire import host_rpcs, pool_rpcs, rpcs
from ..wire.rpcs import Rpc, RpcError
from .desk import Desk, Unavailable
from .metrics import RESULTS, RPCS

# By the full name of the service: its descriptor, and its RPCs.
SERVICES: Final = {
    one.full_name: (one, table)
    for one, table in (
        (resmgrsvc_pb2.DESCRIPTOR.services_by_name["ResourceManagerService"], rpcs.RPCS),
        (respool_pb2.DESCRIPTOR.services_by_name["ResourceManager"], pool_rpcs.RPCS),
        (hosts_pb2.DESCRIPTOR.services_by_name["Hosts"], host_rpcs.RPCS),
    )
}
RESMGR, RESPOOL, HOSTS = SERVICES
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # two processes on one port would be a mistake
)

Handler = Callable[[bytes, Any], Awaitable[bytes]]


class Server:
    """`port`: the one it listens on, once it is started. `credentials`: of TLS; None: without."""

    def __init__(self, desk: Desk, address: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self._address = address
        self._credentials = credentials
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers(tuple(
            grpc.method_handlers_generic_handler(service, {
                name: grpc.unary_unary_rpc_method_handler(
                    _handler(desk, name, rpc, GetMessageClass(described.methods_by_name[name].output_type))
                )
                for name, rpc in table.items()
            })
            for service, (described, table) in SERVICES.items()
        ))  # fmt: skip
        self.port = 0

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        try:
            if self._credentials is None:
                self.port = self._server.add_insecure_port(self._address)
            else:
                self.port = self._server.add_secure_port(self._address, self._credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address}: {error}") from None
        await self._server.start()

    async def stop(self, within_s: float | None = None) -> None:
        await self._server.stop(within_s)


def _handler(desk: Desk, name: str, rpc: Rpc[Any, Any], response_type: type[Message]) -> Handler:
    for result in RESULTS:  # a counter that begins with its first event has no rate at first
        RPCS.labels(name, result)

    async def handle(payload: bytes, context: Any) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        if (service := metadata.get("rpc-service")) is not None:
            context.set_trailing_metadata((("rpc-service", service),))
        as_json = metadata.get("rpc-encoding") == "json"
        try:
            response = await desk.answer(name, rpc, read_request(rpc, payload, as_json))
        except RpcError as error:
            RPCS.labels(name, "refused").inc()
            return await _abort(context, grpc.StatusCode[error.code], str(error))
        except Unavailable as error:
            RPCS.labels(name, "unavailable").inc()
            return await _abort(context, grpc.StatusCode.UNAVAILABLE, str(error))
        RPCS.labels(name, "answered").inc()
        return (
            json_format.MessageToJson(response_type.FromString(response), indent=None).encode() if as_json else response
        )

    return handle


async def _abort(context: Any, code: grpc.StatusCode, message: str) -> bytes:
    await context.abort(code, message)
    raise AssertionError("abort raises")


def read_request(rpc: Rpc[Any, Any], payload: bytes, as_json: bool = False) -> Message:
    """Raises RpcError."""
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
