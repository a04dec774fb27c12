"""Metrics: their names, and every query of the alerts and of the dashboards, evaluated by a real Prometheus that
scrapes a system in which a leader was replaced, an allocation preempted and an ask rejected."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remuda.embedded import NatsServer, free_port
from remuda_bus import tracing
from remuda_bus.bus import Bus
from remuda_bus.metrics import LOOP_LAG, ROUND_TRIP_SECONDS
from remuda_bus.nats import NatsBus
from remuda_core import limits as core_limits
from remuda_core.shell import metrics as core_metrics
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_events import shell as events_shell
from remuda_events.metrics import LEDGER_HOURS
from remuda_operations.queries.core import queues
from remuda_peloton.shell.main import main as resmgr_main
from remuda_peloton.shell.settings import ResmgrSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import Settings
from remuda_replication.process.health_pages import served
from remuda_sdk import ResourceManager, application, ask, node, together
from tests.system.running import TWO_QUEUES, around_the_core, placed, running, until

RACKS = TWO_QUEUES.replace(
    "    queues:\n", "    devices: {gpu: 1}\n    topology: [{level: rack, attribute: si/rackname}]\n    queues:\n", 1
).replace("{name: a}", "{name: a, budget: {amounts: {vcore: 1000h}}}")

DEPLOY = Path(__file__).parents[2] / "deploy"
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
    for board in dashboards():
        for panel in board["panels"]:
            yield from (target["expr"].replace("$rm", ".*") for target in panel["targets"])


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((DEPLOY / "grafana/dashboards").glob("*.json"))]


@asynccontextmanager
async def prometheus(directory: Path, scraped: int) -> AsyncIterator[int]:
    """A server with the shipped configuration, which scrapes this port instead."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(DEPLOY / "prometheus/alerts.yml")]
    for job in config["scrape_configs"]:
        del job["file_sd_configs"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{scraped}"]}]
    file, port = directory / "prometheus.yml", free_port("127.0.0.1")
    file.write_text(yaml.safe_dump(config))
    program = shutil.which("prometheus") or ""
    process = await asyncio.create_subprocess_exec(
        program, f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage",
        stderr=(directory / "prometheus.log").open("wb"),
    )  # fmt: skip
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


async def values(port: int, query: str) -> list[float]:
    """The values of a query; []: no data, or the server does not answer yet."""
    answer = await asked(port, "query", query=query)
    return [] if answer is None else [float(one["value"][1]) for one in answer["data"]["result"]]


async def asked(port: int, path: str, **parameters: str) -> Any:
    """The answer of Prometheus's API; None: it does not answer yet."""
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"

    def get() -> Any:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)

    try:
        return await asyncio.to_thread(get)
    except OSError:
        return None


async def events_service(bus: Bus, settings: Settings) -> None:
    """Without its niceness, which would stay with the test's process."""
    await events_shell.serve(bus, settings.instance)


async def resmgr_service(bus: Bus, settings: ResmgrSettings) -> None:
    await resmgr_main(bus, settings.model_copy(update={"port": 0}))


async def work(rm: ResourceManager) -> None:
    """Allocations, a preemption, requests that are refused and rejected, and one that waits."""
    await rm.report_nodes([node("n1", attributes={"si/rackname": "r1"}, vcore=8, gpu=2)])
    for name in ("a", "b"):
        await rm.submit(application(f"app-{name}", queue=f"root.{name}", user="ann"))
    await rm.ask([ask("app-a", f"k{number}", vcore=1) for number in range(8)])
    await placed(rm, *(f"k{number}" for number in range(8)))
    refused = ask("nobody", "no-application", vcore=1)
    refused.applicationID = ""  # the SDK builds none
    await rm.ask([refused, ask("nobody", "rejected", vcore=1)])
    await rm.ask(
        [ask("app-a", "waits", vcore=100), ask("app-a", "racked", count=3, vcore=8, tags=together(required="rack"))]
    )
    await rm.ask([ask("app-b", "first", vcore=1, preemption=si.PreemptionPolicy(allowPreemptOther=True))])
    await placed(rm, "first")


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus here: install the package prometheus")
async def test_every_query_has_data(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traces: None
) -> None:
    monkeypatch.setattr(core_limits, "METRICS_S", 0.5)
    monkeypatch.setattr("remuda_events.stream_metrics.STREAM_METRICS_S", 0.5)
    scraped = free_port("127.0.0.1")

    async with (
        around_the_core(server.url) as bus,
        running(server.url, "core-1", core_main, CoreSettings) as first,
        running(server.url, "events", events_service),
        running(server.url, "resmgr", resmgr_service, ResmgrSettings),
        served(bus, scraped, host="127.0.0.1"),
        prometheus(tmp_path, scraped) as port,
        ResourceManager.connect(server.url, "rm-1", config=RACKS) as rm,
        running(server.url, "core-2", core_main, CoreSettings),
    ):
        await work(rm)
        first.cancel()
        await rm.report_nodes([node("n2", vcore=8)])
        await rm.ask([ask("app-b", "after", vcore=1)])
        await placed(rm, "after")
        await queues(bus, "rm-1")
        # What `process.run` measures.
        LOOP_LAG.observe(0.0)
        ROUND_TRIP_SECONDS.set(await bus.round_trip_s() or 0.0)
        # These take longer: promises, forecasts that have come true, an hour of the ledger.
        for counted in (core_metrics.REPLICATION.promises_broken, core_metrics.BACKFILLED, LEDGER_HOURS):
            counted.labels("rm-1").inc()
        for measured in (core_metrics.ETA_COVERAGE, core_metrics.ETA_ERROR):
            measured.labels("rm-1").set(1)

        async def answers() -> bool:
            return bool(await values(port, 'remuda_core_facts_total{fact="PreemptionStarted"} >= 1'))

        await until(answers, within_s=30)
        assert await values(port, "sum(remuda_core_leaderships_total) >= 2")
        assert await values(port, 'remuda_core_facts_total{fact="AskRejected"} >= 1')
        without = set(queries())

        async def all_have_data() -> bool:
            without.difference_update([query for query in sorted(without) if await values(port, query)])
            return not without

        try:
            await until(all_have_data, within_s=20)
        except TimeoutError:
            pytest.fail(f"no data: {sorted(without)}")
        query = "remuda_rmproxy_publish_to_callback_seconds_bucket"
        found = await asked(port, "query_exemplars", query=query, start="0", end=str(time.time() + 60))
        exemplars = [one["labels"]["trace_id"] for series in found["data"] for one in series["exemplars"]]
        assert exemplars and all(re.fullmatch("[0-9a-f]{32}", trace) for trace in exemplars)


@pytest.fixture
def traces() -> Iterator[None]:
    tracing.setup_for_test(InMemorySpanExporter(), "test")
    yield
    tracing.shutdown()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here: install the package prometheus")
@pytest.mark.parametrize("name", ["prometheus.yml", "kubernetes.yml"])
def test_prometheus_takes_its_configuration(name: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "config", DEPLOY / "prometheus" / name], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_page_is_that_of_the_format_that_is_accepted(bus: NatsBus) -> None:
    port = free_port("127.0.0.1")
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
