"""Queues, applications and allocations refer to each other, and to nothing that was removed."""

from __future__ import annotations

from operator import itemgetter

from ..limits import REJECTED_APPLICATIONS
from ..rules import lifecycle
from ..rules.resource import items_of, total_of
from ..state import Application, Node, Partition, State


def check_queues(partition: Partition) -> None:
    found = {queue.path: queue for queue in partition.root.below()}
    assert found == partition.queues, (
        f"{partition.name}: queues {sorted(partition.queues)}, the tree has {sorted(found)}"
    )
    for path, queue in found.items():
        assert (queue.parent is None) == (path == "root"), f"queue {path}: only root has no parent"
        for name, child in queue.children.items():
            assert child.path == f"{path}.{name}" and child.name == name, (
                f"queue {path}: {child.path} stands below it as {name}"
            )
            assert child.parent is queue, f"queue {child.path}: its parent is another than {path}"
        above = queue.parent.path_to_root if queue.parent else ()
        assert queue.path_to_root == (queue, *above), (
            f"queue {path}: its path to root is {[q.path for q in queue.path_to_root]}"
        )
        assert queue.leaf or not queue.applications, (
            f"queue {path} is a parent and has applications {sorted(queue.applications)}"
        )
        if queue.leaf:
            used = [q.path for q in queue.below() if q is not queue and q.applications]
            assert not used, f"queue {path} is a leaf and there are applications below it, in {used}"
        seqs = [application.seq for application in queue.applications.values()]
        assert seqs == sorted(seqs), f"queue {path}: its applications are not in the order of submission"
        for app_id, application in queue.applications.items():
            assert partition.applications.get(app_id) is application, (
                f"queue {path}: its application {app_id} is not in the partition"
            )


def check_holds(state: State, partition: Partition) -> None:
    """Queues and nodes have the holds and drains of operators that the state keeps."""
    for path, queue in partition.queues.items():
        hold = state.holds.get((partition.name, path))
        assert queue.hold == hold, f"queue {path} is held by {queue.hold}, expected {hold}"
    for node_id, node in partition.nodes.items():
        drain = state.drains.get((partition.name, node_id))
        assert node.drained == drain, f"node {node_id} is drained by {node.drained}, expected {drain}"
        assert node.draining == (node.drained_by_rm or drain is not None), (
            f"node {node_id}: draining is {node.draining}"
        )


def check_applications(partition: Partition) -> None:
    times = [rejected.at_ms for rejected in partition.rejected.values()]
    assert times == sorted(times), f"{partition.name}: rejected applications are not in the order of time"
    assert len(times) <= REJECTED_APPLICATIONS, f"{partition.name}: records of {len(times)} rejected applications"
    for app_id, application in partition.applications.items():
        assert application.id == app_id, f"application {app_id}: it calls itself {application.id}"
        assert application.log[-1:] == [(application.state_at_ms, application.state)], (
            f"application {app_id}: state is not what its log ends with"
        )
        told = sum(allocation.ask_over for allocation in application.allocations.values())
        assert application.asks_over == told, f"application {app_id}: {application.asks_over} asks over, not {told}"
        if application.terminal:
            holds = [*application.asks, *application.allocations]
            assert not holds, f"application {app_id} is {application.state} and holds {holds}"
            assert (
                app_id not in application.queue.applications
                or application.queue.applications[app_id] is not application
            ), f"application {app_id} is {application.state} and still in queue {application.queue.path}"
        else:
            path = application.queue.path
            assert partition.queues.get(path) is application.queue, (
                f"application {app_id}: its queue {path} is not in the partition"
            )
            assert application.queue.applications.get(app_id) is application, (
                f"application {app_id} is not in its queue {path}"
            )
        idle = not application.asks and len(application.allocations) == application.placeholders
        assert application.state != lifecycle.COMPLETING or idle, f"application {app_id} is Completing and not idle"
        for key, pending in application.asks.items():
            name = f"ask {app_id}/{key}"
            assert (pending.ask.application_id, pending.ask.allocation_key) == (app_id, key), f"{name}: it is another's"
            assert pending.application is application, f"{name}: its application is another record"
            assert pending.pending + pending.asked > 0, f"{name}: {pending.pending} pending"
            assert (pending in partition.refused) == bool(pending.refused), f"{name}: refused by {pending.refused}"
            reserved = len(pending.reservations)
            assert pending.free == pending.pending - reserved >= 0, (
                f"{name}: {pending.free} free, of {pending.pending} with {reserved} reservations"
            )
            for node_id in pending.reservations:
                node = partition.nodes.get(node_id)
                assert node is not None and node.reservation is pending, f"{name}: {node_id} is not reserved for it"
    for node in partition.nodes.values():
        kept_for = node.reservation
        assert kept_for is None or (
            node.id in kept_for.reservations and kept_for.application.asks.get(kept_for.ask.allocation_key) is kept_for
        ), f"node {node.id}: reserved for an ask that is gone"


def check_allocations(partition: Partition) -> None:
    """Each allocation is on one node, in one application, and in the partition."""
    for uuid, allocation in partition.allocations.items():
        fact, name = allocation.fact, f"allocation {uuid}"
        assert fact.uuid == uuid, f"{name}: it calls itself {fact.uuid}"
        nodes = partition.nodes if allocation.node.reported else partition.unreported
        assert nodes.get(fact.node_id) is allocation.node, f"{name}: its node {fact.node_id} is not in the partition"
        assert allocation.node.allocations.get(uuid) is allocation, f"{name} is not on its node {fact.node_id}"
        assert partition.applications.get(fact.application_id) is allocation.application, (
            f"{name}: {fact.application_id} is not in the partition"
        )
        assert allocation.application.allocations.get(uuid) is allocation, (
            f"{name} is not in its application {fact.application_id}"
        )
    holders: tuple[Node | Application, ...] = (
        *partition.nodes.values(),
        *partition.unreported.values(),
        *partition.applications.values(),
    )
    for holder in holders:
        for uuid, allocation in holder.allocations.items():
            assert partition.allocations.get(uuid) is allocation, (
                f"{holder.id} has the allocation {uuid}, the partition has not"
            )
            assert holder in (allocation.node, allocation.application), (
                f"{holder.id} has the allocation {uuid} of another"
            )
    for application in partition.applications.values():
        if application.by_key is not None:
            known = [(key, uuid, a) for key, of_key in application.by_key.items() for uuid, a in of_key.items()]
            counted = [(a.fact.allocation_key, uuid, a) for uuid, a in application.allocations.items()]
            assert sorted(known, key=itemgetter(0, 1)) == sorted(counted, key=itemgetter(0, 1)), (
                f"application {application.id}: allocations by key"
            )

        of_key = {(key, uuid): r for key, found in application.replacements_by_key.items() for uuid, r in found.items()}
        assert of_key == {(r.fact.allocation_key, uuid): r for uuid, r in application.replacements.items()}, (
            f"application {application.id}: replacements by key"
        )
        for key in (*application.asks, *(a.fact.allocation_key for a in application.allocations.values())):
            assert partition.holders.lists(key, application.id), f"application {application.id} does not hold {key}"
    for node in partition.nodes.values():
        allocated = dict(items_of(node.allocated))  # an ask may name what no node has, if it wants 0 of it
        for resource in (node.capacity, node.occupied, allocated):
            assert partition.names.knows(resource), f"node {node.id}: names of {resource} are not known"
        rejected = total_of(one.fact.resource for one in node.rejected.values())
        assert all(node.occupied.get(name, 0) >= amount for name, amount in rejected.items()), (
            f"node {node.id}: the resources of rejected allocations are not occupied"
        )
    rejected_there = [one for node in partition.nodes.values() for one in node.rejected.values()]
    listed = partition.rejected_allocations
    assert listed.count == len(rejected_there), f"partition {partition.name}: rejected allocations"
    for one in rejected_there:
        assert listed.by_name[one.name][one.fact.node_id] is one, f"rejected allocation {one.name}: by its name"
        assert one in listed.of_application(one.fact.application_id), f"rejected allocation {one.name}: of its app"
    for queue in partition.queues.values():
        assert partition.names.knows(queue.settings.max), f"queue {queue.path}: names of its maxima are not known"
