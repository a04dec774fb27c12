"""A real nats-server per test; it is up within a tenth of a second."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus, connect


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def nats_bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    bus = await connect(server.url, "test", timeout_s=5)
    await bus.declare()
    yield bus
    await bus.close()
