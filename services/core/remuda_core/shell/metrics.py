"""Metrics of a core process (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Mapping

from remuda_bus.metrics import counter, gauge, histogram, rm_label

from ..facts import Fact

LEADING = gauge("remuda_core_led_rms", "Resource managers that this core leads.")
FOLLOWING = gauge("remuda_core_followed_rms", "Resource managers whose logs this core follows as a standby.")
LEADERSHIPS = counter("remuda_core_leaderships", "Times that this core has begun to lead a resource manager.", ("rm",))
DECIDE_SECONDS = histogram(
    "remuda_core_decide_seconds", "Time to decide one commit: messages of the inbox and a scheduling pass."
)
APPEND_SECONDS = histogram("remuda_core_append_seconds", "Time until a commit is durable in the log.")
COMMITS = counter("remuda_core_commits", "Durable commits.", ("rm",))
COMMANDS = counter("remuda_core_commands", "Messages of the inbox that durable commits answer.", ("rm",))
FACTS = counter("remuda_core_facts", "Facts of durable commits, by kind: what was decided.", ("rm", "fact"))
QUERIES = counter("remuda_core_queries", "Queries that this core has answered.", ("kind",))
SNAPSHOTS = counter("remuda_core_snapshots", "Snapshots that were written.", ("rm",))
SNAPSHOT_STOPPED_SECONDS = histogram("remuda_core_snapshot_stopped_seconds", "How long a snapshot stops the core.")


def count_commit(rm_id: str, commands: int, facts: Mapping[type[Fact], int], seconds: float) -> None:
    """Count a commit that is durable. `commands`: the messages that it answers. `facts`: its facts by kind.
    `seconds`: how long the append took."""
    rm = rm_label(rm_id)
    APPEND_SECONDS.observe(seconds)
    COMMITS.labels(rm).inc()
    COMMANDS.labels(rm).inc(commands)
    for kind, count in facts.items():
        FACTS.labels(rm, kind.__name__).inc(count)
