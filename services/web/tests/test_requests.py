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


@pytest.mark.parametrize(
    ("path", "parameter", "known"),
    [
        ("/api/v1/rms/rm-1/applications?user=x", "user", "application, queue, after, limit, min_log_seq, at"),
        ("/api/v1/rms/rm-1/nodes?node=x", "node", "after, limit, min_log_seq, at"),
        ("/api/v1/rms/rm-1/usage?limit=1&nonsense=x", "nonsense", "user, group, after, limit, min_log_seq, at"),
        ("/api/v1/rms/rm-1/watch/nodes?node=x", "node", "none"),
        ("/api/v1/rms/rm-1/stats?nonsense=x", "nonsense", "at"),
        ("/api/v1/rms?rm=x", "rm", "none"),
        ("/api/v1/rms/rm-1/queue-history?queue=root&user=x", "user", "queue, partition"),
        ("/api/v1/events?rm=x", "rm", "count"),
        ("/api/v1/peloton/default/pools?pool=x", "pool", "path, after"),
        ("/api/v1/peloton/default/story?id=a&from=x", "from", "id, after"),
    ],
)
async def test_a_parameter_that_a_path_lacks_is_refused(
    client: AsyncClient, path: str, parameter: str, known: str
) -> None:
    """It would have been answered with everything."""
    refused = await client.get(path)
    expected = f"only these fields: {known}"
    assert (refused.status_code, refused.json()["field"]) == (400, parameter)
    assert (refused.json()["value"], refused.json()["expected"]) == ("'x'", expected)


@pytest.mark.parametrize(
    "path", ["/api/v1/cores?nonsense=x", "/api/v1/changes?nonsense=x", "/api/v1/rms/rm-1/metrics/nodes?node=x"]
)
async def test_a_field_that_a_method_lacks_is_refused(client: AsyncClient, path: str) -> None:
    refused = await client.get(path)
    assert refused.status_code == 400, refused.text


async def test_the_document_lists_the_filters_of_each_kind(client: AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]

    def parameters(kind: str) -> set[str]:
        return {one["name"] for one in paths[f"/api/v1/rms/{{rm}}/{kind}"]["get"]["parameters"]}

    page = {"rm", "after", "limit", "min_log_seq", "at"}
    assert parameters("nodes") == page
    assert parameters("queues") == {*page, "draining"}
    assert parameters("explain") == {*page, "application", "queue", "key"}
