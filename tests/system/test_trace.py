"""One ask is one trace, through all processes; disabled traces cost nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remuda.local.system import Layout, System
from remuda_bus import tracing
from tests.patience import READY_S

from .otlp import Receiver, Span

RM = Path(__file__).with_name("rm_of_one_ask.py")
WITHIN_S = 30.0

# Span, the process it is made in, the span it hangs on.
CHAIN = [
    ("rm.publish", "remuda-rm", ""),
    ("rmproxy.forward", "remuda-rmproxy", "rm.publish"),
    ("core.decide", "remuda-core", "rmproxy.forward"),
    ("core.commit", "remuda-core", "core.decide"),
    ("rmproxy.callback", "remuda-rmproxy", "core.commit"),
    ("rm.callback", "remuda-rm", "rmproxy.callback"),
    ("events.publish", "remuda-events", "core.commit"),
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


async def test_an_ask_is_one_trace_from_the_rm_to_its_callback(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(tracing.ENDPOINT, receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # ms; by default a span waits 5 s for company
    async with System(Layout(tmp_path)) as system:
        await system.ready(READY_S)
        node, _ = await one_ask(system.url)
        assert node == "n1"
        spans = await asyncio.to_thread(receiver.wait_until, complete, WITHIN_S)
        assert all(process.restarts == 0 for process in system.processes)

    trace = of_the_ask(spans)
    by_name = {span.name: span for span in trace}
    found = {(span.name, span.service, span.parent) for span in trace}
    expected = [(name, service, by_name[above].id if above else "") for name, service, above in CHAIN]
    assert found == set(expected)
    # A commit may have several callbacks, and everything else is done once.
    assert len([span for span in trace if span.name != "rm.callback"]) == len(CHAIN) - 1
    assert len({span.id for span in trace}) == len(trace)
    for name, _, above in CHAIN:
        if above:
            assert by_name[above].started_ns <= by_name[name].started_ns, f"{name} began before {above}"


def of_the_ask(spans: list[Span]) -> list[Span]:
    """The trace that begins with the last thing the RM published."""
    roots = [span for span in spans if span.name == "rm.publish"]
    newest = max(roots, key=lambda span: span.started_ns, default=None)
    return [span for span in spans if newest is not None and span.trace == newest.trace]


def complete(spans: list[Span]) -> bool:
    return {name for name, _, _ in CHAIN} <= {span.name for span in of_the_ask(spans)}


async def test_without_an_endpoint_opentelemetry_is_not_even_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)
    assert await importers_of("opentelemetry", tmp_path, monkeypatch) == set()


async def test_with_an_endpoint_it_is(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Or the test before would show nothing."""
    monkeypatch.setenv(tracing.ENDPOINT, receiver.url)
    assert await importers_of("opentelemetry", tmp_path, monkeypatch) == {"rmproxy", "core", "config", "events", "rm"}


async def importers_of(package: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Which of the processes have imported it once an ask has gone through all of them."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every import is a line on stderr, and in the process's log
    async with System(Layout(data)) as system:
        await system.ready(READY_S)
        _, errors = await one_ask(system.url)
        services = [process for process in system.processes if process.name != "nats-server"]
    imports = {"rm": imported(errors)} | {process.name: imported(process.log.read_text()) for process in services}
    assert all("remuda_bus.tracing" in names for names in imports.values()), "imports are not logged"
    return {process for process, names in imports.items() if package in names}


def imported(log: str) -> set[str]:
    lines = [line for line in log.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


async def one_ask(url: str) -> tuple[str, str]:
    """Run the RM to its end. The node of its allocation, and what it wrote to stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, RM, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            output, errors = await process.communicate()
    except BaseException:
        process.kill()
        raise
    assert process.returncode == 0, errors.decode()[-4_000:]
    return output.decode().strip(), errors.decode()
