"""Decisions about gangs outside the scheduling cycle: admission, and the time-out of placeholders (semantics section
12)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import facts
from ..cycle.place import release_requested
from ..cycle.transitions import transition
from ..facts import Fact
from ..rules import lifecycle
from ..rules.properties import FAIR, sort_policy
from ..rules.resource import Resource
from ..settings import QueueSettings
from ..state import Allocation, Application, Partition, State
from .allocation import after_release
from .ask import asks_over, keys_over, nothing_is_asked, withdraw

HARD = "Hard"
RESERVATION_TIMEOUT = "ResourceReservationTimeout"
PLACEHOLDERS_OVER = "the time of its placeholders is over"


def problem_of_gang(partition: Partition, path: str, settings: QueueSettings, placeholder_ask: Resource) -> str | None:
    """Why the leaf queue `path`, which has or will have these settings, cannot hold a gang. None if it can."""
    if not any(placeholder_ask.values()):
        return None
    if sort_policy(settings.properties) == FAIR:
        return f"queue {path} orders its applications by fair share, which gangs do not go with"
    limits = [(path, settings.max)]
    while path := path.rpartition(".")[0]:
        if path in partition.queues:
            limits.append((path, partition.queues[path].settings.max))
    for above, maximum in limits:
        for name, most in sorted(maximum.items()):
            if placeholder_ask.get(name, 0) > most:
                return f"placeholderAsk: {name}={placeholder_ask[name]}, the maximum of queue {above} is {most}"
    return None


def placeholders_ended(state: State, partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    """The placeholders of an application have timed out. A gang that has started continues without them. A gang that
    has not fails (Hard), or continues as a normal application (Soft)."""
    if application.state in (lifecycle.NEW, lifecycle.ACCEPTED):
        if application.gang_scheduling_style == HARD:
            yield from fail(partition, application, RESERVATION_TIMEOUT, now_ms)
            return
        yield from transition(partition, application, lifecycle.RESUME, now_ms, RESERVATION_TIMEOUT)
        over = keys_over(application, placeholders(application))
        yield from asks_over(partition, application, over, facts.TIMEOUT, PLACEHOLDERS_OVER)
    yield from give_up_placeholders(partition, application, PLACEHOLDERS_OVER)
    yield from after_release(partition, application, True, now_ms)  # all of them may have been pending


def give_up_placeholders(partition: Partition, application: Application, message: str) -> Iterator[Fact]:
    """Release all placeholders, except those that are being replaced."""
    for pending in list(application.asks.values()):
        if pending.ask.placeholder:
            yield from withdraw(partition, pending, facts.TIMEOUT, message)
    yield from give_back(placeholders(application), message)


def placeholders(application: Application) -> list[Allocation]:
    return [allocation for allocation in application.allocations.values() if allocation.fact.placeholder]


def give_back(allocations: list[Allocation], message: str) -> Iterator[Fact]:
    for allocation in allocations:
        if not allocation.releasing:
            yield release_requested(allocation, facts.TIMEOUT, message)


def fail(partition: Partition, application: Application, reason: str, now_ms: int) -> Iterator[Fact]:
    """Withdraw all asks and release all allocations. With the last release the application is Failed."""
    yield from transition(partition, application, lifecycle.FAIL, now_ms, reason)
    yield from nothing_is_asked(partition, application, facts.TIMEOUT, reason)
    yield from give_back(list(application.allocations.values()), reason)
    yield from after_release(partition, application, True, now_ms)
