"""A scenario played over the whole system in real time, as over NATS, by an RM over gRPC. The configuration and the
questions of predicates are not in si.v1.Scheduler: they go over NATS."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from remuda_bus.bus import Bus, Refused
from tests.system.grpc_client import Client, client, port_of

from .answer import Answers
from .over_nats import OverNats, whole_system
from .recording import Scenario


def play(scenario: Scenario, compatibility: str) -> Answers:
    return asyncio.run(_play(scenario, compatibility))


async def _play(scenario: Scenario, compatibility: str) -> Answers:
    async with whole_system(grpc_port=0) as bus, client(await port_of(bus), scenario.rm_id) as rm:
        return await OverGrpc(scenario, compatibility, bus, rm).play()


class OverGrpc(OverNats):
    def __init__(self, scenario: Scenario, compatibility: str, bus: Bus, rm: Client) -> None:
        super().__init__(scenario, compatibility, bus)
        self._rm = rm
        self._streams: dict[str, Any] = {}

    async def _register(self) -> None:
        request = self._registration()
        try:
            await self._rm.register(**{field.name: value for field, value in request.ListFields()})
        except grpc.aio.AioRpcError as error:
            raise Refused(error.details() or error.code().name) from None
        self._streams = {kind: self._rm.open(kind) for kind in ("node", "application", "allocation")}

    async def _send(self, kind: str, message: Any) -> None:
        if kind not in self._streams:
            await super()._send(kind, message)
            return
        message.rmID = self.scenario.rm_id
        await self._streams[kind].write(message)

    async def _hear(self) -> None:
        """The responses of all kinds are read, because those that are not would hold up the others."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._streams:
                tasks.create_task(self._read(kind))

    async def _read(self, kind: str) -> None:
        async for response in self._streams[kind]:
            if kind == "allocation":
                await self._take_response(response)
