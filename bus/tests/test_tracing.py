"""Spans have the right parents, and cost nothing while traces are off."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from remuda_bus import tracing
from remuda_bus.bus import Headers


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.setup_for_test(exporter, "test")
    yield exporter
    tracing.shutdown()


def test_a_trace_continues_over_headers(exporter: InMemorySpanExporter) -> None:
    assert tracing.enabled()
    with tracing.span("publish", rm="a") as publish:
        carried = publish.headers()
    with tracing.span("decide", carried) as decide, tracing.span("commit", decide.headers()["traceparent"]):
        decide.set(facts=3)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans["publish"].parent is None
    assert spans["decide"].parent is not None
    assert spans["decide"].parent.span_id == spans["publish"].context.span_id
    assert spans["commit"].parent is not None
    assert spans["commit"].parent.span_id == spans["decide"].context.span_id
    assert {span.context.trace_id for span in spans.values()} == {spans["publish"].context.trace_id}
    assert spans["publish"].attributes == {"rm": "a"}
    assert spans["decide"].attributes == {"facts": 3}
    assert spans["publish"].resource.attributes["service.name"] == "remuda-test"


def test_links(exporter: InMemorySpanExporter) -> None:
    with tracing.span("one") as one, tracing.span("two") as two:
        links: list[Headers | str] = [one.headers(), two.headers()["traceparent"], {}, "nonsense"]
    with tracing.span("batch", links=links):
        pass
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans["batch"].parent is None
    linked = [link.context.span_id for link in spans["batch"].links]
    assert linked == [spans["one"].context.span_id, spans["two"].context.span_id]


@pytest.mark.parametrize("parent", [None, {}, "", "00-zz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_malformed_parent_starts_a_new_trace(
    exporter: InMemorySpanExporter, parent: str | dict[str, str] | None
) -> None:
    with tracing.span("alone", parent):
        pass
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


def test_an_exception_is_recorded(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), tracing.span("fails"):
        raise KeyError("x")
    (span,) = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert span.events[0].name == "exception"


def test_spans_are_exported_to_the_configured_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(tracing.ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        tracing.setup("test", "test-1")
        with tracing.span("exported", rm="a"):
            pass
        tracing.shutdown()
        server.shutdown()
    ((path, body),) = received
    assert path == "/v1/traces"
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    assert b"exported" in body
    assert b"remuda-test" in body
    assert b"test-1" in body


def test_a_part_of_the_traces_is_exported() -> None:
    tracing.setup("test", endpoint="http://127.0.0.1:9", part=0.0)
    try:
        with tracing.span("x") as span:
            assert not int(span.headers()["traceparent"][-2:], 16) & 1, "those behind do not sample it either"
        sampled = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
        with tracing.span("x", sampled) as span:
            assert int(span.headers()["traceparent"][-2:], 16) & 1, "it was sampled where it began"
    finally:
        tracing.shutdown()


def test_off_it_does_nothing_and_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)
    tracing.setup("test")
    assert not tracing.enabled()
    with tracing.span("x") as span:
        span.set(a=1)
        assert span.headers() == {}

    def spans() -> None:
        with tracing.span("x", None, rm="a"):
            pass

    best_s = min(timeit.repeat(spans, timer=time.process_time, number=10_000, repeat=20)) / 10_000
    # 0.2 µs here; the bound leaves room for slower machines.
    assert best_s < 1e-6


def test_off_it_imports_nothing() -> None:
    code = (
        "import sys; from remuda_bus import tracing; from remuda_replication import process; tracing.setup('x');"
        "assert not [name for name in sys.modules if 'opentelemetry' in name]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": ""})
