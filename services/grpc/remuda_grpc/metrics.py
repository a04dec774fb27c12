"""Metrics of a gRPC front end (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

SESSIONS = gauge("remuda_grpc_sessions", "Connected resource managers.")
RPCS = counter("remuda_grpc_failed_rpcs", "RPCs that ended with an error.", ("code",))
STORED = counter("remuda_grpc_requests", "Durable requests on streams.", ("kind",))
