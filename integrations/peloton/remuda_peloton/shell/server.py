"""The gRPC server: ResourceManagerService, the respool service and Hosts, for plain gRPC clients and those of YARPC.

YARPC's headers are not required. If a client sends `rpc-service`, the server echoes it in the trailers, as YARPC does.
A client that sends `rpc-encoding: json` is answered in protobuf-JSON.

Every RPC has one request and one response, but is served as a stream of each, which clients cannot tell from it: so
a caller is known, and may be refused, before there is memory for its request; and its response counts as under way
until the client has read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from remuda_operations.operators import certificate_names

from .. import limits
from ..wire.rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .callers import Caller, Callers, metadata_of, name_of
from .front import SERVICES, Front
from .request_handler import Unavailable

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", limits.REQUEST_BYTES),
    ("grpc.max_send_message_length", limits.RESPONSE_BYTES),
    ("grpc.keepalive_time_ms", round(limits.KEEPALIVE_S * 1_000)),
    ("grpc.keepalive_timeout_ms", round(limits.KEEPALIVE_TIMEOUT_S * 1_000)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", round(limits.CLIENT_PING_S * 1_000)),
    ("grpc.max_concurrent_streams", limits.RPCS_OF_CONNECTION),
    ("grpc.so_reuseport", 0),  # two processes on one port would be a mistake
)

Handler = Callable[[Any, Any], Awaitable[None]]


class Server:
    """The gRPC server. `port`: the port on which it listens, once it is started. `credentials`: TLS credentials; None:
    no TLS."""

    def __init__(self, front: Front, address: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self._address = address
        self._credentials = credentials
        self._front = front
        self._callers = Callers()
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=limits.RPCS_AT_ONCE)
        self._server.add_generic_rpc_handlers(tuple(
            grpc.method_handlers_generic_handler(service, {
                name: grpc.stream_stream_rpc_method_handler(self._handler(name, rpc)) for name, rpc in table.items()
            })
            for service, (_, table) in SERVICES.items()
        ))  # fmt: skip
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
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

    def _handler(self, name: str, rpc: Rpc[Any, Any]) -> Handler:
        async def handle(_: Any, context: Any) -> None:
            metadata = metadata_of(context.invocation_metadata())
            if (service := metadata.get("rpc-service")) is not None:
                context.set_trailing_metadata((("rpc-service", service),))
            names = certificate_names(context.auth_context())
            try:
                with self._callers.calling(name_of(names, context.peer())) as caller:
                    paths = self._front.check(name, names)
                    payload = await _received(context, caller)
                    with caller.holding(len(payload)):
                        as_json = metadata.get("rpc-encoding") == "json"
                        response = await self._front.answer(name, rpc, payload, paths, as_json)
                    with caller.holding(len(response)):
                        await context.write(response)
            except RpcError as error:
                await context.abort(grpc.StatusCode[error.code], str(error))
            except Unavailable as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

        return handle


async def _received(context: Any, caller: Caller) -> bytes:
    """The request. Raises RpcError."""
    try:
        async with asyncio.timeout(limits.RECEIVED_WITHIN_S), caller.receiving:
            payload = await context.read()
    except TimeoutError:
        raise RpcError("DEADLINE_EXCEEDED", f"no request within {limits.RECEIVED_WITHIN_S:.0f} s") from None
    if payload is grpc.aio.EOF:
        raise RpcError(INVALID_ARGUMENT, "the RPC has no request, expected one")
    return bytes(payload)
