"""Metrics of an event process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

RECORDS = counter("remuda_events_records", "Event records that were written.", ("rm",))
LEDGER_HOURS = counter("remuda_ledger_hours", "Hours of the ledger that were closed.", ("rm",))
_STREAM = ("stream",)
STREAM_MESSAGES = gauge("remuda_nats_stream_messages", "Messages of the stream.", _STREAM)
STREAM_BYTES = gauge("remuda_nats_stream_bytes", "Bytes of the stream.", _STREAM)
STREAM_MAX_BYTES = gauge("remuda_nats_stream_max_bytes", "Bytes that the stream may have.", _STREAM)
STREAM_LAST_SEQ = gauge("remuda_nats_stream_last_seq", "Sequence of the message that was appended last.", _STREAM)
STREAM_CONSUMERS = gauge("remuda_nats_stream_consumers", "Consumers of the stream.", _STREAM)
STREAM_LEADERLESS = gauge("remuda_nats_stream_leaderless", "1: no server leads the stream. 0: one does.", _STREAM)
STREAM_BEHIND = gauge("remuda_nats_stream_replicas_behind", "Replicas that are not up to date, or away.", _STREAM)
STREAM_LAG = gauge("remuda_nats_stream_replica_lag", "Messages that the last of the replicas lacks.", _STREAM)
LAG_SECONDS = gauge("remuda_events_lag_seconds", "Age of the commit whose events were written last.", ("rm",))
