"""Ask classes, and the asks of each application in them, compared with the pending asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...index.asks import Admission, AskClass, PriorityFifo
from ...index.leaves import LeafOrder
from ...index.partition import PartitionIndex
from ...rules import lifecycle
from ...rules.properties import is_state_aware
from ...rules.required_node import required_node
from ...rules.resource import Items, items_of
from ...state import Application, PendingAsk, Queue, Refusals

# (resource, required node, refused nodes, admission): asks with equal values belong to one ask class.
Want = tuple[Items, str, Refusals, Admission]


def check_leaf(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    expected: defaultdict[Want, defaultdict[str, list[PendingAsk]]] = defaultdict(lambda: defaultdict(list))
    for application in queue.applications.values():
        admission = _admission(queue, application)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                continue
            if ask.free:
                want = (items_of(ask.ask.resource), required_node(dict(ask.ask.tags)), ask.refused, admission)
                expected[want][application.id].append(ask)
            else:
                assert ask not in index.lines, f"{application.id}/{ask.ask.allocation_key}: is in a line, none is free"
    found = {
        (demand.items, demand.required_node, demand.refused, admission): _lines(ask_class, index)
        for (demand, admission), ask_class in leaf.ask_classes.items()
    }
    where = f"queue {queue.path}"
    assert found.keys() == expected.keys(), f"{where}: ask classes for {list(found)}, pending are {list(expected)}"
    for want, lines in expected.items():
        assert found[want] == lines, f"{where}: lines for {want} are {_keys(found[want])}, pending are {_keys(lines)}"
    registered = {line for lines in leaf.lines.values() for line in lines.values()}
    in_ask_classes = {line for ask_class in leaf.ask_classes.values() for line in ask_class.ranking.members}
    assert registered == in_ask_classes, f"{where}: lines by application are not the lines by ask class"
    only = next(iter(leaf.ask_classes.values())) if len(leaf.ask_classes) == 1 else None
    assert leaf.only is only, f"{where}: the only ask class is not what it takes for it"
    for (demand, admission), ask_class in leaf.ask_classes.items():
        assert (
            ask_class.demand is demand
            and ask_class.leaf is leaf
            and ask_class.ranking.members
            and ask_class.admission is admission
        ), f"{where}: the ask class for {demand.items} stands in a wrong place"


def _admission(queue: Queue, application: Application) -> Admission:
    application_limits = () if application.counts_as_running else application.application_limits
    return (
        _held_back(queue, application),
        application_limits,
        tuple(t for t in application.trackers if t.limit.max_resources),
    )


def _held_back(queue: Queue, application: Application) -> bool:
    if any(above.hold is not None for above in queue.path_to_root):
        return True
    if not is_state_aware(queue.settings.properties) or application.state != lifecycle.ACCEPTED:
        return False
    others = queue.applications.values()
    accepted = [other for other in others if other.state == lifecycle.ACCEPTED and other.asks]
    starting = any(other.state == lifecycle.STARTING for other in others)
    return starting or application is not min(accepted, key=lambda a: a.seq, default=None)


def _lines(ask_class: AskClass, index: PartitionIndex) -> dict[str, list[PendingAsk]]:
    return {line.application.id: list(asks_of(line, index)) for line in ask_class.ranking.members}


def asks_of(line: PriorityFifo, index: PartitionIndex) -> Iterator[PendingAsk]:
    """The asks of a class in the order in which they are scheduled."""
    seen: set[int] = set()
    head = line.first_ask()
    over = sum(1 for _, asks in line.by_priority() for ask in asks if not ask.free)
    assert line.withdrawn == over, f"a line knows of {line.withdrawn} asks that were withdrawn, counted anew {over}"
    for priority, asks in line.by_priority():
        for ask in asks:
            assert not ask.free or index.lines.get(ask) is line, (
                f"{ask.ask.allocation_key} stands in a line it has left"
            )
            if ask.free and index.lines.get(ask) is line and ask.ask.priority == priority and ask.seq not in seen:
                seen.add(ask.seq)
                assert len(seen) > 1 or ask is head, (
                    f"line of {ask.application.id}: {ask.ask.allocation_key} is first, it gives out another"
                )
                yield ask


def _keys(lines: dict[str, list[PendingAsk]]) -> dict[str, list[str]]:
    return {app_id: [ask.ask.allocation_key for ask in asks] for app_id, asks in lines.items()}


def waits_for_place(pending: PendingAsk) -> bool:
    """The ask may only replace a placeholder."""
    ask = pending.ask
    group = pending.application.task_groups.get(ask.task_group)
    return bool(pending.free and ask.task_group) and not ask.placeholder and group is not None and group.awaited
