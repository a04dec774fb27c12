"""A receiver of OTLP over HTTP, as small as it can be: keeps the spans that are sent to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


@dataclass(frozen=True, slots=True)
class Span:
    service: str
    name: str
    trace: str
    id: str
    parent: str  # empty: the root of its trace
    started_ns: int
    ended_ns: int
    attributes: dict[str, str]


class Receiver:
    """`with Receiver() as receiver`: OTEL_EXPORTER_OTLP_ENDPOINT is `receiver.url`. `host`: where it can be reached."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._spans: list[Span] = []
        self._more = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                known = self.path == "/v1/traces"
                if known:
                    receiver.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._server.server_port}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, request: ExportTraceServiceRequest) -> None:
        with self._more:
            for resource in request.resource_spans:
                attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self._spans.append(
                            Span(
                                attributes.get("service.name", ""),
                                span.name,
                                span.trace_id.hex(),
                                span.span_id.hex(),
                                span.parent_span_id.hex(),
                                span.start_time_unix_nano,
                                span.end_time_unix_nano,
                                {one.key: _text(one.value) for one in span.attributes},
                            )
                        )
            self._more.notify_all()

    def spans(self) -> list[Span]:
        with self._more:
            return list(self._spans)

    def wait_until(self, enough: Callable[[list[Span]], bool], within_s: float) -> list[Span]:
        """All spans so far, once they are enough; AssertionError that lists them otherwise."""
        with self._more:
            if not self._more.wait_for(lambda: enough(self._spans), within_s):
                listed = "\n".join(f"{span.trace[:8]} {span.service} {span.name}" for span in self._spans)
                raise AssertionError(f"not enough spans within {within_s} s:\n{listed or 'none at all'}")
            return list(self._spans)


def _text(value: AnyValue) -> str:
    """The value of an attribute, whatever its type."""
    return str(getattr(value, value.WhichOneof("value") or "string_value"))
