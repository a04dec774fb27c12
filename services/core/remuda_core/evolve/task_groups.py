"""Counts the placeholders of an application by task group."""

from __future__ import annotations

from .. import facts, timeouts
from ..limits import TASK_GROUPS_KEPT
from ..rules import lifecycle
from ..rules.resource import Resource
from ..state import (
    Allocation,
    Application,
    Partition,
    State,
    TaskGroup,
    after,
)


def placeholder_comes(state: State, partition: Partition, placeholder: Allocation) -> None:
    """Count an allocated placeholder. Unless it runs, this starts the timer of the application's placeholders."""
    application, fact = placeholder.application, placeholder.fact
    application.placeholders += 1
    if not state.timers.has(timeouts.of_placeholders(partition.name, application)):
        lasts_ms = (
            application.execution_timeout_ms if application.execution_timeout_ms > 0 else state.timing.placeholder_ms
        )
        application.placeholders_until_ms = after(state.now_ms, lasts_ms)
        state.timers.put(timeouts.of_placeholders(partition.name, application))
    group = task_group_of(state, partition, application, fact.task_group, fact.resource)
    group.placed += 1
    group.free.add_placeholder(placeholder)


def count_coming(application: Application, group: TaskGroup, by: int) -> None:
    """Count placeholders that are asked for and not allocated."""
    group.coming += by
    application.placeholders_coming += by


def end_without_placeholders(state: State, partition: Partition, application: Application) -> None:
    """Cancel the timer of the application's placeholders if none is left. While some are pending, real asks wait for
    them, so the timer has to run on."""
    if application.placeholders or not application.placeholders_until_ms:
        return
    timer = timeouts.of_placeholders(partition.name, application)
    if not application.placeholders_coming or not state.timers.has(timer):
        state.timers.cancel(timer)
        application.placeholders_until_ms = 0


def task_group_of(
    state: State, partition: Partition, application: Application, name: str, resource: Resource
) -> TaskGroup:
    """The task group, made if it is new. If there are many, each new one checks two others: those without placeholders
    are removed, the others move to the end."""
    groups = application.task_groups
    group = groups.get(name)
    if group is None:
        # The application is a gang now, so its time-out becomes that of its placeholders.
        state.timers.cancel(timeouts.of_execution(partition.name, application))
        for _ in range(2 if len(groups) >= TASK_GROUPS_KEPT else 0):
            oldest = groups.pop(next(iter(groups)))
            if oldest.placed or oldest.coming:
                groups[oldest.name] = oldest
        group = groups[name] = TaskGroup(name, resource)
    return group


def free_no_more(application: Application) -> None:
    """The gang no longer resumes: placeholders that the RM was asked to release cannot be replaced any more."""
    for group in application.task_groups.values():
        for placeholder in [each for each in group.free if each.releasing]:
            group.free.discard_placeholder(placeholder.fact.uuid)


def placeholder_goes(placeholder: Allocation, termination_type: int) -> None:
    """The RM is asked to release a placeholder. A real ask may still replace one that goes because its gang resumes."""
    application = placeholder.application
    group = application.task_groups[placeholder.fact.task_group]
    if termination_type == facts.TIMEOUT and placeholder.releasing != facts.TIMEOUT:
        group.timed_out += 1
    if not may_be_replaced(application, termination_type):
        group.free.discard_placeholder(placeholder.fact.uuid)


def may_be_replaced(application: Application, releasing: int) -> bool:
    """Whether a real ask may replace a placeholder. `releasing`: why the RM was asked to release it; 0: it was not."""
    return not releasing or (releasing == facts.TIMEOUT and application.state == lifecycle.RESUMING)
