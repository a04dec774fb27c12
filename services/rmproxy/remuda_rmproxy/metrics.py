"""Metrics of an rmproxy process (docs/metrics.md)."""

from __future__ import annotations

from remuda_bus import limits
from remuda_bus.metrics import counter, gauge, histogram, rm_label

# Seconds that an ask waits for its allocation: up to two hours.
METRIC_WAIT_SECONDS = (*limits.METRIC_SECONDS, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)

REQUESTS = counter("remuda_rmproxy_requests", "Requests that are durable in inboxes.", ("rm",))
DEAD_LETTERS = counter("remuda_rmproxy_dead_letters", "Requests stored as dead letters.", ("rm",))
CALLBACKS = counter("remuda_rmproxy_callbacks", "Durable callbacks.", ("rm",))
CALLBACK_SECONDS = histogram(
    "remuda_rmproxy_callback_seconds",
    "Time from the decision of a commit until its callbacks are durable.",
)
PUBLISH_TO_CALLBACK_SECONDS = histogram(
    "remuda_rmproxy_publish_to_callback_seconds",
    "Time from the publishing of a request until its answer, or the first allocation of an ask, is durable.",
    METRIC_WAIT_SECONDS,
    ("answer",),
)
UNDECIDED = gauge(
    "remuda_rmproxy_undecided_seconds",
    "Age of the oldest undecided request in the inbox; 0: none.",
    ("rm",),
)
THROTTLED_SECONDS = counter(
    "remuda_rmproxy_throttled_seconds",
    "Time that callbacks waited for acknowledgements.",
    ("rm",),
)
UNACKNOWLEDGED = gauge(
    "remuda_rmproxy_unacknowledged_callbacks",
    "Unacknowledged callbacks, checked every 1,000 callbacks.",
    ("rm",),
)
REGISTRATIONS = counter("remuda_rmproxy_registrations", "Accepted registrations.")
ACTIONS = counter("remuda_rmproxy_operator_actions", "Actions of operators.", ("action", "outcome"))


def show_rm(rm_id: str) -> None:
    """Shows the counters of an RM from the beginning, as 0: Prometheus computes no rate of a series that appears with
    its first event.
    """
    for metric in (REQUESTS, DEAD_LETTERS, CALLBACKS, THROTTLED_SECONDS, UNACKNOWLEDGED):
        metric.labels(rm_label(rm_id))
