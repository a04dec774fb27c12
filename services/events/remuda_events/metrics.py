"""Metrics of an event process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

RECORDS = counter("remuda_events_records", "Event records written.", ("rm",))
LEDGER_HOURS = counter("remuda_ledger_hours", "Closed hours of the ledger.", ("rm",))
_STREAM = ("stream",)
STREAM_MESSAGES = gauge("remuda_nats_stream_messages", "Messages of the stream.", _STREAM)
STREAM_BYTES = gauge("remuda_nats_stream_bytes", "Bytes of the stream.", _STREAM)
STREAM_MAX_BYTES = gauge("remuda_nats_stream_max_bytes", "Most bytes of the stream.", _STREAM)
STREAM_LAST_SEQ = gauge("remuda_nats_stream_last_seq", "Sequence of the last message.", _STREAM)
STREAM_CONSUMERS = gauge("remuda_nats_stream_consumers", "Consumers of the stream.", _STREAM)
STREAM_LEADERLESS = gauge("remuda_nats_stream_leaderless", "1: no server leads the stream.", _STREAM)
STREAM_BEHIND = gauge("remuda_nats_stream_replicas_behind", "Replicas that are behind or away.", _STREAM)
STREAM_LAG = gauge("remuda_nats_stream_replica_lag", "Messages that the last replica lacks.", _STREAM)
LAG_SECONDS = gauge("remuda_events_lag_seconds", "Age of the last commit whose events are written.", ("rm",))
