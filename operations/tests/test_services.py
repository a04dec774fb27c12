"""Which services run: one that answers late is not absent."""

from __future__ import annotations

import asyncio
import json

import pytest

from remuda_bus.bus import Message
from remuda_bus.memory import MemoryBus
from remuda_operations.queries.services import PING, services


def answer_of(service: str, number: int = 1) -> bytes:
    return json.dumps({"name": f"remuda-{service}", "id": f"{service}-{number}", "version": "1"}).encode()


async def serve(bus: MemoryBus, service: str, busy_for: int = 0, number: int = 1) -> list[int]:
    """`busy_for`: so many pings are not answered. Returns the list of the numbers of all pings."""
    pings: list[int] = []

    async def pong(_: Message) -> bytes:
        pings.append(len(pings) + 1)
        if len(pings) <= busy_for:
            await asyncio.Event().wait()
        return answer_of(service, number)

    await bus.serve(PING, pong, service)
    return pings


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    monkeypatch.setattr("remuda_operations.queries.services.PING_S", 0.02)
    monkeypatch.setattr("remuda_operations.queries.services.PING_AGAIN_S", (0.02, 0.02))
    return MemoryBus()


@pytest.mark.parametrize("busy_for", [1, 2])
async def test_a_busy_service_is_asked_again(bus: MemoryBus, busy_for: int) -> None:
    await serve(bus, "core")
    await serve(bus, "core", number=2)
    pings = await serve(bus, "events", busy_for)
    found = await services(bus, ("core", "events"))
    assert [(one.service, one.id) for one in found] == [("core", "core-1"), ("core", "core-2"), ("events", "events-1")]
    assert len(pings) == busy_for + 1
    await bus.close()


async def test_what_all_answer_is_asked_once_and_what_is_absent_ends(bus: MemoryBus) -> None:
    pings = await serve(bus, "core")
    assert [one.service for one in await services(bus, ["core"])] == ["core"] and len(pings) == 1
    assert [one.service for one in await services(bus)] == ["core"] and len(pings) == 2
    assert [one.service for one in await services(bus, ("core", "events"))] == ["core"] and len(pings) == 5
    await bus.close()
