"""Properties of queues that affect scheduling (docs/configuration.md). The configuration service has already written
inherited properties into the settings of each queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from remuda_proto import fair
from remuda_proto.durations import milliseconds

Properties = Mapping[str, str]

SORT_POLICY: Final = "application.sort.policy"
FIFO: Final = "fifo"
FAIR: Final = "fair"
FAIR_USERS: Final = "fair-users"
STATE_AWARE: Final = "stateaware"
PREEMPTION_DELAY_MS: Final = 30_000
QUOTA_DELAY: Final = "quota.preemption.delay"


def sort_policy(properties: Properties) -> str:
    """The order of the applications in a leaf queue: fifo, fair, fair-users or stateaware. Any other value is fifo."""
    policy = properties.get(SORT_POLICY, FIFO)
    return policy if policy in (FAIR, FAIR_USERS, STATE_AWARE) else FIFO


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
    """The time that an ask of the queue waits before it may preempt, in ms."""
    return milliseconds(properties.get("preemption.delay", "")) or PREEMPTION_DELAY_MS


def quota_preemption_delay_ms(path_to_root: Iterable[Properties]) -> int:
    """The time that a queue keeps allocations above its maximum, in ms; 0: for ever. A dynamic queue has no inherited
    properties of its own, so the first queue that has the property counts."""
    delays = (properties[QUOTA_DELAY] for properties in path_to_root if QUOTA_DELAY in properties)
    return milliseconds(next(delays, "")) or 0


class Memory(NamedTuple):
    """How a queue ranks its children, users or applications by what they have used (semantics section 23).

    `half_life_ms`: 0: they are ranked by what they use now, and the other fields mean nothing. `patience_ms`: 0: no ask
    goes first because it has waited."""

    half_life_ms: int = 0
    ahead_ms: int = 0
    patience_ms: int = 0
    guaranteed_first: bool = False


NO_MEMORY: Final = Memory()


def memory(path_to_root: Iterable[Properties]) -> Memory:
    """The memory of a queue. A dynamic queue has no inherited properties of its own, so the first queue from it up that
    has a property counts."""
    found: dict[str, str] = {}
    for properties in path_to_root:
        for name in (fair.HALF_LIFE, fair.AHEAD, fair.PATIENCE, fair.GUARANTEED):
            if name in properties:
                found.setdefault(name, properties[name])
    if fair.HALF_LIFE not in found:
        return NO_MEMORY
    return _memory(*(found.get(name, "") for name in (fair.HALF_LIFE, fair.AHEAD, fair.PATIENCE, fair.GUARANTEED)))


@lru_cache(maxsize=1_024)
def _memory(half_life: str, ahead: str, patience: str, guaranteed: str) -> Memory:
    half_life_ms, ahead_ms, patience_ms = map(milliseconds, (half_life, ahead, patience))
    if not half_life_ms:
        return NO_MEMORY
    return Memory(
        half_life_ms,
        min(fair.AHEAD_MS if ahead_ms is None else ahead_ms, half_life_ms),
        fair.PATIENCE_MS if patience_ms is None else patience_ms,
        guaranteed != fair.PLAIN,
    )


def memory_properties(properties: Properties) -> Properties:
    """The properties on which `memory`, `fair_weight` and `user_weights` depend."""
    return {name: properties[name] for name in fair.NAMES if name in properties} if properties else properties


def fair_weight(properties: Properties) -> int:
    """The weight of a queue among its siblings, in thousandths."""
    text = properties.get(fair.WEIGHT)
    return fair.WEIGHT_ONE if text is None else _weight(text)


def user_weights(path_to_root: Iterable[Properties]) -> fair.UserWeights | None:
    """The weights of users in a queue: those of the first queue from it up that has some. None: all count alike."""
    for properties in path_to_root:
        text = properties.get(fair.USER_WEIGHTS)
        if text is not None:
            found = fair.user_weights(text)
            return None if isinstance(found, str) else found
    return None


_weight: Final = lru_cache(maxsize=1_024)(lambda text: fair.weight(text) or fair.WEIGHT_ONE)
