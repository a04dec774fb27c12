from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from remuda_bus.bus import Bus
from tests.e2e.stack import Stack, why_not

RMS = ("e2e-core", "e2e-nats", "e2e-nats-leader", "e2e-rmproxy", "e2e-upgrade", "e2e-soak", "rm-trace")


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    stack = Stack()
    stack.up(RMS)
    yield stack
    stack.down()


@pytest.fixture
async def admin(stack: Stack) -> AsyncIterator[Bus]:
    bus = await stack.admin()
    yield bus
    await bus.close()
