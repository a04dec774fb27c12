"""Metrics of a core process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus.metrics import counter, gauge, histogram
from remuda_bus.replication.metrics import ReplicationMetrics

REPLICATION = ReplicationMetrics("core")
PASS_SECONDS = histogram("remuda_core_pass_seconds", "Time of a scheduling pass, with its pauses for other work.")
QUERIES = counter("remuda_core_queries", "Queries that this core has answered.", ("kind",))
AUDITS = counter("remuda_core_audits", "Audits of followed states, in which all invariants were checked.", ("rm",))
AUDITS_GIVEN_UP = counter("remuda_core_audits_given_up", "Audits that took too long or too much memory.", ("rm",))
VIOLATIONS = counter("remuda_core_violations", "Audits that have found a violated invariant.", ("rm",))
VIOLATED_LOG_SEQ = gauge(
    "remuda_core_violated_log_seq", "The commit of the state in which an invariant was last found violated.", ("rm",)
)
QUEUE_RESOURCE = gauge(
    "remuda_core_queue_resource",
    "Resources of a queue, in base units: allocated, pending, preempting, guaranteed, max.",
    ("rm", "partition", "queue", "resource", "state"),
)
QUEUE_SHARE = gauge(
    "remuda_core_queue_share",
    "The share by which fair orders compare a queue: the highest part of what is due to it that is allocated.",
    ("rm", "partition", "queue"),
)
PENDING = gauge("remuda_core_pending", "Pending allocations, by the first reason that was reported.", ("rm", "reason"))
NODES = gauge("remuda_core_nodes", "Nodes: ready, reserved, draining, not_ready.", ("rm", "state"))
APPLICATIONS = gauge("remuda_core_applications", "Applications by state.", ("rm", "state"))
ALLOCATIONS = gauge("remuda_core_allocations", "Allocations there are.", ("rm",))
