"""Metrics of this process, for the page `/metrics` (`remuda_replication.process.health_pages`).

Each room declares its metrics in a `metrics.py` of its own, and updates them where a decision is durable or a message
is out: metrics are derived from facts, and scheduling rules contain none. Names and labels are a part of the interface
(docs/metrics.md).
"""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from remuda_bus import limits, subjects
from remuda_bus.bus import Headers

__all__ = ["OTHERS", "REGISTRY", "counter", "exemplar_of", "gauge", "histogram", "info", "page", "rm_label"]

REGISTRY = CollectorRegistry()
OTHERS = "others"
_SAMPLED = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f][13579bdf]")  # W3C Trace Context

_labelled_rms: set[str] = set()


def counter(name: str, description: str, labels: tuple[str, ...] = ()) -> Counter:
    """A number that only grows. Its name is shown with `_total` at the end."""
    return Counter(name, description, labels, registry=REGISTRY)


def gauge(name: str, description: str, labels: tuple[str, ...] = ()) -> Gauge:
    """A number that grows and shrinks."""
    return Gauge(name, description, labels, registry=REGISTRY)


def histogram(
    name: str, description: str, buckets: tuple[float, ...] = limits.METRIC_SECONDS, labels: tuple[str, ...] = ()
) -> Histogram:
    """A distribution; by default of seconds."""
    return Histogram(name, description, labels, buckets=buckets, registry=REGISTRY)


def info(name: str, description: str) -> Info:
    """Texts that describe the process."""
    return Info(name, description, registry=REGISTRY)


def rm_label(rm_id: str) -> str:
    """The value of the label `rm`. There are at most METRIC_RMS values and OTHERS, however many RMs come and go."""
    if rm_id in _labelled_rms:
        return rm_id
    if len(_labelled_rms) >= limits.METRIC_RMS:
        return OTHERS
    _labelled_rms.add(rm_id)
    return rm_id


def listener_label(subject: str) -> str:
    """The value of the label `kind` for what a listener listens to: the last part of the subject, without RMs."""
    kind = subject.rpartition(".")[2]
    LISTENER_ERRORS.labels(kind)  # 0 until there is one
    return kind


def exemplar_of(headers: Headers) -> dict[str, str] | None:
    """The exemplar that names the trace of a message; None: it is not traced, or its spans are not exported."""
    found = _SAMPLED.fullmatch(headers.get(subjects.TRACEPARENT, ""))
    return {"trace_id": found[1]} if found else None


def page(accept: str) -> tuple[str, bytes]:
    """The content type and the content of the page: OpenMetrics, which has exemplars, where `accept` (the header of the
    request) allows it, and the text format of Prometheus otherwise."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(REGISTRY)


ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)
PROCESS = info("remuda_process", "Service and instance of this process.")
LOOP_LAG = histogram("remuda_event_loop_lag_seconds", "Lateness of timers in the event loop.")
ROUND_TRIP_SECONDS = gauge(
    "remuda_nats_round_trip_seconds", "Round trip of the last ping to the NATS server; NaN: no answer."
)
NATS_RECONNECTS = counter("remuda_nats_reconnects", "Reconnections to the NATS servers.")
LISTENER_ERRORS = counter("remuda_listener_errors", "Messages that this process has failed to handle.", ("kind",))
CHANGED_STREAMS = gauge("remuda_changed_streams", "Streams whose settings may lose messages.")
VOID_MESSAGES = counter("remuda_void_messages", "Void messages in logs, of leaders that were too late.", ("rm",))
