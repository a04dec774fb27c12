"""Rows that lack something: of an older core, of no RM, of a core with a fault."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from remuda_web import limits, shell
from remuda_web.app import Application
from remuda_web.source import Events, Row

PARTITION: Row = {
    "name": "default", "status": "Active", "total": {"vcore": 4}, "allocated": {"vcore": 1}, "nodes": 1,
    "allocations": 1, "placement_rules": [],
}  # fmt: skip
NOTHING_USED: Row = {"type": "", "utilization": []}
NODE: Row = {
    "partition": "default", "id": "n1", "capacity": {"vcore": 4}, "occupied": {}, "allocated": {"vcore": 1},
    "available": {"vcore": 3}, "reserved_for": None,
}  # fmt: skip


class Rows:
    """A source of one RM with these rows by kind."""

    def __init__(self, kinds: dict[str, list[Row]]) -> None:
        self.kinds = kinds

    def rms(self) -> list[str]:
        return ["rm-1"] if self.kinds else []

    async def partitions(self, rm: str) -> list[Row]:
        return self.kinds["partitions"]

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return self.kinds.get(kind, [])

    async def configuration(self, rm: str | None) -> str:
        return ""

    async def events(self, start: int, count: int) -> Events:
        return Events(0, 0, ())


def application(kinds: dict[str, list[Row]]) -> Application:
    source: Any = Rows(kinds)
    return Application(source, "1", 0, "info")


async def get(app: Application, path: str) -> Any:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        return await client.get(path)


async def test_an_older_core_is_an_outage() -> None:
    older = {name: value for name, value in NODE.items() if name != "occupied"}
    app = application({"partitions": [PARTITION], "nodes": [older]})
    for path in ("/ws/v1/partition/default/nodes", "/ws/v1/scheduler/healthcheck"):
        answer = await get(app, path)
        assert answer.status_code == 503, path
        assert "is it older than this web service" in answer.json()["message"], path


async def test_an_older_core_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SAMPLE_EVERY_S", 0.001)
    monkeypatch.setattr(limits, "CHECK_EVERY_S", 0.001)
    answers = application({"partitions": [{"name": "default"}], "nodes": [{"partition": "default"}]}).answers
    for work in (shell._sample(answers), shell._check(answers)):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.05)


async def test_with_no_rm_there_is_nothing() -> None:
    app = application({})
    for path, body in (
        ("/ws/v1/partitions", []), ("/ws/v1/clusters", []), ("/ws/v1/scheduler/node-utilizations", []),
        ("/ws/v1/scheduler/node-utilization", NOTHING_USED), ("/ws/v1/history/apps", None),
        ("/api/v1/rms", {"rms": []}),
    ):  # fmt: skip
        answer = await get(app, path)
        assert (answer.status_code, answer.json()) == (200, body), path
    assert (await get(app, "/ws/v1/scheduler/healthcheck")).json()["Healthy"] is True
    assert (await get(app, "/ws/v1/partition/default/nodes")).json()["message"] == "Partition not found"
    root = (await get(app, "/ws/v1/partition/default/queues")).json()
    assert (root["queuename"], "children" in root) == ("root", False)
    assert (await get(app, "/ws/v1/config?rm=rm-1")).status_code == 400
    for path in ("/ws/v1/config", "/ws/v1/fullstatedump", "/ws/v1/metrics", "/ws/v1/events/batch"):
        assert (await get(app, path)).status_code == 200, path


async def test_a_fault_of_the_data_is_unhealthy() -> None:
    wrong = {**NODE, "allocated": {"vcore": 9}}
    answer = await get(application({"partitions": [PARTITION], "nodes": [wrong]}), "/ws/v1/scheduler/healthcheck")
    assert (answer.status_code, answer.json()) == (
        503,
        {
            "status_code": 503, "message": "Scheduler is not healthy", "description": "Scheduler is not healthy",
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("count=9223372036854775807", ""), ("count=1000000000000000000&start=9223372036854775807", ""),
        ("start=%2B007", ""), ("count=0000000000000000000000001", ""),
        ("count=9223372036854775808", "value out of range"), ("start=-9223372036854775809", "value out of range"),
        (f"count={'9' * 5_000}", "value out of range"), ("count=٣", "invalid syntax"), ("count=1_0", "invalid syntax"),
        ("count=-9223372036854775808", "Illegal number of events: -9223372036854775808"),
    ],
)  # fmt: skip
async def test_numbers_of_events_are_those_of_the_reference(query: str, problem: str) -> None:
    answer = await get(application({}), f"/ws/v1/events/batch?{query}")
    assert (answer.status_code, problem in answer.json().get("message", "")) == (400 if problem else 200, True)
