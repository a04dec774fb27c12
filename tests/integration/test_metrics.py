"""Metrics: their names, and every query of the alerts and of the dashboard, evaluated by a real Prometheus that scrapes
a running system."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.metrics import ROOMS, declared, name_of
from remuda.embedded import NatsServer
from remuda_bus.bus import Bus
from remuda_bus.metrics import LOOP_LAG
from remuda_bus.nats import NatsBus
from remuda_bus.process import Settings
from remuda_bus.process.health_pages import served
from remuda_core import limits as core_limits
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events import shell as events_shell
from remuda_resmgr.shell.main import main as resmgr_main
from remuda_resmgr.shell.settings import ResmgrSettings
from remuda_sdk import ResourceManager, application, ask, node
from tests.integration.running import QUEUES, around_the_core, running, until

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
# A comparison with a threshold: while all is well, only its left side has values.
THRESHOLD = re.compile(r"(==|[<>]=?) [\d.]+")


def alerts() -> list[dict[str, Any]]:
    return [
        rule
        for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]


def queries() -> Iterator[str]:
    """Every query of alerts and dashboards, without thresholds."""
    for rule in alerts():
        yield from (part for term in rule["expr"].split(" and ") if (part := THRESHOLD.sub("", term).strip()))
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            yield from (target["expr"] for target in panel["targets"])


def test_names_are_those_of_prometheus() -> None:
    names = [name_of(metric) for room in ROOMS for metric in declared(room)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"remuda_[a-z_]+", name) for name in names)


def test_every_alert_has_a_section() -> None:
    sections = re.findall(r"^### (\w+)$", DOCUMENT.read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in alerts()]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@asynccontextmanager
async def prometheus(directory: Path, scraped: int) -> AsyncIterator[int]:
    """A server with the shipped configuration, which scrapes this port instead."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DEPLOY / "prometheus/alerts.yml")]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [f"127.0.0.1:{scraped}"]}]
    file, port = directory / "prometheus.yml", free_port()
    file.write_text(yaml.safe_dump(config))
    program = shutil.which("prometheus") or ""
    process = await asyncio.create_subprocess_exec(
        program, f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", stderr=(directory / "prometheus.log").open("wb"),
    )  # fmt: skip
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


async def values(port: int, query: str) -> list[float]:
    """The values of a query; []: no data, or the server does not answer yet."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"

    def get() -> Any:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)

    try:
        answer = await asyncio.to_thread(get)
    except OSError:
        return []
    return [float(one["value"][1]) for one in answer["data"]["result"]]


async def events_service(bus: Bus, settings: Settings) -> None:
    """Without its niceness, which would stay with the test's process."""
    await events_shell.serve(bus, settings.instance)


async def resmgr_service(bus: Bus, settings: ResmgrSettings) -> None:
    await resmgr_main(bus, settings.model_copy(update={"port": 0}))


async def work(url: str) -> None:
    """Allocations, a request that is refused, and two lives of a registration."""
    async with ResourceManager.connect(url, "rm-1", config=QUEUES) as rm:
        await rm.report_nodes([node("n1", vcore=8)])
        await rm.submit(application("app-1", queue="root.a", user="ann"))
        await rm.ask([ask("app-1", f"k{number}", vcore=1) for number in range(4)])
        await rm.ask([ask("", "no-application", vcore=1), ask("app-1", "waits", vcore=100)])
        found = 0
        async for callback in rm.callbacks():
            found += len(getattr(callback, "new", ()))
            if found == 4:
                return


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus here: install the package prometheus")
async def test_every_query_has_data(server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_limits, "METRICS_S", 0.5)
    scraped = free_port()

    async with (
        around_the_core(server.url) as bus,
        running(server.url, "core", core_main, CoreSettings),
        running(server.url, "events", events_service),
        running(server.url, "resmgr", resmgr_service, ResmgrSettings),
        served(bus, scraped, host="127.0.0.1"),
        prometheus(tmp_path, scraped) as port,
    ):
        await work(server.url)
        LOOP_LAG.observe(0.0)  # `process.run` measures it

        async def answers() -> bool:
            return bool(await values(port, 'remuda_core_facts_total{fact="Allocated"} >= 4'))

        await until(answers, within_s=30)
        for query in queries():

            async def has_data(query: str = query) -> bool:
                return bool(await values(port, query))

            try:
                await until(has_data, within_s=10)
            except TimeoutError:
                pytest.fail(f"no data: {query}")


async def test_page_is_that_of_the_format_that_is_accepted(bus: NatsBus) -> None:
    port = free_port()
    async with served(bus, port, host="127.0.0.1"):
        plain = await get_page(port, "text/plain")
        assert "text/plain; version=" in plain and "\nremuda_event_loop_lag_seconds_count " in plain
        openmetrics = await get_page(port, "application/openmetrics-text; version=1.0.0")
        assert "application/openmetrics-text" in openmetrics and openmetrics.endswith("# EOF\n")


async def get_page(port: int, accept: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\n\r\n".encode())
    page = (await reader.read()).decode()
    writer.close()
    return page
