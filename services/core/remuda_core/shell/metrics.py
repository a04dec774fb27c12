"""Metrics of a core process (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remuda_bus.metrics import OTHERS, counter, gauge, histogram, rm_label
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.metrics import ReplicationMetrics

from .. import limits
from ..decide.names import plain
from ..facts import PromiseChanged, QuotaPreempted


class CoreMetrics(ReplicationMetrics):
    """Counts what durable commits say of queues, too."""

    def __init__(self) -> None:
        super().__init__("core")
        self.quota_victims = counter(
            "remuda_core_quota_victims",
            "Allocations whose release was requested by quota preemption.",
            ("rm", "partition", "queue"),
        )
        self.promises_broken = counter(
            "remuda_promises_broken",
            "Promised starts that were delayed or given up.",
            ("rm",),
        )
        self._queues: dict[str, set[tuple[str, str]]] = {}  # label of an RM -> partitions and queues with series

    def count_commit(self, log_id: str, commit: log_pb2.Commit, facts: Mapping[type[Any], int], seconds: float) -> None:
        super().count_commit(log_id, commit, facts, seconds)
        if PromiseChanged in facts:
            changes = (one.promise_changed for each in commit.decisions for one in each.facts)
            later = (one.before_ms and not 0 < one.promised_ms <= one.before_ms for one in changes)
            self.promises_broken.labels(rm_label(log_id)).inc(sum(map(bool, later)))
        if QuotaPreempted not in facts:
            return
        for decision in commit.decisions:
            for fact in decision.facts:
                if fact.WhichOneof("fact") == "quota_preempted" and (victims := len(fact.quota_preempted.uuids)):
                    found = fact.quota_preempted
                    self.quota_victims.labels(*self._place(log_id, plain(found.partition), found.queue)).inc(victims)

    def _place(self, rm_id: str, partition: str, queue: str) -> tuple[str, str, str]:
        """The values of the labels. An RM with ever new queues uses up only what is its own."""
        rm = rm_label(rm_id)
        queues = self._queues.setdefault(rm, set())
        if (partition, queue) not in queues:
            if len(queues) >= limits.METRIC_QUOTA_QUEUES:
                return rm, OTHERS, OTHERS
            queues.add((partition, queue))
        return rm, partition, queue


REPLICATION = CoreMetrics()
PASS_SECONDS = histogram("remuda_core_pass_seconds", "Time of a scheduling pass, pauses included.")
QUERIES = counter("remuda_core_queries", "Queries answered.", ("kind",))
AUDITS = counter("remuda_core_audits", "Completed audits of followed states.", ("rm",))
AUDITS_GIVEN_UP = counter("remuda_core_audits_given_up", "Audits that took too long or too much memory.", ("rm",))
VIOLATIONS = counter("remuda_core_violations", "Audits that have found a violated invariant.", ("rm",))
VIOLATED_LOG_SEQ = gauge(
    "remuda_core_violated_log_seq", "Commit at which an invariant was last found violated.", ("rm",)
)
QUEUE_RESOURCE = gauge(
    "remuda_core_queue_resource",
    "Resources of a queue, in base units: allocated, pending, preempting, guaranteed, max; excess: what quota"
    " preemption will take back.",
    ("rm", "partition", "queue", "resource", "state"),
)
QUEUE_SHARE = gauge(
    "remuda_core_queue_share",
    "Share by which a queue is ranked.",
    ("rm", "partition", "queue"),
)
BUDGET_USED = gauge(
    "remuda_budget_used_ratio",
    "Part of a queue's budget that is used in the present period.",
    ("rm", "partition", "queue", "resource"),
)
BACKFILLED = counter("remuda_backfilled", "Backfilled allocations.", ("rm",))
ETA_COVERAGE = gauge(
    "remuda_eta_coverage",
    "Part of the last 80 % forecast intervals that have held.",
    ("rm",),
)
ETA_ERROR = gauge("remuda_eta_error_seconds", "Median error of the last forecasts.", ("rm",))
PENDING = gauge("remuda_core_pending", "Pending allocations, by the first reported reason.", ("rm", "reason"))
NODES = gauge("remuda_core_nodes", "Nodes: ready, reserved, draining, not_ready.", ("rm", "state"))
DEVICES = gauge(
    "remuda_core_devices",
    "Amounts on devices, in base units: capacity; free on usable devices; whole: free on empty "
    "devices; fragments: free and of no use to waiting or common asks.",
    ("rm", "partition", "resource", "state"),
)
DOMAINS = gauge(
    "remuda_core_domains",
    "Domains of a level: all; used; whole: all nodes are empty and take asks.",
    ("rm", "partition", "level", "state"),
)
EMPTY_NODES = gauge(
    "remuda_core_most_empty_nodes",
    "Most empty nodes in one domain of a level.",
    ("rm", "partition", "level"),
)
GROUPS_WAITING = gauge(
    "remuda_core_groups_waiting", "Groups that wait for a domain, by their first level.",
    ("rm", "partition", "level"),
)  # fmt: skip
APPLICATIONS = gauge("remuda_core_applications", "Applications by state.", ("rm", "state"))
ALLOCATIONS = gauge("remuda_core_allocations", "Allocations.", ("rm",))
