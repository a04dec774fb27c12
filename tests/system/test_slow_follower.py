"""A client that follows changes and does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from remuda_bus.memory import MemoryBus
from remuda_grpc import limits
from remuda_grpc.callers import Callers
from remuda_grpc.identity import Clients
from remuda_grpc.operator_rpcs import OperatorRpcs
from remuda_operations.operator_api.methods import methods
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.si.v1 import si_pb2 as si
from tests.system.grpc_client import failure
from tests.system.operator_client import GrpcOperator


async def test_a_follower_that_does_not_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has got what fits into the windows of flow control, and resumes behind it."""
    monkeypatch.setattr(limits, "READS_WITHIN_S", 0.5)

    async def endless(*_: object) -> AsyncGenerator[admin.Change]:
        for position in range(1, 100_000):
            sent.append(position)
            yield admin.Change(position=position, event=si.EventRecord(message="x" * 10_000))

    sent: list[int] = []
    (method,) = [one for one in methods() if one.name == "FollowChanges"]
    rpcs = OperatorRpcs(MemoryBus(), [replace(method, stream=endless)], Callers(Clients(False, ()), (), None))
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(method.service, rpcs.handlers(method.service)),)
    )
    port = server.add_insecure_port("localhost:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        call = GrpcOperator(channel).call("FollowChanges")
        assert (await call.read()).position == 1
        async with asyncio.timeout(20):
            while True:
                before = len(sent)
                await asyncio.sleep(1)
                if len(sent) == before:
                    break
        assert len(sent) < 3_000
        error = await failure(_all(call))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "resume behind the last" in error.details()
    await server.stop(0)


async def _all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass
