"""Preemptions under way: their asks, nodes, timers, and the places kept for them."""

from __future__ import annotations

from ..limits import ANSWER_WITHIN_MS, RELEASE_OVERDUE_MS
from ..rules.resource import total_of
from ..state import Application, Partition, Queue, State, Timer
from .sums import check_sum


def check_held(partition: Partition) -> None:
    """Resources are held for an ask exactly while its preemption is under way and its node is reserved for it."""
    held = [p for p in partition.preemptions.values() if p.held]
    for preemption in partition.preemptions.values():
        kept = preemption.node.reservation is preemption.pending
        assert preemption.held == kept, f"preemption for {preemption.pending.ask.allocation_key}: held is not {kept}"
    for application in partition.applications.values():
        counted = total_of(p.pending.ask.resource for p in held if p.pending.application is application)
        check_sum(application.held, counted, f"application {application.id}: held")
    for queue in partition.queues.values():
        members: tuple[Application | Queue, ...] = (*queue.applications.values(), *queue.children.values())
        check_sum(queue.held, total_of(m.held for m in members), f"queue {queue.path}: held")
        for tracker in queue.trackers.values():
            counting = [p.pending for p in held if tracker in p.pending.application.trackers]
            check_sum(tracker.held, total_of(p.ask.resource for p in counting), f"{tracker}: held")


def check_preemption(state: State, partition: Partition) -> None:
    for queue in partition.queues.values():
        allocations = [a for a in partition.allocations.values() if queue in a.application.queue.path_to_root]
        counted = total_of(a.fact.resource for a in allocations if a.preempting)
        check_sum(queue.preempting, counted, f"queue {queue.path}: preempting")
    timers = frozenset(state.timers)
    for (app_id, key), preemption in partition.preemptions.items():
        name = f"preemption for {app_id}/{key}"
        pending = preemption.pending
        assert partition.applications[app_id].asks.get(key) is pending, f"{name}: there is no such ask"
        assert pending.preemption is preemption, f"{name}: the ask knows of another"
        assert pending.preempted_at_ms == preemption.at_ms, f"{name}: the ask knows of another time"
        assert partition.nodes.get(preemption.node.id) is preemption.node, f"{name}: its node is not there"
        due_ms = preemption.at_ms + RELEASE_OVERDUE_MS
        timer = Timer(due_ms, "preemption", partition.name, app_id, key)
        if preemption.question:
            due_ms = preemption.at_ms + ANSWER_WITHIN_MS
            timer = Timer(due_ms, "predicate", partition.name, app_id, str(preemption.question))
        assert timer in timers or due_ms <= state.now_ms, f"{name}: nothing ends it"
    for uuid, a in partition.allocations.items():
        timer = Timer(a.releasing_ms + RELEASE_OVERDUE_MS, "release", partition.name, a.application.id, uuid)
        assert not a.releasing or a.overdue or timer in timers, f"allocation {uuid}: no timer for an overdue release"
    under_way = {p.pending for p in partition.preemptions.values()}
    for application in partition.applications.values():
        for key, pending in application.asks.items():
            assert (pending.preemption is not None) == (pending in under_way), (
                f"ask {application.id}/{key}: its preemption is not the partition's"
            )
