"""Queries of operators, and the commands that ask them, on a real bus."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from httpx import ASGITransport, AsyncClient
from starlette.types import Receive, Scope, Send

from integrations.peloton.tests.test_server import JOB, create_pool, message, server, set_capacity, task, url
from remuda_bus.nats import connect
from remuda_operations.operator_api.messages import Caller
from remuda_web.app import Application
from remuda_web.bus_source import BusSource
from remuda_web.callers import set_caller

__all__ = ["url"]


def remuda(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remuda", *arguments, "--nats", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def over_rest(url: str, path: str) -> Any:
    """The answer of the web service to somebody who reads everything."""
    bus = await connect(url, "web", timeout_s=5)
    app = Application(BusSource(bus), "1", 0, "info", bus)

    async def web(scope: Scope, receive: Receive, send: Send) -> None:
        set_caller(scope, Caller(reads_all=True))
        await app(scope, receive, send)

    async with AsyncClient(transport=ASGITransport(web), base_url="http://web") as client:
        found = await client.get(f"/api/v1/peloton/default/{path}")
    await bus.close()
    assert found.status_code == 200, found.text
    return found.json()


def test_commands_show_pools_and_why_a_task_waits(url: str) -> None:
    with server(url) as call:
        set_capacity(call, 10.0)
        pool, task_id = create_pool(call), f"{JOB}-0"
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=[task(number, 1) for number in range(6)]))
        pools = json.loads(remuda(url, "pools", "--json").stdout)
        assert [one["path"] for one in pools] == ["/", "/pool"] and pools[1]["tasks"] == 6
        found = remuda(url, "pools", "/pool", "-o", "wide")
        assert "/pool" in found.stdout and found.returncode == 0, found.stderr
        explained = remuda(url, "explain", "peloton.default", task_id)
        assert "is PENDING" in explained.stdout and "rule " in explained.stdout, explained
        assert "gang/1 of 6 tasks waits in /pool" in explained.stdout and "no gang goes before it" in explained.stdout
        assert "entitlement of /pool" in explained.stdout
        story = remuda(url, "story", task_id, "--rm", "peloton.default", "--json")
        assert "of 6 tasks is PENDING in pool /pool" in json.loads(story.stdout.splitlines()[0])["text"]
        of_pool = remuda(url, "story", "/pool", "--rm", "peloton.default")
        assert "pool pool is created below root" in of_pool.stdout.splitlines()[0], of_pool
        assert asyncio.run(over_rest(url, "pools"))["pools"] == pools
        waits = asyncio.run(over_rest(url, f"explain?id={task_id}"))
        assert waits["tasks"][0]["task"] == task_id and waits["pools"][-1]["pool"] == "/pool", waits
        told = asyncio.run(over_rest(url, f"story?id={task_id}"))["lines"]
        assert {"rm": "peloton.default", **told[0]} == json.loads(story.stdout.splitlines()[0])
        in_all_logs = remuda(url, "story", task_id, "--json")
        assert in_all_logs.stdout == story.stdout and story.stdout, in_all_logs
        of_pool_in_all_logs = remuda(url, "story", "/pool").stdout.splitlines()
        assert of_pool_in_all_logs[:-1] == of_pool.stdout.splitlines()
        assert of_pool_in_all_logs[-1].endswith(" in the log of peloton.default")
        nowhere = remuda(url, "story", "t-1")
        assert nowhere.stderr == "remuda: no fact about 't-1': the log of peloton.default\n", nowhere
        unknown = remuda(url, "explain", "peloton.default", "nothing")
        assert unknown.returncode == 1 and "there is no task, run or gang 'nothing'" in unknown.stderr
        missing = remuda(url, "pools", "/nowhere")
        assert missing.returncode == 1 and "/nowhere" in missing.stderr
    absent = remuda(url, "pools", "--cluster", "other")
    assert "no resource manager of Peloton answers" in absent.stderr
