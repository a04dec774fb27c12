"""A look at a running system: what waits, and why, however much it is."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from cli.tests.running import Lines, finished, remuda, stopped
from remuda.show.cores import table
from remuda.show.wait_reasons import position_of, waiting_time
from remuda_bus.queries.cores import Core, RmOfCore, behind_s
from remuda_bus.queries.rows import Ask, Constraint, Position, Turn

pytestmark = pytest.mark.timeout(120)


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

        code, text = await finished("status", "--nats", f"{url}, {url}")  # of a cluster, several are named
        assert code == 0 and "rm-1" in text, text
        code, text = await finished("applications", "rm-1", "--nats", url)
        assert code == 0, text
        assert all(f"app-000{n}" in text for n in range(3))
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
        assert "remuda: rm-1: another instance of 'rm-1' has registered" in said.decode()
        assert await stopped(process) == 0
    finally:
        if process.returncode is None:
            process.kill()


def test_who_leads_and_who_is_behind() -> None:
    one = Core("one", [RmOfCore("b", True, 9, 5_000), RmOfCore("a", True, 7, 9_000), RmOfCore("c", False, 3, 1_000)])
    two = Core("two", [RmOfCore("a", False, 7, 9_000), RmOfCore("b", False, 8, 2_500)])
    dead = Core("dead", error="nobody listens")
    assert behind_s([one, two, dead]) == {("two", "b"): 2.5}
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(table([one, two, dead]))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert lines[1:] == [
        ["one", "a,", "b", "c"],
        ["two", "-", "a,", "b", "(2", "s", "behind)"],
        ["dead", "does", "not", "answer"],
    ]


def test_how_long_and_where_in_words() -> None:
    turns = [Turn("root.a", 2, 3), Turn("root.a.b", 1, 1), Turn("root.a.b.c", 11, 12)]
    ask = Ask("app", "k", queue="root.a.b.c", since_ms=1_000, position=Position(1_500, 12_000, turns))
    assert waiting_time(ask, 61_000) == "pending for 1 min"
    assert (
        position_of(ask) == "1,500 of 12k are ahead of it in root.a.b.c; root.a is 2nd of 3; root.a.b.c is 11th of 12"
    )
    ask.constraints = [Constraint("queue", since_ms=31_000)]
    assert waiting_time(ask, 7_261_000) == "pending for 2 h, for this reason for 2 h"
    ask.constraints, ask.position = [], None
    assert waiting_time(ask, 500) == "pending for 0 s"
    assert position_of(ask) == "position unknown"
