"""Metrics of a gRPC front end (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge

SESSIONS = gauge("remuda_grpc_sessions", "Resource managers that are connected to this front end.")
RPCS = counter("remuda_grpc_failed_rpcs", "RPCs that this front end has ended with an error.", ("code",))
STORED = counter("remuda_grpc_requests", "Requests on streams that are durable.", ("kind",))
