"""For all tests: a real nats-server of their own, up within a tenth of a second, and a connection to it with all
streams declared. What a command has configured for its logs does not outlive the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus, connect


@pytest.fixture(autouse=True)
def _logs_as_they_are() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    connected = await connect(server.url, "test", timeout_s=5)
    await connected.declare()
    yield connected
    await connected.close()
