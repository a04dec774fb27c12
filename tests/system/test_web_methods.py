"""The methods of `remuda.v1.Admin` and `Metrics` over HTTP, with real services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from remuda.embedded import NatsServer
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as events
from remuda_operations.system_user import user_of_the_system
from remuda_sdk import ResourceManager, application, ask, node
from remuda_web.api_v1.paths import PATHS
from tests.system.running import around_the_core, placed, running, until
from tests.system.web_client import web_service

RM = "rm-1"
OPERATOR = user_of_the_system()
QUEUES = f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        adminacl: '{OPERATOR.name}'
        queues:
          - {{name: a, resources: {{max: {{vcore: 8}}}}}}
          - {{name: b}}
"""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """An RM with two nodes, a running application with an allocation and a pending ask, and one without allocations."""
    directory: Path = tmp_path_factory.mktemp("web")
    file = directory / "queues.yaml"
    file.write_text(QUEUES)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NatsServer(directory / "nats"))
        bus = await stack.enter_async_context(around_the_core(server.url, file))
        await stack.enter_async_context(running(server.url, "core", core, CoreSettings))
        await stack.enter_async_context(running(server.url, "events", lambda own, _: events(own, "events")))
        rm = await stack.enter_async_context(ResourceManager.connect(server.url, RM))
        await rm.report_nodes([node("n1", vcore=4_000), node("n2", vcore=4_000)])
        await rm.submit(application("app-1", user="alice", queue="root.a"))
        await rm.submit(application("app-2", user="bob", queue="root.b"))
        await rm.ask([ask("app-1", "k1", vcore=1_000), ask("app-1", "big", vcore=5_000)])
        await placed(rm, "k1")
        client = await stack.enter_async_context(web_service(server.url, bus))

        async def is_told() -> bool:
            found = (await client.get("/changes", params={"rm": RM, "from_oldest": True})).json()
            return any(one["event"]["objectID"] == "n2" for one in found["changes"])

        await until(is_told)
        yield client


async def of(web: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await web.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def posted(web: httpx.AsyncClient, path: str, **fields: Any) -> Any:
    answer = await web.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


READS = (
    "/resource-managers", f"/rms/{RM}/reservations", f"/rms/{RM}/story?id=app-1", f"/rms/{RM}/digest", "/cores",
    "/front-ends", "/faults", f"/changes?rm={RM}&from_oldest=true&limit=2", "/configuration",
    "/configuration/versions", "/configuration/versions/1", "/metrics/system", f"/rms/{RM}/metrics",
    f"/rms/{RM}/metrics/queues?limit=1", f"/rms/{RM}/metrics/nodes",
)  # fmt: skip


@pytest.mark.parametrize("path", READS)
async def test_reading_methods_answer(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.get(path)
    assert answer.status_code == 200 and answer.headers["ETag"], answer.text
    assert answer.json()


async def test_an_operator_acts_by_name(web: httpx.AsyncClient) -> None:
    assert (await of(web, "/me"))["operator"] == OPERATOR.name
    held = await posted(web, f"/rms/{RM}/actions/hold-queue", queue="root.b", options={"reason": "a test"})
    assert held["outcome"] == "accepted" and held["action_id"]

    async def is_held() -> bool:
        (queue,) = [one for one in (await of(web, f"/rms/{RM}/queues"))["rows"] if one["path"] == "root.b"]
        return queue["held"] is not None and queue["held"]["reason"] == "a test"

    await until(is_held)
    (action,) = (await of(web, f"/rms/{RM}/actions", action=held["action_id"]))["rows"]
    assert (action["kind"], action["outcome"]) == ("HoldQueue", "accepted")
    assert (await posted(web, f"/rms/{RM}/actions/resume-queue", queue="root.b"))["outcome"] == "accepted"
    for path, fields in (
        ("drain-node", {"node_id": "n2"}), ("undrain-node", {"node_id": "n2"}),
        ("change-ask-priority", {"application_id": "app-1", "allocation_key": "big", "priority": -5}),
        ("move-application", {"application_id": "app-2", "queue": "root.a"}),
        ("kill-application", {"application_id": "app-2", "options": {"action_id": "once"}}),
    ):  # fmt: skip
        assert (await posted(web, f"/rms/{RM}/actions/{path}", **fields))["outcome"] == "accepted", path
    again = await posted(
        web, f"/rms/{RM}/actions/kill-application", application_id="app-2", options={"action_id": "once"}
    )
    assert again["repeated"] is True
    unknown = await posted(web, f"/rms/{RM}/actions/release-allocation", uuid="nope")
    assert unknown["outcome"] == "refused" and "nope" in unknown["reason"]


async def test_a_configuration_is_previewed_applied_and_taken_back(web: httpx.AsyncClient) -> None:
    changed = QUEUES.replace("vcore: 8", "vcore: 9")
    yaml = {"Content-Type": "application/yaml"}
    preview = (await web.post(f"/rms/{RM}/preview?passes=1", content=changed, headers=yaml)).json()
    (row,) = preview["queues"]["rows"]
    assert (row["queue"], row["change"]) == ("root.a", "changed") and row["fields"]["max"]["after"] == {"vcore": 9_000}
    before = (await of(web, "/configuration"))["version"]["number"]
    applied = await posted(web, "/configuration", text=changed, message="more", base=before, for_ms=60_000)
    number = applied["version"]["number"]
    assert applied["changed"] and applied["version"]["by"] == OPERATOR.name and applied["version"]["until_ms"]
    assert (await posted(web, "/configuration/confirm", version=number))["version"]["confirmed_by"] == OPERATOR.name
    lines = (await of(web, "/configuration/diff", before=before, after=number))["lines"]
    assert any("vcore: 9" in line for line in lines)
    stale = await web.post("/configuration", json={"text": QUEUES, "base": before})
    assert (stale.status_code, stale.headers["Content-Type"]) == (409, "application/problem+json")
    back = await posted(web, f"/configuration/versions/{before}/rollback")
    assert back["version"]["restores"] == before
    versions = (await of(web, "/configuration/versions"))["versions"]
    assert [one["number"] for one in versions][:2] == [number + 1, number]


async def test_a_text_with_problems_changes_nothing(web: httpx.AsyncClient) -> None:
    answer = await web.post("/configuration", json={"text": "partitions: 1"})
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (422, 422) and problem["problems"][0]["path"] == "partitions"
    checked = await web.post("/configuration/check", content="a: 1", headers={"Content-Type": "text/plain"})
    assert checked.json()["valid"] is False


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        (f"/rms/{RM}/actions/kill-application", {}, 400, "application_id"),
        (f"/rms/{RM}/actions/kill-application", {"rm": "other", "application_id": "a"}, 400, "rm"),
        (f"/rms/{RM}/actions/change-ask-priority", {"priority": 2**40}, 400, "priority"),
        ("/rms/a b/actions/drain-node", {"node_id": "n1"}, 400, "rm"),
        ("/configuration", {"text": "x", "for_ms": 1}, 400, "for_ms"),
        ("/configuration", [1], 400, None),
        ("/configuration/versions/x/rollback", {}, 400, "version"),
        ("/configuration/versions/999/rollback", {}, 404, None),
    ],
)
async def test_wrong_requests_are_problems(
    web: httpx.AsyncClient, path: str, body: Any, status: int, field: str | None
) -> None:
    answer = await web.post(path, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem.get("field")) == (status, status, field), problem
    assert answer.headers["Content-Type"] == "application/problem+json"
    if field is not None:
        assert problem["expected"], problem


async def test_changes_are_followed_from_a_position(web: httpx.AsyncClient) -> None:
    async def first(count: int, **headers: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        url = f"/changes/stream?rm={RM}&types=NODE&from_oldest=true"
        async with asyncio.timeout(10), web.stream("GET", url, headers=headers) as stream:
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    one = json.loads(line.removeprefix("data: "))
                    found += [one] if one["event"] else []
                if len(found) == count:
                    return found
        raise AssertionError

    begin = await first(2)
    assert begin[0]["event"]["type"] == "NODE" and begin[0]["position"] < begin[1]["position"]
    assert await first(1, **{"Last-Event-ID": str(begin[0]["position"])}) == begin[1:]


async def test_metrics_of_an_rm_are_followed(web: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10), web.stream("GET", f"/rms/{RM}/metrics/stream?interval_ms=1000") as stream:
        data = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
        assert (await anext(data))["nodes"] == 2
    async with asyncio.timeout(10), web.stream("GET", f"/rms/{RM}/metrics/stream?interval_ms=1") as stream:
        data = (json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: "))
        assert (await anext(data))["field"] == "interval_ms"


async def test_the_document_names_every_path(web: httpx.AsyncClient) -> None:
    document = (await web.get(str(web.base_url).removesuffix("/api/v1/") + "/openapi.json")).json()
    text = json.dumps(document)
    for path in PATHS:
        assert path.verb.lower() in document["paths"][f"/api/v1{path.path}"]
    schemas = document["components"]["schemas"]
    references = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert references <= schemas.keys()
    assert schemas["ActionOutcome"]["properties"]["repeated"]["type"] == "boolean"
