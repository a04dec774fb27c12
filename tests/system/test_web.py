"""REST over the whole system: real NATS, core, events and configuration, and an HTTP client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from remuda.embedded import NatsServer
from remuda_bus.bus import Bus
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as serve_events
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.running import QUEUES, around_the_core, placed, running, until
from tests.system.web_client import web_service

QUEUE = "/partition/default/queue/root.a"


@dataclass
class Web:
    url: str
    client: httpx.AsyncClient

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def events_main(bus: Bus, settings: object) -> None:
    await serve_events(bus, "events")


@pytest.fixture
async def web(server: NatsServer) -> AsyncIterator[Web]:
    async with web_of(server.url) as found:
        yield found


@asynccontextmanager
async def web_of(url: str, file: Path | None = None) -> AsyncIterator[Web]:
    """A web service with all that it asks. `file`: of the configuration service."""
    async with (
        around_the_core(url, file) as bus,
        running(url, "core", core_main, CoreSettings),
        running(url, "events", events_main),
        web_service(url, bus, base="/ws/v1") as client,
    ):
        yield Web(url, client)


async def rm_with_work(web: Web, name: str, config: str = QUEUES) -> ResourceManager:
    """Registered, with a node, an allocation and an ask that waits."""
    rm = ResourceManager.connect(web.url, name, config=config, build_info={"buildVersion": "9"})
    await rm.__aenter__()
    await rm.report_nodes([node("n1", vcore=2)])
    await rm.submit(application("app", user="alice", queue="root.a"))
    await rm.ask([ask("app", "k", vcore=1)])
    await placed(rm, "k")
    await rm.ask([ask("app", "big", vcore=9)])

    async def waits() -> bool:
        shown = (await web.client.get(f"/partition/[{name}]default/application/app")).json()
        return bool(shown.get("requests"))

    await until(waits)
    return rm


async def test_answers_show_what_runs_and_what_waits(web: Web) -> None:
    assert (await web.get("/partitions")) == []
    rm = await rm_with_work(web, "rm-1")
    (partition,) = await web.get("/partitions")
    assert (partition["name"], partition["totalNodes"], partition["totalContainers"]) == ("default", 1, 1)
    (cluster,) = await web.get("/clusters")
    assert cluster["rmBuildInformation"] == [{"buildVersion": "9", "rmId": "rm-1"}]
    (shown,) = await web.get(f"{QUEUE}/applications")
    assert [one["allocationKey"] for one in shown["allocations"]] == ["k"]
    assert [(one["allocationKey"], one["pendingCount"]) for one in shown["requests"]] == [("big", 1)]
    assert (await web.get("/partition/default/node/n1"))["allocated"] == {"vcore": 1}
    assert (await web.get("/scheduler/healthcheck"))["Healthy"] is True
    assert "root.a" in json.dumps(await web.get("/fullstatedump"))
    assert "name: a" in (await web.client.get("/config")).text
    assert 'state="pending"} 9' in (await web.client.get("/metrics")).text
    refused = await web.client.post("/validate-conf", content="partitions: [{name: x, colour: red}]")
    assert refused.json()["allowed"] is False and "colour" in refused.json()["reason"]
    await rm.__aexit__(None, None, None)


async def test_partitions_of_one_name_are_told_apart(web: Web) -> None:
    rms = [await rm_with_work(web, name) for name in ("rm-1", "rm-2")]
    assert {one["name"] for one in await web.get("/partitions")} == {"[rm-1]default", "[rm-2]default"}
    assert (await web.client.get("/partition/default/nodes")).status_code == 400
    nodes = await web.get("/partition/[rm-2]default/nodes")
    assert [one["attributes"]["si/node-partition"] for one in nodes] == ["[rm-2]default"]
    for rm in rms:
        await rm.__aexit__(None, None, None)


async def test_events_are_paged_and_streamed(web: Web) -> None:
    async with asyncio.timeout(30), web.client.stream("GET", "/events/stream") as stream:
        assert stream.status_code == 200
        rm = await rm_with_work(web, "rm-1")
        lines = stream.aiter_lines()
        while json.loads(await anext(lines)).get("objectID") != "n1":
            pass

    async def recorded() -> bool:
        return any(one["objectID"] == "app" for one in (await web.get("/events/batch"))["EventRecords"] or ())

    await until(recorded)
    page = await web.get("/events/batch?count=1&start=1")
    assert len(page["EventRecords"]) == 1 and page["LowestID"] == 0 and page["HighestID"] > 1
    later = page["HighestID"] + 1_000  # more may happen meanwhile
    assert (await web.get(f"/events/batch?start={later}"))["EventRecords"] is None
    await rm.__aexit__(None, None, None)


async def test_long_answers_are_compressed(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1")
    answer = await web.client.get("/scheduler/healthcheck", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip" and answer.json()["Healthy"]
    await rm.__aexit__(None, None, None)


async def test_queries_are_paged_and_tagged(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1")
    api = str(web.client.base_url).replace("/ws/v1/", "/api/v1")
    assert await web.get(f"{api}/rms") == {"rms": ["rm-1"]}
    first = await web.client.get(f"{api}/rms/rm-1/queues?limit=1")
    assert [one["path"] for one in first.json()["rows"]] == ["root"]
    second = await web.client.get(first.url.join(first.links["next"]["url"]))
    assert [one["path"] for one in second.json()["rows"]] == ["root.a"] and "next" not in second.links
    (waiting,) = (await web.get(f"{api}/rms/rm-1/explain?application=app"))["rows"]
    assert (waiting["key"], waiting["constraints"][0]["need"]) == ("big", 9)
    rows = f"{api}/rms/rm-1/usage?user=alice"
    tag = (await web.client.get(rows)).headers["ETag"]
    assert (await web.client.get(rows, headers={"If-None-Match": tag})).status_code in (200, 304)
    versions = (await web.get(f"{api}/configuration/versions?rm=rm-1"))["versions"]
    shown = await web.get(f"{api}/configuration/versions/{versions[-1]['number']}?rm=rm-1")
    assert shown["text"] == QUEUES
    assert (await web.client.post(f"{api}/configuration/check", content="a: 1")).json()["valid"] is False
    await rm.__aexit__(None, None, None)


async def test_errors_are_problem_details(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1")
    api = str(web.client.base_url).replace("/ws/v1/", "/api/v1")
    for path, status, words in (
        ("/rms/nope/queues", 404, "rm='nope'"), ("/rms/rm-1/colours", 404, "/rms/rm-1/colours"),
        ("/rms/rm-1/queues?limit=0", 400, "limit='0'"), ("/rms/rm-1/queues?after=x", 400, "after='x'"),
        ("/rms/rm-1/applications?application=nope", 404, "'nope'"), ("/nothing", 404, "/api/v1/nothing"),
    ):  # fmt: skip
        answer = await web.client.get(f"{api}{path}")
        problem = answer.json()
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json"), path
        assert problem["status"] == status and words in problem["detail"], problem
    await rm.__aexit__(None, None, None)


async def test_changes_are_sent_as_they_come(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1")
    api = str(web.client.base_url).replace("/ws/v1/", "/api/v1")
    async with asyncio.timeout(30), web.client.stream("GET", f"{api}/rms/rm-1/watch/nodes") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        pages = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
        assert [one["id"] for one in (await anext(pages))["rows"]] == ["n1"]
        await rm.report_nodes([node("n2", vcore=2)])
        assert [one["id"] for one in (await anext(pages))["rows"]] == ["n1", "n2"]
    await rm.__aexit__(None, None, None)
