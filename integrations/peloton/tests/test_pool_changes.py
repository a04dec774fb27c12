"""Pools from operators and from a watched file, on a real bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from integrations.peloton.tests.test_server import bus_in, create_pool, server, set_capacity, url
from remuda_bus.nats import connect
from remuda_operations.queries import peloton
from remuda_operations.queries.errors import RequestRefused
from remuda_peloton import limits

__all__ = ["url"]

TREE = """
pools:
  - name: a
    cpu: {reservation: 2, limit: 10}
    pools: [{name: b, cpu: {limit: 4}}]
"""


def change(url: str, **request: Any) -> list[str]:
    """Raises RequestRefused."""
    return list(asyncio.run(_asked(url, request))["changes"])


async def _asked(url: str, request: Mapping[str, Any]) -> dict[str, Any]:
    bus = await connect(url, "operator", timeout_s=5)
    try:
        return await peloton.change_pools(bus, "default", request)
    finally:
        await bus.close()


def pools_become(url: str, paths: set[str]) -> dict[str, Any]:
    """The pools by path, when there are these and root."""
    return asyncio.run(_pools_become(url, {"/", *paths}))


async def _pools_become(url: str, paths: set[str]) -> dict[str, Any]:
    bus = await connect(url, "operator", timeout_s=5)
    try:
        async with asyncio.timeout(10):
            while True:
                found = {one["path"]: one for one in await peloton.pools(bus, "default")}
                if found.keys() == paths:
                    return found
                await asyncio.sleep(0.01)
    finally:
        await bus.close()


def write(file: Path, text: str) -> None:
    """At once: a reader sees the former text or this one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with bus_in(tmp_path_factory.mktemp("bus")) as url, server(url) as call:
        set_capacity(call, 10.0)
        yield url


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"path": "/a", "set": {"cpu.limit": "x"}}, "cpu.limit is 'x', expected a number"),
        (
            {"path": "/a", "set": {"cpu.size": "1"}},
            "there is no key 'cpu.size', expected one of cpu, gpu, memory, disk",
        ),
        ({"path": "/a", "set": {"cpu.limit": "11"}}, "^cpu.limit is 11.0, expected at most 10.0"),
        ({"path": "/a", "set": {"cpu.share": "-1"}}, "^cpu.share is -1.0, expected a number that is not negative"),
        ({"path": "/a", "set": {"controller_limit": "101"}}, "^controller_limit is 101.0, expected at most 100"),
        ({"path": "/a", "set": {"slack_limit": "1e30"}}, r"^slack_limit is 1e\+30, expected a number up to"),
        (
            {"path": "/a", "set": {"cpu.limit": "10", "cpu.reservation": "11"}},
            "^cpu.reservation is 11.0, expected at most the limit 10.0",
        ),
        ({"path": "/x/y", "set": {"cpu.limit": "1"}}, "there is no pool '/x'"),
        ({"path": "a", "set": {"cpu.limit": "1"}}, "path is 'a', expected one such as /a/b"),
        ({"path": "/", "set": {"cpu.limit": "1"}}, "path is '/', expected one such as /a/b"),
        ({"path": "/x", "delete": True}, "there is no pool '/x'"),
        ({"path": "/a", "set": {"cpu.limit": 1}}, "set is .*, expected keys with values"),
        ({"text": "pools: 7"}, "line 1: pools is '7', expected a list"),
        ({}, "path is None, expected that of a pool"),
    ],
)
def test_wrong_change_is_refused(serving: str, request_: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestRefused, match=problem):
        change(serving, **request_)
    pools_become(serving, set())


def test_pools_follow_a_file(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POOLS_FILE_S", 0.01)
    monkeypatch.setattr(limits, "POOLS_RETRY_S", 0.05)
    file = tmp_path / "pools.yaml"
    file.write_text(TREE)
    with server(url, pools_file=file) as call:
        pools_become(url, {"/a", "/a/b"})
        with pytest.raises(RequestRefused, match="change them there"):
            change(url, path="/a/c", set={"cpu.limit": "3"})
        create_pool(call)  # of a client: the file lacks it
        pools_become(url, {"/a", "/a/b"})
        with capture_logs() as logged:
            write(file, "pools: [{name: c, cpu: {limit: x}}]")
            until(lambda: [one for one in logged if one["event"].startswith("pools file not applied")])
        said = {one["error"] for one in logged if one["event"].startswith("pools file not applied")}
        assert said == {"line 1: cpu.limit is 'x', expected a number"}
        pools_become(url, {"/a", "/a/b"})
        write(file, "pools: [{name: c, cpu: {limit: 7}}]")
        assert pools_become(url, {"/c"})["/c"]["resources"]["cpu"]["limit"] == 7.0
