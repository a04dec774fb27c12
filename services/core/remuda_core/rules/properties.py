"""Properties of queues that affect scheduling (docs/configuration.md). The configuration service has already written
inherited properties into the settings of each queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from remuda_proto.durations import milliseconds

Properties = Mapping[str, str]

SORT_POLICY: Final = "application.sort.policy"
FIFO: Final = "fifo"
FAIR: Final = "fair"
STATE_AWARE: Final = "stateaware"
PREEMPTION_DELAY_MS: Final = 30_000
QUOTA_DELAY: Final = "quota.preemption.delay"


def sort_policy(properties: Properties) -> str:
    """The order of the applications in a leaf queue: fifo, fair or stateaware. Any other value is fifo."""
    policy = properties.get(SORT_POLICY, FIFO)
    return policy if policy in (FAIR, STATE_AWARE) else FIFO


def is_state_aware(properties: Properties) -> bool:
    return sort_policy(properties) == STATE_AWARE


def sorts_by_priority(properties: Properties) -> bool:
    """Priority is compared before shares and age."""
    return properties.get("application.sort.priority") != "disabled"


def priority_offset(properties: Properties) -> int:
    return int(properties.get("priority.offset", "0"))


def is_priority_fence(properties: Properties) -> bool:
    """Priorities inside the queue have no effect outside."""
    return properties.get("priority.policy") == "fence"


def priority_seen_above(properties: Properties, priority: float) -> float:
    """A priority below the queue as its parent sees it: with a fence the offset alone (semantics section 9)."""
    return priority_offset(properties) + (0 if is_priority_fence(properties) else priority)


def is_preemption_fence(properties: Properties) -> bool:
    """Asks inside the queue preempt no allocations outside."""
    return properties.get("preemption.policy") == "fence"


def is_exempt_from_preemption(properties: Properties) -> bool:
    return properties.get("preemption.policy") == "disabled"


def preemption_delay_ms(properties: Properties) -> int:
    """How long an ask of the queue waits before it may preempt, in ms."""
    return milliseconds(properties.get("preemption.delay", "")) or PREEMPTION_DELAY_MS


def quota_preemption_delay_ms(path_to_root: Iterable[Properties]) -> int:
    """How long a queue keeps what is above its maximum, in ms; 0: for ever. A dynamic queue has no inherited properties
    of its own, so the first queue that has the property counts."""
    delays = (properties[QUOTA_DELAY] for properties in path_to_root if QUOTA_DELAY in properties)
    return milliseconds(next(delays, "")) or 0
