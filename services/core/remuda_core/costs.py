"""The costs of asks and allocations: their use of budgets if they run until their bound (semantics section 25)."""

from __future__ import annotations

from collections.abc import Mapping

from .facts import Allocated, Ask
from .rules.budget import Cost, cost_of
from .rules.resource import add
from .rules.runtime import bound_of
from .state import Application, PendingAsk, Preemption, Queue, after


def bound_ms(application: Application, ask: Ask | Allocated, queue: Queue | None = None) -> int:
    """The longest time that an allocation of the ask may last, in ms; 0: not known. A placeholder stands for a real
    ask, which has the bounds of its application and its queue. `queue`: None: the queue of the application."""
    if not ask.placeholder:
        return max(0, ask.execution_timeout_ms)
    properties = [above.settings.properties for above in (queue or application.queue).path_to_root]
    return bound_of(ask.execution_timeout_ms, ask.tags, application.tags, properties, placeholder=False).bound_ms


def ends_ms(application: Application, ask: Ask | Allocated, at_ms: int) -> int:
    """When an allocation ends by its bound that begins at `at_ms`; 0: not known."""
    lasts_ms = bound_ms(application, ask)
    return after(at_ms, lasts_ms) if lasts_ms else 0


def cost_of_ask(pending: PendingAsk) -> Cost:
    """The cost that budgets have to leave for the next allocation of the ask."""
    application, ask = pending.application, pending.ask
    if ask.placeholder:
        return cost_of_gang(application, bound_ms(application, ask))
    return cost_of(ask.resource, bound_ms(application, ask))


def cost_of_gang(application: Application, lasts_ms: int) -> Cost:
    """The cost that budgets have to leave for the next placeholder: for the first one that of all that are asked for,
    afterwards nothing, so that a gang is admitted whole. `lasts_ms`: the bound of the placeholder."""
    total: dict[str, int] = {}
    if not application.allocations:
        for group in application.task_groups.values():
            add(total, group.min_resource, group.coming)
    return cost_of(total, lasts_ms)


def cost_together(members: Mapping[PendingAsk, int]) -> Cost:
    """The cost of so many repeats of these asks together, each until its time-out, which never changes."""
    total: dict[str, int] = {}
    for ask, count in members.items():
        add(total, cost_of(ask.ask.resource, ask.ask.execution_timeout_ms), count)
    return total


def cost_of_preemption(preemption: Preemption) -> Cost:
    """The cost that is held in budgets while the preemption is under way."""
    return cost_together(preemption.members or {preemption.pending: 1})
