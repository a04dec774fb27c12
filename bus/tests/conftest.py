"""A real nats-server per test; it is up within a tenth of a second."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from remuda.embedded import NatsServer
from remuda_bus.nats import NatsBus, connect


@pytest.fixture(autouse=True)
def plain_log() -> None:
    """structlog's default draws tracebacks with all variables, which takes seconds."""
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


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
