"""Answers RPCs, over whichever transport they come: who may call them, how requests are read, and what is counted."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

from ..limits import JSON_BYTES
from ..rules.access import CREATE, DELETE, ENQUEUE, RECONCILE, UPDATE, Clients, Forbidden, check_pool_access
from ..rules.pools import find_by_path
from ..state import State
from ..wire import host_rpcs, pool_rpcs, rpcs
from ..wire.rpcs import INVALID_ARGUMENT, Rpc, RpcError
from .metrics import RESULTS, RPCS
from .request_handler import RequestHandler, Unavailable

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


class Front:
    """`clients`: None: every client may call everything."""

    def __init__(self, handler: RequestHandler, clients: Clients | None = None) -> None:
        self._handler = handler
        self._clients = clients or Clients()
        self._responses = {
            name: GetMessageClass(described.methods_by_name[name].output_type)
            for described, table in SERVICES.values()
            for name in table
        }
        for name in self._responses:
            for result in RESULTS:  # a counter that begins with its first event has no rate at first
                RPCS.labels(name, result)

    def check(self, name: str, names: frozenset[str], *, listed: bool = False) -> tuple[str, ...]:
        """The paths of pools for which a client with these names may call the RPC. `listed`: as of `Clients.paths`.
        Raises RpcError."""
        try:
            return self._clients.paths(names, name, listed=listed)
        except Forbidden as error:
            RPCS.labels(name, "refused").inc()
            raise RpcError("PERMISSION_DENIED", str(error)) from None

    async def answer(
        self, name: str, rpc: Rpc[Any, Any], payload: bytes, paths: tuple[str, ...] = ("",), as_json: bool = False
    ) -> bytes:
        """The encoded response. `paths`: as of `check`. Raises RpcError, Unavailable."""
        try:
            request = await _read_json(rpc, payload) if as_json else read_request(rpc, payload)
            self._check_pool(name, request, paths)
            response = await self._handler.answer(name, rpc, request)
        except RpcError:
            RPCS.labels(name, "refused").inc()
            raise
        except Unavailable:
            RPCS.labels(name, "unavailable").inc()
            raise
        RPCS.labels(name, "answered").inc()
        return await asyncio.to_thread(self._to_json, name, response) if as_json else response

    def _to_json(self, name: str, response: bytes) -> bytes:
        return json_format.MessageToJson(self._responses[name].FromString(response), indent=None).encode()

    def _check_pool(self, name: str, request: Any, paths: tuple[str, ...]) -> None:
        if "" in paths:
            return
        try:
            for pool_id in pools_of(self._handler.state, name, request):
                check_pool_access(paths, name, pool_id, self._handler.state.configs)
        except Forbidden as error:
            raise RpcError("PERMISSION_DENIED", str(error)) from None


def pools_of(state: State, name: str, request: Any) -> list[str]:
    """The IDs of the pools that an RPC is about."""
    if name == ENQUEUE:
        return [str(request.resPool.value)]
    if name == CREATE:
        return [str(request.config.parent.value)]
    if name == UPDATE:
        return [str(request.id.value)]
    if name == RECONCILE:
        return [str(one.pool_id) for one in request.pools]
    return [find_by_path(request.path.value, state.configs()) or ""] if name == DELETE else []


async def _read_json(rpc: Rpc[Any, Any], payload: bytes) -> Message:
    if len(payload) > JSON_BYTES:
        reason = f"the request in JSON has {len(payload)} bytes, expected at most {JSON_BYTES}; protobuf may have more"
        raise RpcError(INVALID_ARGUMENT, reason)
    return await asyncio.to_thread(read_request, rpc, payload, True)


def read_request(rpc: Rpc[Any, Any], payload: bytes, as_json: bool = False) -> Message:
    """Raises RpcError."""
    request: Message = rpc.request()
    try:
        if as_json:
            json_format.Parse(payload, request)
        else:
            request.ParseFromString(payload)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(INVALID_ARGUMENT, f"the request is no {request.DESCRIPTOR.name}: {error}"[:500]) from None
    if not request.IsInitialized():  # an enumeration of Mesos is closed: an unknown state is a missing one
        missing = ", ".join(request.FindInitializationErrors())  # type: ignore[attr-defined]
        raise RpcError(INVALID_ARGUMENT, f"{request.DESCRIPTOR.name} lacks {missing}"[:500])
    return request
