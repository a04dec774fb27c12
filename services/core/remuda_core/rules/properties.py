"""The properties of a queue that the core acts on (docs/configuration.md). What a queue inherits, the configuration
service has written into its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from remuda_proto.durations import milliseconds

Properties = Mapping[str, str]

FAIR: Final = "fair"
STATE_AWARE: Final = "stateaware"
PREEMPTION_DELAY_MS: Final = 30_000


def sort_policy(properties: Properties) -> str:
    """Of the applications in a leaf queue."""
    return properties.get("application.sort.policy", "fifo")


def is_state_aware(properties: Properties) -> bool:
    return sort_policy(properties) == STATE_AWARE


def sorts_by_priority(properties: Properties) -> bool:
    """Priority comes before shares and age."""
    return properties.get("application.sort.priority") != "disabled"


def priority_offset(properties: Properties) -> int:
    return int(properties.get("priority.offset", "0"))


def is_priority_fence(properties: Properties) -> bool:
    """Priorities below do not count outside."""
    return properties.get("priority.policy") == "fence"


def is_preemption_fence(properties: Properties) -> bool:
    """Asks below preempt nothing outside."""
    return properties.get("preemption.policy") == "fence"


def is_exempt_from_preemption(properties: Properties) -> bool:
    return properties.get("preemption.policy") == "disabled"


def preemption_delay_ms(properties: Properties) -> int:
    """How long an ask waits before it may preempt."""
    return milliseconds(properties.get("preemption.delay", "")) or PREEMPTION_DELAY_MS
