"""Requests that are larger or odder than any that a client needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from remuda_bus.memory import MemoryBus
from remuda_web import limits
from remuda_web.app import Application
from remuda_web.bus_source import BusSource


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    bus = MemoryBus()
    app = Application(BusSource(bus), "1", 0, "info", bus)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        yield client


@pytest.mark.parametrize("path", ["/ws/v1/validate-conf", "/api/v1/configuration/check"])
async def test_a_body_without_end_is_read_up_to_its_bound(client: AsyncClient, path: str) -> None:
    sent = 0

    async def content() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10 * limits.BODY_BYTES:
            sent += 65_536
            yield b"x" * 65_536

    answer = await client.post(path, content=content())
    assert (answer.status_code, f"at most {limits.BODY_BYTES}" in answer.text) == (413, True)
    assert sent <= limits.BODY_BYTES + 2 * 65_536


async def test_a_body_that_is_no_text_is_refused(client: AsyncClient) -> None:
    refused = await client.post("/api/v1/configuration/check", content=b"partitions: \xff")
    assert (refused.status_code, refused.headers["Content-Type"]) == (400, "application/problem+json")
    assert "0xff at 12" in refused.json()["detail"]
    checked = await client.post("/ws/v1/validate-conf", content=b"partitions: \xff")
    assert (checked.status_code, checked.json()["allowed"], "0xff" in checked.json()["reason"]) == (200, False, True)


async def test_a_path_that_leads_to_another_is_escaped(client: AsyncClient) -> None:
    found = await client.get("/ws/v1//partition/%22%3E%3Cscript%3E%0d%0aX%E2%82%AC/nodes")
    assert found.status_code == 301
    assert found.headers["Location"] == "/ws/v1/partition/%22%3E%3Cscript%3E%0D%0AX%E2%82%AC/nodes"
    assert "<script>" not in found.text
