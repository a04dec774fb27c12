"""A look at a running system: what waits, and why, however much it is."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from cli.tests.running import Lines, finished, remuda, status, stopped

pytestmark = pytest.mark.timeout(120)


@pytest.mark.timeout(300)
async def test_tens_of_thousands_of_asks_that_wait(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    try:
        await Lines(process).until(r" remuda +ready:")
        url = json.loads((tmp_path / "remuda.json").read_text())["nats"]
        load = ("load", "--nats", url, "--rm", "rm-1", "--nodes", "1", "--apps", "3", "--asks", "4000", "--keep")
        code, text = await finished(*load, "--plain", "--record", str(tmp_path / "record"))
        assert code == 0, text

        code, text = await finished("explain", "rm-1", "--nats", url, "--json")
        assert code == 0, text
        asks = json.loads(text)["asks"]
        assert len({(ask["application"], ask["key"]) for ask in asks}) == len(asks) > 11_000
        assert all(ask["constraints"][0]["constraint"] == "node" for ask in asks)

        code, text = await finished("explain", "rm-1", "--nats", url)
        assert code == 0
        assert text.count("no node has room") == 3

        last = asks[-1]
        code, text = await finished("explain", "rm-1", last["application"], last["key"], "--nats", url)
        assert code == 0
        assert "no node has room" in text
        assert f"are ahead of it in {last['queue']}" in text.replace("\n", " ")

        code, text = await finished("explain", "rm-1", last["application"], "no-such-key", "--nats", url)
        assert code == 1 and "has no fact about one" in text, text
        code, text = await finished("explain", "rm-1", "no-such-application", "--nats", url)
        assert code == 1 and "has no fact about it" in text, text
        placed = re.search(r'"allocated","key":"([^"]+)","application":"([^"]+)"', (tmp_path / "record").read_text())
        assert placed is not None
        code, text = await finished("explain", "rm-1", placed[2], placed[1], "--nats", url)
        assert code == 0 and "nothing is pending" in text and "last: 20" in text, text

        code, text = await finished("log", "core", "debug", "--for", "5s", "--nats", url)
        assert code == 0 and "logs debug for 5 s" in text, text
        code, text = await finished("log", "resmgr", "debug", "--nats", url)
        assert code == 1 and "no process of the service resmgr answers" in text, text

        code, text = await status(f"{url}, {url}")  # of a cluster, several are named
        assert code == 0 and "rm-1" in text, text
        code, text = await finished("applications", "rm-1", "--nats", url)
        assert code == 0, text
        assert all(f"app-000{n}" in text for n in range(3))
        code, text = await finished("applications", "rm-1", "--queue", "Root.Load", "--nats", url)
        assert code == 0 and "app-0000" in text, text
        code, text = await finished("applications", "rm-1", "--queue", "root.lod", "--nats", url)
        assert code == 1 and "queue 'root.lod' does not exist in rm-1" in text, text
        for command in (["dead-letters", "rm-2"], ["events", "--rm", "rm-2"], ["config", "history", "--rm", "rm-2"]):
            code, text = await finished(*command, "--nats", url)
            assert code == 1 and "no resource manager 'rm-2' is registered" in text, text
        code, text = await finished("top", "--plain", "--nats", url)
        assert code == 0 and "why the first 200 of the asks wait" in text and "0 allocations/s" in text, text
        code, text = await finished("nodes", "rm-1", "--nats", url, "--json")
        assert [node["status"] for node in json.loads(text)] == ["Schedulable"], text
        code, text = await finished("usage", "rm-1", "--nats", url)
        assert code == 0, text
        assert "user " in text
        assert await stopped(process) == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_load_that_is_stopped_says_how_far_it_came(tmp_path: Path) -> None:
    load = await remuda("load", "--asks", "100000", "--rate", "50", "--plain")
    lines = Lines(load)
    await lines.until(r" placed")
    assert await stopped(load) == 130
    rest = (await load.stdout.read()).decode()  # type: ignore[union-attr]
    assert "throughput" in rest and "of " in rest and "remuda: stopped by SIGINT" in rest, rest


async def test_a_load_ends_when_it_is_told_nothing_any_more(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    try:
        await Lines(process).until(r" remuda +ready:")
        url = json.loads((tmp_path / "remuda.json").read_text())["nats"]
        long = await remuda("load", "--nats", url, "--rm", "rm-1", "--asks", "100000", "--rate", "50", "--plain")
        await Lines(long).until(r" placed")
        await finished("load", "--nats", url, "--rm", "rm-1", "--apps", "1", "--asks", "1", "--plain")
        said, _ = await asyncio.wait_for(long.communicate(), 30)
        assert long.returncode == 1
        assert "registration 1 of 'rm-1' is over: another instance has registered, as 2" in said.decode()
        assert await stopped(process) == 0
    finally:
        if process.returncode is None:
            process.kill()
