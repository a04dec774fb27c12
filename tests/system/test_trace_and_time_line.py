"""One trace from what an RM sends to its callback, over five processes, and the time line of the web page beside it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from remuda.client.connections import bus_at
from remuda.local.system import Layout, System
from remuda_bus import tracing
from tests.patience import READY_S
from tests.system.grpc_client import port_of
from tests.system.otlp import Receiver, Span

ROOT = Path(__file__).parents[2]
RM = Path(__file__).with_name("grpc_rm_of_two_asks.py")
WITHIN_S = 30.0
# Span, the process it is made in, the span it hangs on.
CHAIN = {
    "rm.allocation": ("remuda-rm", ""),
    "grpc.forward": ("remuda-grpc", "rm.allocation"),
    "rmproxy.forward": ("remuda-rmproxy", "grpc.forward"),
    "core.decide": ("remuda-core", "rmproxy.forward"),
    "core.commit": ("remuda-core", "core.decide"),
    "rmproxy.callback": ("remuda-rmproxy", "core.commit"),
    "grpc.callback": ("remuda-grpc", "rmproxy.callback"),
    "events.publish": ("remuda-events", "core.commit"),
}
ANSWER = "remuda-rmproxy", "core.decide"
ROUNDING_MS = 5  # of a clock that is read once in a commit and goes on without steps


def is_complete(spans: list[Span]) -> bool:
    trace = of_the_asks(spans)
    return CHAIN.keys() <= {one.name for one in trace} and any("waits" in one.attributes for one in trace)


def of_the_asks(spans: list[Span]) -> list[Span]:
    roots = {span.trace for span in spans if span.name == "rm.allocation"}
    return [span for span in spans if span.trace in roots]


async def test_a_trace_and_the_time_line_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv(tracing.ENDPOINT, receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # ms; by default a span waits 5 s for company
        async with System(Layout(tmp_path, grpc_port=0, web_port=0)) as system:
            await system.ready(READY_S)
            await run_rm(system.url)
            spans = await asyncio.to_thread(receiver.wait_until, is_complete, WITHIN_S)
            async with httpx.AsyncClient(base_url=system.web_page, timeout=READY_S) as web:
                found = await web.get("/api/v1/rms/rm-trace/story", params={"id": "app-1"})
                assert found.status_code == 200, found.text
                lines = found.json()["lines"]
    trace = of_the_asks(spans)
    check_trace(trace)
    check_time_line(lines, trace)


async def run_rm(url: str) -> None:
    async with bus_at(url) as bus:
        port = await port_of(bus)
    process = await asyncio.create_subprocess_exec(
        sys.executable, RM, str(port), stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            _, errors = await process.communicate()
    except BaseException:
        process.kill()
        raise
    assert process.returncode == 0, errors.decode()[-4_000:]


def check_trace(trace: list[Span]) -> None:
    """All spans of all five processes hang together, and none begins before what has caused it."""
    by_id = {span.id: span for span in trace}
    found = {span.name: (span.service, by_id[span.parent].name if span.parent else "") for span in trace}
    # Where a later commit says why an ask waits, the trace has a span of its callback.
    assert found.pop("rmproxy.answer", ANSWER) == ANSWER
    assert found == CHAIN
    assert len({span.service for span in trace}) == 5
    for span in trace:
        if (cause := by_id.get(span.parent)) is not None:
            assert cause.started_ns <= span.started_ns, f"{span.name} began before {cause.name}"


def check_time_line(lines: list[dict[str, Any]], trace: list[Span]) -> None:
    """The asks were accepted and allocated in the commit of the trace, when the core decided. Another one waits since
    the commit, and for the reason, that the trace shows."""
    spans = {one.name: one for one in trace}
    decide, callback = spans["core.decide"], spans["rmproxy.callback"]
    traced = [line for line in lines if line["trace_id"] == decide.trace]
    assert {"AskAccepted", "Allocated"} <= {line["kind"] for line in traced}
    for line in traced:
        assert str(line["log_seq"]) == callback.attributes["log_seq"]
        began_ms, ended_ms = (ns / 1e6 for ns in (spans["rmproxy.forward"].started_ns, decide.ended_ns))
        assert began_ms - ROUNDING_MS <= line["at_ms"] <= ended_ms + ROUNDING_MS, line
    [waits] = [line for line in lines if line["kind"] == "AskWaiting"]
    [told] = [span for span in trace if "waits" in span.attributes]
    assert str(waits["log_seq"]) == told.attributes["log_seq"]
    assert told.attributes["waits"] and waits["text"].endswith(told.attributes["waits"])
    assert decide.started_ns / 1e6 - ROUNDING_MS <= waits["at_ms"] <= told.started_ns / 1e6 + ROUNDING_MS
