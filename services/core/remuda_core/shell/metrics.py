"""Metrics of a core process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge
from remuda_bus.replication.metrics import ReplicationMetrics

REPLICATION = ReplicationMetrics("core", "Resource manager")
QUERIES = counter("remuda_core_queries", "Queries that this core has answered.", ("kind",))
AUDITS = counter("remuda_core_audits", "Audits of followed states, in which all invariants were checked.", ("rm",))
AUDITS_GIVEN_UP = counter("remuda_core_audits_given_up", "Audits that took too long or too much memory.", ("rm",))
VIOLATIONS = counter("remuda_core_violations", "Audits that have found a violated invariant.", ("rm",))
VIOLATED_LOG_SEQ = gauge(
    "remuda_core_violated_log_seq", "The commit of the state in which an invariant was last found violated.", ("rm",)
)
