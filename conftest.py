"""For all tests: a real nats-server of their own, up within a tenth of a second, and a connection to it with all
streams declared."""

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
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    connected = await connect(server.url, "test", timeout_s=5)
    await connected.declare()
    yield connected
    await connected.close()
