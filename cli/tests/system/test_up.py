"""`remuda up` with real processes: it is ready when it reports so, restarts ended processes, and leaves none behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import httpx
import psutil
import pytest

from cli.tests.running import Lines, children, eventually, finished, gone, remuda, status, stopped
from remuda.local.system import Layout, System
from tests.patience import READY_S

pytestmark = pytest.mark.timeout(120)


async def test_it_comes_up_repairs_itself_and_stops_in_order(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    lines = Lines(process)
    try:
        core = int((await lines.until(r" core +started, process (\d+)"))[1])
        await lines.until(r" remuda +ready: nats-server, config, core, events, rmproxy, grpc, web")
        url = json.loads((tmp_path / "remuda.json").read_text())["nats"]
        await lines.until(r" remuda +web page http://127.0.0.1:\d+/")
        assert len([line for line in lines.seen if " nats-server " in line and " ready" in line]) == 1
        assert (tmp_path / ".gitignore").read_text() == "*\n", "the data is no part of a repository that it is in"
        everyone = children(process)
        assert len(psutil.Process(process.pid).children()) == 7  # the configuration service has a worker of its own

        code, text = await status(url, "--json")
        assert code == 0, text
        assert json.loads(text)["services"] == {"config": 1, "core": 1, "events": 1, "rmproxy": 1, "grpc": 1, "web": 1}
        (front_end,) = json.loads(text)["grpc"]
        assert (front_end["instance"], front_end["host"], front_end["rms"]) == ("grpc", "127.0.0.1", 0)
        with socket.create_connection((front_end["host"], front_end["port"]), 5):
            pass
        (web,) = json.loads(text)["web"]
        assert (web["instance"], web["scheme"]) == ("web", "http")
        with socket.create_connection((web["host"], web["port"]), 5):
            pass
        assert json.loads(text)["cores"] == [{"instance": "core", "rms": [], "error": ""}]

        os.kill(core, signal.SIGKILL)
        await lines.until(r" core +ended \(killed by SIGKILL\), restarting; restarts: 1")
        await lines.until(r" core +ready")

        server = next(child for child in everyone if child.name().startswith("nats"))
        server.kill()
        await lines.until(r" nats-server +ended \(gone\), restarting")
        await lines.until(r" nats-server +ready")
        everyone = children(process)

        code = await stopped(process)
        rest = (await process.stdout.read()).decode()  # type: ignore[union-attr]
    finally:
        if process.returncode is None:
            process.kill()
    assert code == 0, rest
    order = [rest.index(f"{name:<11} stopped") for name in ("rmproxy", "core", "config", "nats-server")]
    assert order == sorted(order)
    assert all(map(gone, everyone))
    assert (tmp_path / "logs" / "core.log").read_text()
    assert not (tmp_path / "remuda.json").exists()


async def test_nobody_survives_kill_9(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    await Lines(process).until(r" web +started")
    everyone = children(process)
    assert len(everyone) == 7
    process.kill()
    await process.wait()
    await eventually(lambda: all(map(gone, everyone)))


async def test_stopping_while_it_still_starts(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    await Lines(process).until(r" core +started")
    everyone: list[psutil.Process] = children(process)
    assert await stopped(process, signal.SIGTERM) == 0
    assert all(map(gone, everyone))


async def test_a_signal_that_comes_at_the_moment_it_is_ready_is_heard(tmp_path: Path) -> None:
    system = System(Layout(tmp_path))

    async def until_stopped() -> None:
        await system.ready(READY_S)
        await asyncio.Event().wait()

    work = asyncio.create_task(until_stopped())
    await asyncio.sleep(0)
    system._all_ready.set()
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work], timeout=1)
    assert work.cancelled()


async def test_a_second_one_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    process = await remuda("up", "--data", str(tmp_path), "--port", "0", "--plain")
    try:
        await Lines(process).until(r" remuda +nats")
        drain = asyncio.create_task(process.stdout.read())  # type: ignore[union-attr]
        code, text = await finished("up", "--data", str(tmp_path), "--port", "0", "--plain")
        assert code == 1
        assert "another nats-server uses this directory" in text
        assert "Traceback" not in text
    finally:
        assert await stopped(process) == 0
        await drain


async def test_a_demonstration_with_the_web_page_runs_until_a_signal() -> None:
    process = await remuda("demo", "--web", "--plain", "--seconds", "4")
    lines = Lines(process)
    try:
        page = (await lines.until(r" demo +web page (http://\S+); Ctrl-C stops"))[1]
        async with httpx.AsyncClient(base_url=page, timeout=READY_S) as client:
            assert "<title>remuda</title>" in (await client.get("/")).text
            await lines.until(r" demo +[\d,]+ placed")
            assert (await client.get("/api/v1/rms")).json() == {"rms": ["lab", "yard"]}
        code = await stopped(process)
        rest = (await process.stdout.read()).decode()  # type: ignore[union-attr]
    finally:
        if process.returncode is None:
            process.kill()
    assert code == 0 and "remuda demo: stopped." in rest.splitlines()
