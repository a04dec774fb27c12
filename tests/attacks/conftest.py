"""All attacks of a module share an event loop, and a system as long as none has harmed it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from .ground import Ground, Grounds


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grounds() -> AsyncIterator[Grounds]:
    shared = Grounds()
    yield shared
    await shared.close()


@pytest_asyncio.fixture(loop_scope="module")
async def ground(grounds: Grounds) -> Ground:
    return await grounds.usable()
