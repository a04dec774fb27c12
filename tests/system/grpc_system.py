"""A system with a gRPC front end, in tasks of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from remuda_bus.nats import NatsBus
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_grpc.settings import GrpcSettings
from remuda_grpc.shell import main as grpc_main
from tests.system.grpc_client import port_of
from tests.system.running import around_the_core, running


@dataclass
class System:
    url: str
    bus: NatsBus
    port: int


@asynccontextmanager
async def front_end(url: str, bus: NatsBus, name: str = "grpc", **settings: object) -> AsyncIterator[int]:
    """A front end on a port of its own."""

    def of_test(**given: object) -> GrpcSettings:
        return GrpcSettings(port=0, **settings, **given)

    async with running(url, name, grpc_main, of_test):
        yield await port_of(bus, name)


@asynccontextmanager
async def grpc_system(url: str) -> AsyncIterator[System]:
    """All services that an RM over gRPC needs."""
    async with (
        around_the_core(url) as bus,
        running(url, "core", core_main, CoreSettings),
        front_end(url, bus) as port,
    ):
        yield System(url, bus, port)
