"""The state transitions of applications as facts, by the table in `rules.lifecycle` (semantics section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..facts import Allocated, ApplicationStateChanged, Ask, Fact
from ..rules import lifecycle
from ..rules.resource import Resource, items_of, total_of
from ..state import Application, Partition

STATE_AWARE_DISABLE_TAG = "application.stateaware.disable"


def transition(partition: Partition, application: Application, what: str, now_ms: int, reason: str = "") -> list[Fact]:
    """The application's next state, if the transition leads to one. `reason`: when the transition's name does not say
    it."""
    state = lifecycle.TRANSITIONS[what].get(application.state)
    if state is None:
        return []
    allocated = {name: amount for name, amount in application.allocated.items() if amount}
    return [
        ApplicationStateChanged(
            partition.name, application.id, state, reason or what, now_ms, application.queue.path, allocated
        )
    ]


def start(partition: Partition, application: Application, now_ms: int, ask: Ask | Allocated) -> Iterable[Fact]:
    """The transitions that an allocation causes: the first makes an application Starting, the second Running; the first
    makes it Running if its tag disables `stateaware`. Of placeholders only the last one counts. A gang that is resuming
    does not start."""
    if application.state == lifecycle.RESUMING:
        return ()
    if ask.placeholder and not is_last_placeholder(application, ask.resource):
        return ()
    if application.tags and application.tags.get(STATE_AWARE_DISABLE_TAG, "").lower() == "true":
        return _at_once(partition, application, now_ms)
    return transition(partition, application, lifecycle.RUN, now_ms)


def is_last_placeholder(application: Application, resource: Resource) -> bool:
    """Whether the placeholders, with one more of this resource, hold all that the application wants to reserve."""
    if not any(application.placeholder_ask.values()):
        return False
    return items_of(total_of((application.allocated_placeholder, resource))) == items_of(application.placeholder_ask)


def _at_once(partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    for _ in range(2):
        yield from transition(partition, application, lifecycle.RUN, now_ms)
