"""Metrics of a process that leads and follows logs (docs/metrics.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from remuda_bus.bus import Message
from remuda_bus.metrics import counter, gauge, histogram, rm_label
from remuda_proto.remuda.v1 import log_pb2

# Facts of a commit: of one request, of a full pass, of a request with 100,000 items.
METRIC_FACTS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0, 100_000.0, 300_000.0)


class ReplicationMetrics:
    """The metrics of a service. `service`: the name of the service, which is part of the names of metrics."""

    def __init__(self, service: str) -> None:
        name = f"remuda_{service}"
        self.leading = gauge(f"{name}_led_rms", "Resource managers that this process leads.")
        self.following = gauge(
            f"{name}_followed_rms", "Resource managers whose logs this process follows as a standby."
        )
        self.leaderships = counter(
            f"{name}_leaderships", "Times that this process has begun to lead a resource manager.", ("rm",)
        )
        self.decide_seconds = histogram(f"{name}_decide_seconds", "Time to decide one commit.")
        self.inbox_lag_seconds = histogram(
            f"{name}_inbox_lag_seconds",
            "Age of the oldest message that a leader takes from the inbox.",
        )
        self.log_lag_seconds = histogram(
            f"{name}_log_lag_seconds", "Time from the decision of a commit until a standby has applied it."
        )
        self.append_seconds = histogram(f"{name}_append_seconds", "Time until a commit is durable in the log.")
        self.commits = counter(f"{name}_commits", "Durable commits.", ("rm",))
        self.commands = counter(f"{name}_commands", "Inbox messages answered by durable commits.", ("rm",))
        self.facts = counter(f"{name}_facts", "Facts of durable commits, by kind.", ("rm", "fact"))
        self.commit_facts = histogram(f"{name}_commit_facts", "Facts of a durable commit.", METRIC_FACTS)
        self.snapshots = counter(f"{name}_snapshots", "Snapshots written.", ("rm",))
        self.snapshot_stopped_seconds = histogram(
            f"{name}_snapshot_stopped_seconds", "Pause of the process for a snapshot."
        )

    def count_taken(self, oldest: Message) -> None:
        """Count that a leader has taken messages of the inbox. `oldest`: the first of the messages."""
        if oldest.stored_ns:
            self.inbox_lag_seconds.observe(max(0.0, (time.time_ns() - oldest.stored_ns) / 1_000_000_000))

    def count_applied(self, decided_ms: int) -> None:
        """Count that a standby has applied a commit. `decided_ms`: when it was decided, in ms since 1970."""
        self.log_lag_seconds.observe(max(0.0, time.time() - decided_ms / 1_000))

    def count_commit(self, log_id: str, commit: log_pb2.Commit, facts: Mapping[type[Any], int], seconds: float) -> None:
        """Count a commit that is durable. `facts`: its facts by kind. `seconds`: how long the append took."""
        rm = rm_label(log_id)
        self.append_seconds.observe(seconds)
        self.commits.labels(rm).inc()
        self.commands.labels(rm).inc(sum(decision.inbox_seq > 0 for decision in commit.decisions))
        self.commit_facts.observe(sum(facts.values()))
        for kind, count in facts.items():
            self.facts.labels(rm, kind.__name__).inc(count)
