"""Metrics of a core process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter
from remuda_bus.replication.metrics import ReplicationMetrics

REPLICATION = ReplicationMetrics("core", "Resource manager")
QUERIES = counter("remuda_core_queries", "Queries that this core has answered.", ("kind",))
