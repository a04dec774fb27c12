"""Asks that wait for the place of a placeholder, compared with the task groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ...index.leaves import LeafOrder
from ...index.partition import PartitionIndex
from ...index.queues import ParentOrder
from ...rules.required_node import required_node
from ...rules.resource import Items, items_of
from ...state import PendingAsk, Queue, Refusals
from .asks import asks_of, waits_for_place

# (task group, (resource, required node, refused nodes)).
Place = tuple[str, tuple[Items, str, Refusals]]


def check_gangs(queue: Queue, leaf: LeafOrder, index: PartitionIndex) -> None:
    for application in queue.applications.values():
        what, gang = f"application {application.id}", index.gangs.get(application)
        expected: defaultdict[Place, list[PendingAsk]] = defaultdict(list)
        for ask in sorted(application.asks.values(), key=lambda a: (-a.ask.priority, a.seq)):
            if waits_for_place(ask):
                want = (items_of(ask.ask.resource), required_node(ask.ask.tags), ask.refused)
                expected[ask.ask.task_group, want].append(ask)
        awaited = {group.name for group in application.task_groups.values() if group.awaited}
        if gang is None:
            assert not awaited, f"{what}: nothing waits for {awaited}"
            continue
        assert gang.waiting.keys() == awaited, f"{what}: waits for {set(gang.waiting)}, there is {awaited}"
        lines = {(name, want): line for name, lines in gang.waiting.items() for want, line in lines.items()}
        found = {where: list(asks_of(line, index)) for where, line in lines.items()}
        assert found == expected, f"{what}: {_waiting(found)} wait for places, expected {_waiting(expected)}"
        ready = {name for name, _ in expected if application.task_groups[name].free}
        assert set(gang.ready) == ready, f"{what}: ready are {set(gang.ready)}, counted anew {ready}"
        serving = gang in leaf.gangs.members
        serves = bool(ready) and gang not in index.blocked and not leaf.held
        assert serving == serves, f"{what}: takes part is {serving}"
    there = {index.gangs.get(application) for application in queue.applications.values()}
    gone = [gang for gang in leaf.gangs.members if gang not in there]
    assert not gone, f"queue {queue.path}: {gone} take part and are not there"


def _waiting(lines: Mapping[Place, list[PendingAsk]]) -> dict[Place, list[str]]:
    return {where: [ask.ask.allocation_key for ask in asks] for where, asks in lines.items()}


def check_serving(order: LeafOrder | ParentOrder) -> None:
    """A queue is in its parent's ranking of gangs exactly while it has gangs to serve."""
    serves = order.serving is not None
    assert serves == bool(order.gangs.members) or order.above is None, f"queue {order.queue.path}: serves is {serves}"
    if order.serving is not None and order.above is not None:
        assert order.serving in order.above.gangs.members, f"queue {order.queue.path}: has gangs and takes no part"
