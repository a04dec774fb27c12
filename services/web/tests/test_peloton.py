"""Pools, tasks and gangs of Peloton's resource managers, from queries on the bus."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.types import Receive, Scope, Send

from remuda_bus.bus import Message, Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.subjects import peloton_change, peloton_query
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.callers import set_caller

READER = Caller(reads_all=True)
BASE = "/api/v1/peloton"


class Web:
    """`asked`: the queries, with what they were asked."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.asked: list[tuple[str, Any]] = []
        self.caller = READER
        self._app = Application(BusSource(self.bus), "1", 0, "info", self.bus)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        set_caller(scope, self.caller)
        await self._app(scope, receive, send)

    async def serve(self) -> None:
        async def answer(message: Message) -> bytes:
            kind, request = message.subject.rpartition(".")[2], json.loads(message.payload)
            self.asked.append((kind, request))
            if request.get("id") == "nothing":
                raise Refused("there is no task, run or gang 'nothing' now", 404)
            return json.dumps({"kind": kind}).encode()

        for kind in ("pools", "explain", "story"):
            await self.bus.serve(peloton_query("default", kind), answer, kind)

        async def change(message: Message) -> bytes:
            operator, request = message.subject.split(".")[2:4], json.loads(message.payload)
            self.asked.append((".".join(operator), request))
            if request.get("path") == "/wrong":
                raise Refused("cpu.limit is 'x', expected a number")
            return json.dumps({"changes": ["/a changed"]}).encode()

        await self.bus.serve(peloton_change("*", "*", "default"), change, "change")


@pytest.fixture
async def web() -> Web:
    found = Web()
    await found.serve()
    return found


@pytest.fixture
async def client(web: Web) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(web), base_url="http://web") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("default/pools", ("pools", {})),
        ("default/pools?path=/a/b&after=/a/b/c", ("pools", {"path": "/a/b", "after": "/a/b/c"})),
        ("default/explain?id=gang/17", ("explain", {"id": "gang/17"})),
        ("default/story?id=t&after=12,3", ("story", {"id": "t", "after": [12, 3]})),
    ],
)
async def test_queries_are_asked(web: Web, client: AsyncClient, path: str, asked: tuple[str, Any]) -> None:
    found = await client.get(f"{BASE}/{path}")
    assert (found.status_code, found.json(), web.asked) == (200, {"kind": asked[0]}, [asked])


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("default/explain?id=nothing", 404, "there is no task, run or gang"),
        ("default/explain", 400, "id"),
        ("default/story?id=t&after=x", 400, "after"),
        ("a b/pools", 400, "expected"),
        ("other/pools", 503, "no resource manager of Peloton answers"),
    ],
)
async def test_what_is_wrong_is_said(client: AsyncClient, path: str, status: int, said: str) -> None:
    found = await client.get(f"{BASE}/{path}")
    assert found.status_code == status and said in found.json()["detail"], found.text


async def test_one_who_reads_a_part_is_refused(web: Web, client: AsyncClient) -> None:
    web.caller = Caller()
    for kind in ("pools", "explain?id=t", "story?id=t"):
        found = await client.get(f"{BASE}/default/{kind}")
        assert (found.status_code, web.asked) == (403, []), found.text


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ({"json": {"path": "/a", "set": {"cpu.limit": "7"}}}, {"path": "/a", "set": {"cpu.limit": "7"}}),
        ({"json": {"path": "/a", "delete": True}}, {"path": "/a", "delete": True}),
        ({"content": "pools: []", "headers": {"Content-Type": "application/yaml"}}, {"text": "pools: []"}),
    ],
)
async def test_pools_are_changed_in_the_name_of_an_operator(
    web: Web, client: AsyncClient, sent: dict[str, Any], asked: dict[str, Any]
) -> None:
    web.caller = Caller(Operator("ann@example.com", ("ops",)))
    found = await client.post(f"{BASE}/default/pools", **sent)
    assert (found.status_code, found.json()) == (200, {"changes": ["/a changed"]})
    assert found.headers["cache-control"] == "no-store" and web.asked == [("ann=40example=2Ecom.ops", asked)]


async def test_changes_that_are_wrong_or_of_nobody_are_refused(web: Web, client: AsyncClient) -> None:
    found = await client.post(f"{BASE}/default/pools", json={"path": "/a", "delete": True})
    assert (found.status_code, web.asked) == (403, [])
    web.caller = Caller(Operator("ann"))
    for cluster, sent, status, said in (
        ("default", '{"path": "/wrong"}', 400, "cpu.limit is 'x', expected a number"),
        ("default", "[]", 400, "the body is a list, expected a JSON object"),
        ("a b", "{}", 400, "expected"),
        ("other", "{}", 503, "no resource manager of Peloton answers"),
    ):
        found = await client.post(f"{BASE}/{cluster}/pools", content=sent, headers={"Content-Type": "application/json"})
        assert found.status_code == status and said in found.json()["detail"], found.text
