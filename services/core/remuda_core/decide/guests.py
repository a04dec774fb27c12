"""Guests when an RM registers again, or has deregistered: what they hold is booked again with the configuration of
their partition, before the RM reports nodes. So no ask is placed on their room, or in their part of a quota
(docs/adr/shared-hosts.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from remuda_proto.guests import is_guest

from .. import facts
from ..facts import Fact
from ..state import LeftGuest, Partition, State
from .allocation import booked


def has_guests(state: State) -> bool:
    """Guests hold something that would be dropped with the partitions."""
    return any(
        application.allocations and is_guest(application.id)
        for partition in state.partitions.values()
        for application in partition.applications.values()
    )


def keep_guests(state: State, now_ms: int) -> Iterator[Fact]:
    """Book what guests hold in the partitions that are there again: their queues, applications and allocations."""
    for name in [name for name in state.left_guests if name in state.partitions]:
        for left in list(state.left_guests[name].values()):
            yield from _kept(state.partitions[name], left, now_ms)


def _kept(partition: Partition, left: LeftGuest, now_ms: int) -> Iterator[Fact]:
    for added in left.queues:
        if added.queue not in partition.queues:
            yield added
            if added.managed:
                yield facts.QueueDraining(partition.name, added.queue)
    yield left.accepted
    releases = list(left.releases.values())
    for allocation in list(left.allocations.values()):
        yield from booked(partition, allocation, facts.GuestKept(allocation), now_ms)
    yield from releases


def problems_of_queues(state: State, configured: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Why configured queues (by partition and path: whether it is a leaf) leave no place for guests."""
    found: dict[str, None] = {}
    for partition, path, leaf in _queues_of_guests(state):
        if configured.get(partition, {}).get(path, leaf) != leaf:
            problem = (
                f"queue {path} has applications and cannot become a parent"
                if leaf
                else f"queue {path} has queues with applications and cannot become a leaf"
            )
            found[problem] = None
    return list(found)


def _queues_of_guests(state: State) -> Iterator[tuple[str, str, bool]]:
    """(partition, path, leaf), but for root."""
    for name, partition in state.partitions.items():
        for application in partition.applications.values():
            if application.allocations and is_guest(application.id):
                yield from ((name, queue.path, queue.leaf) for queue in application.queue.path_to_root[:-1])
    for name, of_partition in state.left_guests.items():
        for left in of_partition.values():
            yield from ((name, added.queue, added.leaf) for added in left.queues)
