"""Metrics of an archive process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

LAG_SECONDS = gauge("remuda_archive_lag_seconds", "Age of the oldest commit that is not archived.", ("rm",))
BYTES = counter("remuda_archive_bytes", "Bytes written into the archive.", ("rm",))
GAPS = counter("remuda_archive_gaps", "Times that the log was trimmed before it was archived.", ("rm",))
FAILING = gauge("remuda_archive_store_failing", "1: the last request to the store has failed.")
