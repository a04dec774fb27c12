"""Metrics of an event process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

RECORDS = counter("remuda_events_records", "Event records that were written.", ("rm",))
LAG_SECONDS = gauge("remuda_events_lag_seconds", "Age of the commit whose events were written last.", ("rm",))
