"""Change the index when task groups gain or lose placeholders (semantics section 12)."""

from __future__ import annotations

from ..state import Application, PendingAsk, TaskGroup
from .ask_classes import ApplicationAsks
from .asks import add_ask, leave_line, remove_ask
from .gangs import Awaiting, Gang
from .partition import PartitionIndex
from .preemption_changes import may_preempt, preemptor_over


def gang_for(index: PartitionIndex, application: Application) -> Gang:
    """The gang of the application; made if there is none."""
    found = index.gangs.get(application)
    if found is None:
        found = index.gangs[application] = Gang(application, index.leaf_of(application))
    return found


def change_task_group(index: PartitionIndex, application: Application, group: TaskGroup) -> None:
    """Placeholders of the task group were asked for, allocated, replaced or released. If there are any, its real asks
    wait for them; otherwise they are in ask classes like all other asks."""
    gang = index.gangs.get(application)
    waits = gang is not None and group.name in gang.waiting
    if waits != group.awaited:
        if group.awaited:
            moving = _leave_ask_classes(index, application, group)
            gang_for(index, application).waiting[group.name] = {}
        else:
            moving = _wait_no_longer(index, gang_for(index, application), group)
        for ask in moving:
            add_ask(index, ask)
        if not group.awaited:
            _may_preempt_again(index, application, group)
    if (gang := index.gangs.get(application)) is not None:
        gang.settle(group.name)


def _may_preempt_again(index: PartitionIndex, application: Application, group: TaskGroup) -> None:
    """Asks without free repeats are in no line, so they were not added as preemptors with the others."""
    for ask in application.asks.values() if index.preemptors is not None else ():
        if ask.ask.allow_preempt_other and ask.ask.task_group == group.name and ask.pending and not ask.free:
            may_preempt(index, ask)


def _leave_ask_classes(index: PartitionIndex, application: Application, group: TaskGroup) -> list[PendingAsk]:
    by_line: dict[ApplicationAsks, list[PendingAsk]] = {}
    for ask in application.asks.values():
        line = index.lines.get(ask)
        if ask.ask.task_group == group.name and not ask.ask.placeholder and isinstance(line, ApplicationAsks):
            by_line.setdefault(line, []).append(ask)
    for line, asks in by_line.items():
        leaf, demand = line.ask_class.leaf, line.ask_class.demand
        line.remove_keys({ask.ask.allocation_key for ask in asks})
        for ask in asks:
            del index.lines[ask]
        leaf.taken(line)
        leaf.changed(sum(ask.pending for ask in asks) * demand.weight)
    return [ask for asks in by_line.values() for ask in asks]


def _wait_no_longer(index: PartitionIndex, gang: Gang, group: TaskGroup) -> list[PendingAsk]:
    lines = gang.waiting.pop(group.name)
    moving = [
        ask
        for line in lines.values()
        for _, asks in line.by_priority()
        for ask in asks
        if ask.free and index.lines.get(ask) is line
    ]
    for ask in moving:
        remove_ask(index, ask)
        gang.leaf.changed(ask.pending * index.weight_of(ask))
    gang.settle(group.name)
    return moving


def start_replacement(index: PartitionIndex, ask: PendingAsk, group: TaskGroup) -> None:
    """A repeat of the ask replaces a placeholder of the group, once the RM confirms."""
    line = index.lines[ask]
    assert isinstance(line, Awaiting), "what takes a place waited for it"
    if not ask.free:
        leave_line(index, ask, line)
        preemptor_over(index, ask)
    line.gang.settle(group.name)
    line.gang.leaf.changed(index.weight_of(ask))
