"""Guests outlive the state of an RM: an RM that registers again reports all that is its own, and guests are not."""

from __future__ import annotations

from msgspec.structs import replace

from remuda_proto.guests import is_guest

from .. import facts
from ..state import Application, LeftGuest, Node, Partition, State
from .allocations import book_running
from .devices import lay_out_devices


def leave_guests(state: State) -> None:
    """Notes the allocations of guests before the partitions are dropped. Asks that wait hold no room, and guests ask
    again."""
    for name, partition in state.partitions.items():
        for application in partition.applications.values():
            if application.allocations and is_guest(application.id):
                state.left_guests.setdefault(name, {})[application.id] = _left(name, application)


def _left(partition: str, application: Application) -> LeftGuest:
    accepted = facts.ApplicationAccepted(
        partition, application.id, application.queue.path, application.user, application.groups, application.tags,
        application.execution_timeout_ms, {}, application.gang_scheduling_style,
    )  # fmt: skip
    *above, _ = application.queue.path_to_root
    queues = [facts.QueueAdded(partition, one.path, one.leaf, one.managed, one.settings) for one in reversed(above)]
    allocations = {
        uuid: replace(one.fact, question=0, task_group="", placeholder=False)
        for uuid, one in application.allocations.items()
    }
    releases = {
        uuid: facts.ReleaseRequested(
            partition, application.id, one.fact.allocation_key, uuid, one.releasing, "the release was asked for before"
        )
        for uuid, one in application.allocations.items()
        if one.releasing
    }
    return LeftGuest(accepted, tuple(queues), allocations, releases)


def guest_kept(state: State, fact: facts.GuestKept) -> None:
    kept = fact.allocation
    book_running(state, kept, node_of(state.partitions[kept.partition], kept.node_id))
    _take(state, kept)


def node_of(partition: Partition, node_id: str) -> Node:
    """The node, or one in its place until the RM reports it."""
    if node_id in partition.nodes:
        return partition.nodes[node_id]
    if node_id not in partition.unreported:
        node = partition.unreported[node_id] = Node(node_id, {}, {}, {}, reported=False)
        lay_out_devices(partition, node)
    return partition.unreported[node_id]


def _take(state: State, kept: facts.Allocated) -> None:
    of_partition = state.left_guests[kept.partition]
    left = of_partition[kept.application_id]
    del left.allocations[kept.uuid]
    left.releases.pop(kept.uuid, None)
    if not left.allocations:
        del of_partition[kept.application_id]
    if not of_partition:
        del state.left_guests[kept.partition]
