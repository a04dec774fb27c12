"""Queues, users and groups that use more than a maximum or a limit allows. They get nothing new until they are
below. Quota preemption may take something from queues later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..decide.names import plain
from ..rules.resource import Resource
from ..state import Queue, State, Tracker

# In the place of a resource's name.
RUNNING_APPLICATIONS = "running applications"

Row = dict[str, object]


class Place(NamedTuple):
    """Where something is over: `kind` is queue, user or group, `name` that of the user or group."""

    partition: str
    queue: str
    kind: str
    name: str
    resource: str


class Excess(NamedTuple):
    used: int
    maximum: int


def excesses(state: State) -> dict[Place, Excess]:
    """All of them. O(queues + trackers)."""
    return dict(
        found
        for partition in state.partitions.values()
        for queue in partition.queues.values()
        for found in _of_queue(plain(partition.name), queue)
    )


def _of_queue(partition: str, queue: Queue) -> Iterator[tuple[Place, Excess]]:
    own = ("queue", "")
    yield from _over(partition, queue, own, queue.allocated, queue.settings.max)
    yield from _too_many(partition, queue, own, queue)
    for tracker in queue.trackers.values():
        whose = (tracker.kind, tracker.name)
        yield from _over(partition, queue, whose, tracker.used, tracker.limit.max_resources)
        yield from _too_many(partition, queue, whose, tracker)


def _over(
    partition: str, queue: Queue, whose: tuple[str, str], used: Resource, most: Resource
) -> Iterator[tuple[Place, Excess]]:
    for name, maximum in most.items():
        if (amount := used.get(name, 0)) > maximum:
            yield Place(partition, queue.path, *whose, name), Excess(amount, maximum)


def _too_many(
    partition: str, queue: Queue, whose: tuple[str, str], counted: Queue | Tracker
) -> Iterator[tuple[Place, Excess]]:
    if 0 < counted.most_running < counted.running:
        place = Place(partition, queue.path, *whose, RUNNING_APPLICATIONS)
        yield place, Excess(counted.running, counted.most_running)


def rows(before: dict[Place, Excess], after: dict[Place, Excess]) -> list[Row]:
    """Places that are over with the new configuration, and by how much; `over_before`: by how much with the old one.
    Those that were not come first, then the largest."""
    found: list[Row] = []
    for place, excess in after.items():
        was = before.get(place)
        found.append(
            {
                **place._asdict(),
                "used": excess.used,
                "max": excess.maximum,
                "over": excess.used - excess.maximum,
                "over_before": was.used - was.maximum if was is not None else 0,
            }
        )
    return sorted(found, key=_by_news)


def _by_news(row: Row) -> tuple[bool, float, str, str, str]:
    used, maximum = row["used"], row["max"]
    assert isinstance(used, int) and isinstance(maximum, int)
    share = used / maximum if maximum else float("inf")
    return row["over_before"] != 0, -share, str(row["queue"]), str(row["name"]), str(row["resource"])
